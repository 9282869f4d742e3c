"""history, log, stats, verify, replay, diff, why: what happened, what was known when, and why."""

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from eventlog import OnDropped, VerifyReport, load_heads
from eventlog.core.records import to_datetime
from eventlog.files.datafile import bytes_under
from memory_actors.base.records import HistoryEntry, Memory
from memory_actors.base.reports import Diff, LogEntry, Moment, Why
from memory_actors.base.statistics import SystemStatistics, SystemUsage
from memory_actors.cli import options
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.options import App, a_moment
from memory_actors.cli.output import (
    counted,
    local,
    note,
    print_for_programs,
    print_json_line,
    print_result,
    print_table,
    progress_bar,
    say,
    shortened,
    size,
    table,
    text,
)
from memory_actors.cli.running import (
    check_store,
    chosen_user,
    ensure_model,
    opened,
    run,
    with_system,
)
from memory_actors.cli.showing import memory_table, short_id
from memory_actors.kinds.effects import Effect, effect, verb_of
from memory_actors.sharing.address import is_shared
from memory_actors.sharing.system import MemorySystem
from memory_actors.upkeep.offline.verifying import verify_store

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
FINDINGS_SHOWN_MAX = 20
DETAIL_CHARACTERS_MAX = 120
TEXT_FIELDS = (
    "content",
    "name",
    "source",
    "relation",
    "target",
    "fact",
    "goal",
    "action",
    "result",
)
SHOWN_FIELDS = (
    *TEXT_FIELDS, "observations", "observation", "outcome", "error", "collection", "key", "value",
    "failed", "valid_from_us", "valid_to_us", "metadata", "cause", "evicted", "evicted_ids",
    "closed_ids", "relationship_ids", "memory_ids",
)  # fmt: skip
"""The event fields that `log` shows, in this order."""


@mirrors("history")
def history(entries: list[HistoryEntry]) -> None:
    """Show every event that touched a memory, also of one that is deleted."""
    events = table(
        "position", "time", "event", "what", right=("position",), whole=("time", "event")
    )
    for entry in entries:
        cause = " ".join(entry.cause.values())
        event = text(entry.event) + text(f"\n{cause}", "dim")
        events.add_row(str(entry.position), local(entry.recorded_at), event, text(what(entry.data)))
    print_table(events)


def what(data: Mapping[str, object]) -> str:
    """Summarise the change of an event in one line."""
    told = "  ".join(_told(name, data[name]) for name in SHOWN_FIELDS if data.get(name))
    return shortened(told, DETAIL_CHARACTERS_MAX)


def _told(name: str, value: Any) -> str:
    """Return a field: the texts that an event is about without its name."""
    if name.endswith("_us"):
        return f"{name.removesuffix('_us')}: {local(to_datetime(value))}"
    if name == "observations":
        return "; ".join(observation["text"] for observation in value)
    shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return shown if name in TEXT_FIELDS else f"{name}: {shown}"


@options.command(shared=options.OF_STORE)
@click.option("--against", type=FILE, help="Also check that history up to these heads is the same.")
@click.option("--public-key", type=FILE, help="Verify the signature of the heads with it.")
def verify(app: App, /, against: Path | None, public_key: Path | None) -> None:
    """Check every event against its checksum and chain, and every state against a replay.

    It reads in a process of its own, which a badly damaged file may end. If a process has the store
    open, that one checks the events; states and indexes are checked when it has closed it. For a
    store in a database it checks only the events.
    """
    if public_key is not None and against is None:
        raise click.UsageError("--public-key goes with --against")
    check_store(app)
    heads = None if against is None else load_heads(against, public_key)
    with progress_bar("Verifying", quiet=app.json) as progress:
        if app.url is not None or is_shared(app.directory):
            report = with_system(app, lambda memory: memory.verify(progress, against=heads))
        else:
            report = verify_store(app.directory, progress, against=heads, key_file=app.key_file)
    if not print_for_programs(app, {"ok": report.ok, **msgspec.structs.asdict(report)}):
        _print_report(report)
    if not report.ok:
        raise click.exceptions.Exit(1)


def _print_report(report: VerifyReport) -> None:
    say(f"{report.events:,} events of {report.streams:,} users checked.")
    if report.unread_events:
        say(f"{report.unread_events:,} cannot be read: their key is not here.", "yellow")
    if report.ok:
        say("✓ Everything is as it was written.", "green")
        return
    say(
        f"✗ {len(report.findings):,} findings. Restore a backup; until then read, do not write.",
        "red",
    )
    for finding in report.findings[:FINDINGS_SHOWN_MAX]:
        where = f"position {finding.position}" if finding.position else f"stream {finding.stream}"
        say(f"  {where}: {finding.message}")


STYLES: Mapping[str, str] = {
    Effect.ADDED: "green",
    Effect.RESTORED: "cyan",
    Effect.CHANGED: "yellow",
    Effect.COMPRESSED: "magenta",
}
GONE = "red"
"""The style of every other effect."""


def style_of(done: str) -> str:
    """Return the colour of an effect."""
    return STYLES.get(done, GONE)


# --- log


@options.command()
@click.option("--after", type=options.Count(min=0), help="Only what stands behind this position.")
@options.a_time("--since", help="Only what was recorded at this time or later.")
@options.a_time("--until", help="Only what was recorded before this time.")
@click.option(
    "--limit", type=options.Count(min=1), default=50, show_default=True,
    help="How many at most: the first behind --after or --since, else the last.",
)  # fmt: skip
@click.option("--follow", is_flag=True, help="Go on with each new event (JSON: one a line).")
def log(
    app: App,
    /,
    after: int | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    follow: bool,
) -> None:
    """Show the log event by event: of all users, or of the one that --user names.

    If a process has the store open, it is asked; so --follow shows what an agent does.
    """

    async def there(memory: MemorySystem) -> list[LogEntry]:
        found: deque[LogEntry] = deque(maxlen=limit)
        async for entry in memory.events(app.user, after=after or 0, since=since, until=until):
            found.append(entry)
            if len(found) == limit and (after is not None or since is not None):
                break
        return list(found)

    async def followed() -> None:
        async with opened(app) as memory:
            position = after or 0
            for entry in await there(memory):
                _print_one(entry, as_json=app.json)
                position = entry.position
            async for entry in memory.events(app.user, after=position, until=until, follow=True):
                _print_one(entry, as_json=app.json)

    if follow:
        run(followed)
        return
    print_result(app, with_system(app, there), _print_log)


def _print_log(entries: list[LogEntry]) -> None:
    events = table(
        "position", "time", "user", "event", "what", right=("position",), whole=("time",)
    )
    day = ""
    for entry in entries:
        today, time = local(entry.recorded_at).split()
        if today != day:
            events.add_row("", text(today, "bold"), "", "", "")
            day = today
        cause = text(f"\n{' '.join(entry.cause.values())}", "dim")
        event = text(entry.event, _style(entry)) + cause
        events.add_row(
            str(entry.position), text(time), text(entry.user_id), event, text(what(entry.data))
        )
    print_table(events)
    if not entries:
        say("Nothing happened.")


def _print_one(entry: LogEntry, *, as_json: bool) -> None:
    if as_json:
        print_json_line(entry)
        return
    told = f"{entry.position:>8}  {local(entry.recorded_at)}  {entry.user_id}  {entry.event}"
    say(f"{told}  {what(entry.data)}", _style(entry))


def _style(entry: LogEntry) -> str:
    verb = verb_of(entry.event)
    return style_of(verb if verb in set(Effect) else effect(entry.event, None, ""))


# --- users, stats


@mirrors("system.users")
def users(found: Sequence[str]) -> None:
    """List the users who ever had a memory."""
    for user_id in found:
        say(user_id)


@options.command(shared=options.OF_STORE)
def stats(app: App, /) -> None:
    """Show the size of the store: users, events, bytes."""

    async def work(memory: MemorySystem) -> tuple[SystemUsage, SystemStatistics]:
        return await memory.usage(), memory.statistics()

    usage, statistics = with_system(app, work)
    stored = statistics.log.used_bytes if app.url else bytes_under(app.directory)
    if print_for_programs(app, {"usage": usage, "statistics": statistics, "file_bytes": stored}):
        return
    events = statistics.log.last_position
    say(f"{usage.users:,} users, {events:,} events, {size(stored)} on disk.")
    say("`memory-actors usage --all` shows the memories by type.", "dim")


CONTENT_CHARACTERS_MAX = 100  # of a memory before and after a change
MOMENT = f"a position of the log or a time ({options.LOCAL})"

left = click.option(
    "--left", "dropped", flag_value="mark", default="raise",
    help="Go on where retention has dropped something that was there then: with what is left.",
)  # fmt: skip


# --- replay


@options.command()
@click.argument("query", required=False)
@click.option("--as-of", type=a_moment, metavar="MOMENT", required=True, help=f"When: {MOMENT}.")
@options.types
@options.limit
@left
def replay(
    app: App,
    /,
    query: str | None,
    as_of: int | datetime,
    memory_types: Sequence[str],
    limit: int,
    dropped: OnDropped,
) -> None:
    """Show the memory as it was: what QUERY found then, or, without one, all that was there."""
    kinds = memory_types or None
    if query is not None:
        ensure_model(app)

    async def work(memory: MemorySystem) -> tuple[Moment, int, Sequence[Memory]]:
        user_id = await chosen_user(app, memory)
        async with memory.replay(user_id, as_of, dropped=dropped) as past:
            if query is None:
                return past.moment, past.lost, await past.list_memories(kinds, limit=limit)
            hits = await past.retrieve(query, memory_types=kinds, top_k=limit)
            return past.moment, past.lost, hits

    moment, lost, memories = with_system(app, work)
    if print_for_programs(app, {"moment": moment, "lost": lost, "memories": memories}):
        return
    say(f"As of {local(moment.at)}, position {moment.position:,}:", "bold")
    _say_lost(lost)
    where = f"for user {app.user_id} in {', '.join(memory_types) or 'any type of memory'}"
    nothing = f"Nothing {'there' if query is None else 'found'} {where}."
    print_table(memory_table(memories), nothing)


def _say_lost(lost: int) -> None:
    if lost:
        note(f"Retention has dropped {counted(lost, 'event')} about what was there.", "yellow")


# --- diff


@mirrors(
    "system.diff",
    a=click.argument("a", type=a_moment),
    b=click.argument("b", type=a_moment, required=False),
    dropped=left,
)
def diff(found: Diff) -> None:
    """Show the changes between the moments A and B, with their authors and causes.

    B is now, if it is missing. A moment is a position of the log, or a time such as
    2024-05-01T12:00, in local time unless it names a zone.
    """
    say(f"From position {found.a.position:,} to {found.b.position:,}:", "bold")
    _say_lost(found.lost)
    if found.tier_before != found.tier_after:
        say(f"Tier: {found.tier_before or 'none set'} → {found.tier_after}", "yellow")
    changes = table("change", "type", "memory", "why", whole=("change", "type"))
    for change in found.changes:
        contents = [
            shortened(memory.content, CONTENT_CHARACTERS_MAX)
            for memory in (change.before, change.after)
            if memory is not None
        ]
        said = text("\n→ ".join(dict.fromkeys(contents)))
        said += text(f"\n{short_id(change.memory_id)}", "dim")
        why = "\n".join(f"{step.says} (#{step.position})" for step in change.steps)
        style = style_of(change.change)
        kind = text(change.memory_type)
        changes.add_row(text(change.change, style), kind, said, text(why or "Its time was up."))
    print_table(changes, "Nothing changed.")


# --- why


@mirrors("why")
def why(found: Why) -> None:
    """Show why a memory is there, or no longer is: its life from the first event on."""
    print_why(found)


def print_why(found: Why) -> None:
    """Print the life of a memory, event by event, and how it stands now."""
    for step in found.steps:
        whose = "" if step.memory_id == found.memory_id else f" [{step.memory_id}]"
        say(f"● {local(step.at)}  {step.says}{whose}", style_of(step.effect))
        say(f"│ #{step.position} {step.event} {step.command or ''}".rstrip(), "dim")
    say(found.says, "bold")
    if found.originals:
        say(f"It was made of {', '.join(found.originals)}", "dim")

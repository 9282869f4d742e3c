"""log, stats: what happened in the whole store, and what is in it."""

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

import click

from eventlog.files.datafile import bytes_under
from memory_actors.api.statistics import SystemStatistics
from memory_actors.api.system import MemorySystem
from memory_actors.base.reports import LogEntry
from memory_actors.cli import options
from memory_actors.cli.audit import what
from memory_actors.cli.options import App, Command, pass_app
from memory_actors.cli.output import (
    local,
    print_json,
    print_json_line,
    print_table,
    say,
    size,
    table,
    text,
)
from memory_actors.cli.running import opened, run, with_system
from memory_actors.kinds.events import Effect, effect, verb_of
from memory_actors.users.usage import SystemUsage

STYLES: Mapping[str, str] = MappingProxyType(
    {
        Effect.ADDED: "green",
        Effect.RESTORED: "cyan",
        Effect.CHANGED: "yellow",
        Effect.COMPRESSED: "magenta",
    }
)
GONE = "red"
"""The style of every other effect."""


def style_of(done: str) -> str:
    """Return the colour of an effect."""
    return STYLES.get(done, GONE)


# --- log


@click.command(cls=Command)
@click.option("--after", type=options.Count(min=0), help="Only what stands behind this position.")
@options.a_time("--since", help="Only what was recorded at this time or later.")
@options.a_time("--until", help="Only what was recorded before this time.")
@click.option(
    "--limit", type=options.Count(min=1), default=50, show_default=True,
    help="How many at most: the first behind --after or --since, else the last.",
)  # fmt: skip
@click.option("--follow", is_flag=True, help="Go on with each new event (JSON: one a line).")
@pass_app
def log(
    app: App,
    /,
    after: int | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    follow: bool,
) -> None:
    """Show what happened, event by event: of all users, or of the one that --user names.

    It opens the store, so no other process may have it open meanwhile.
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
    entries = with_system(app, there)
    if app.json:
        print_json(entries)
    else:
        _print_log(entries)


def _print_log(entries: list[LogEntry]) -> None:
    """Print events as a timeline: a heading for each day, a row for each event."""
    events = table(
        "position", "time", "user", "event", "what", right=("position",), whole=("time",)
    )
    day = ""
    for entry in entries:
        today, time = local(entry.recorded_at).split()
        if today != day:
            events.add_row("", text(today, "bold"), "", "", "")
            day = today
        events.add_row(*_cells(entry, time))
    print_table(events)
    if not entries:
        say("Nothing happened.")


def _cells(entry: LogEntry, time: str) -> list[Any]:
    event = text(entry.event, _style(entry)) + text(f"\n{' '.join(entry.cause.values())}", "dim")
    return [str(entry.position), text(time), text(entry.user_id), event, text(what(entry.data))]


def _print_one(entry: LogEntry, *, as_json: bool) -> None:
    if as_json:
        print_json_line(entry)
        return
    told = f"{entry.position:>8}  {local(entry.recorded_at)}  {entry.user_id}  {entry.event}"
    say(f"{told}  {what(entry.data)}", _style(entry))


def _style(entry: LogEntry) -> str:
    verb = verb_of(entry.event)
    return style_of(verb if verb in set(Effect) else effect(entry.event, None, ""))


# --- stats


@click.command(cls=Command, shared=options.OF_STORE)
@pass_app
def stats(app: App, /) -> None:
    """Show what is in the store: users, events, memories, bytes."""

    async def work(memory: MemorySystem) -> tuple[SystemUsage, SystemStatistics]:
        return await memory.usage(), memory.statistics()

    usage, statistics = with_system(app, work)
    stored = bytes_under(app.directory)
    if app.json:
        print_json({"usage": usage, "statistics": statistics, "file_bytes": stored})
        return
    log = statistics.log
    say(f"{usage.users:,} users, {log.last_position:,} events, {size(stored)} on disk.")
    numbers = ("memories", "content", "in the log")
    held = table("type", *numbers, right=numbers)
    for kind, count in usage.counts.items():
        held.add_row(
            kind, f"{count:,}", size(usage.size_bytes[kind]), size(usage.stored_bytes[kind])
        )
    print_table(held)

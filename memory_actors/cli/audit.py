"""history, verify."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from eventlog import VerifyReport, load_heads
from eventlog.core.records import to_datetime
from memory_actors.base.records import HistoryEntry
from memory_actors.cli import options
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.options import App, Command, pass_app
from memory_actors.cli.output import (
    local,
    print_json,
    print_table,
    progress_bar,
    say,
    shortened,
    table,
    text,
)
from memory_actors.cli.running import check_store
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
"""Of the fields of all events those that people want to see, in this order."""


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


def what(data: Mapping[str, Any]) -> str:
    """Return what an event changed, in short."""
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


@click.command(cls=Command, shared=options.OF_STORE)
@click.option("--against", type=FILE, help="Also check that history up to these heads is the same.")
@click.option("--public-key", type=FILE, help="Whose signature the heads must have.")
@pass_app
def verify(app: App, /, against: Path | None, public_key: Path | None) -> None:
    """Check every event against its checksum and chain, and every state against a replay.

    It reads in a process of its own, which a badly damaged file may end.
    """
    if public_key is not None and against is None:
        raise click.UsageError("--public-key goes with --against")
    check_store(app)
    heads = None if against is None else load_heads(against, public_key)
    with progress_bar("Verifying", quiet=app.json) as moved:
        report = verify_store(app.directory, moved, against=heads, key_file=app.key_file)
    if app.json:
        print_json({"ok": report.ok, **msgspec.structs.asdict(report)})
    else:
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

"""compact; compaction stats, expand, undo."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from signal import SIGINT
from typing import Any

import click
import msgspec

from memory_actors.base.records import Memory, Receipt
from memory_actors.base.reports import (
    ClusterReport,
    CompactionProgress,
    CompactionReport,
    CompactionStats,
)
from memory_actors.cli import options
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.options import App, Group, is_given
from memory_actors.cli.output import (
    counted,
    local,
    note,
    print_result,
    print_table,
    progress_bar,
    say,
    shortened,
    size,
    table,
    text,
)
from memory_actors.cli.running import check_store, ensure_model, note_unknown, opening, run
from memory_actors.cli.showing import memory_table, short_id
from memory_actors.compaction.summarizers import ExtractiveSummarizer, OpenAISummarizer, Summarizer
from memory_actors.interchange import Progress

INTERRUPTED = 130
STEPS = 1000  # of the progress bar
CLUSTERS_SHOWN_MAX = 30
SAMPLE_CHARACTERS_MAX, SUMMARY_CHARACTERS_MAX = 80, 300
REASONS_SHOWN_MAX = 5
REPLACED = ("compressed", "would_compress")
SUMMARIZERS: dict[str, Callable[[], Summarizer]] = {
    "extractive": ExtractiveSummarizer,
    "llm": OpenAISummarizer,
}


# --- compact


@options.command()
@click.option("--dry-run", is_flag=True, help="Change nothing: show what would be compressed.")
@click.option("--older-than", metavar="AGE", help="Such as 90d.  [default: as the settings say]")
@click.option(
    "--episodes/--no-episodes",
    default=None,
    help="Also episodes that ended, each agent's apart.  [default: as the settings say]",
)
@click.option(
    "--summarizer", "name", type=click.Choice(list(SUMMARIZERS)), default="extractive",
    show_default=True, help="llm takes model, URL and key from MEMORY_ACTORS_LLM_… variables.",
)  # fmt: skip
def compact(app: App, /, name: str, **asked: object) -> None:
    """Replace old memories that are about the same by summaries: of all users, or of --user.

    Nothing is lost: `compaction expand` shows the originals, `compaction undo` brings them back.
    Ctrl-C stops after the cluster in hand; what was done remains. A process that has the store open
    does it with its own summarizer: another one that is named here is refused.
    """
    check_store(app)
    summarizer = SUMMARIZERS[name]()
    ensure_model(app)
    with progress_bar("Compacting", quiet=app.json) as progress:
        report = run(lambda: _compacted(app, summarizer, asked, progress))
    print_result(app, report, _print_report, _for_programs)
    if report.cancelled:
        raise click.exceptions.Exit(INTERRUPTED)


async def _compacted(
    app: App, summarizer: Summarizer, asked: Mapping[str, Any], progress: Progress
) -> CompactionReport:
    own = ["summarizer"] if is_given("name") else []
    # Compacting frees room, so no quota raises an alert.
    async with opening(app, asked=own, summarizer=summarizer, alerts=[]) as memory:
        await note_unknown(app, memory)
        with _stopped_by_ctrl_c() as stop:

            def on_progress(at: CompactionProgress) -> None:
                of_user = at.clusters_done / at.clusters_total if at.clusters_total else 0.0
                share = min(1.0, (at.users_done + of_user) / max(1, at.users_total))
                progress(int(STEPS * share), STEPS)

            return await memory.compact(app.user, progress=on_progress, stop=stop, **asked)


@contextmanager
def _stopped_by_ctrl_c() -> Iterator[asyncio.Event]:
    """Hold an event that the first Ctrl-C sets. The second interrupts as it does elsewhere."""
    stop, loop, before = asyncio.Event(), asyncio.get_running_loop(), signal.getsignal(SIGINT)

    def set_event() -> None:
        stop.set()
        note("Stopping after the cluster in hand …", "yellow")

    def on_first(_number: int, _frame: object) -> None:
        signal.signal(SIGINT, before)
        loop.call_soon_threadsafe(set_event)

    signal.signal(SIGINT, on_first)
    try:
        yield stop
    finally:
        signal.signal(SIGINT, before)


def _for_programs(report: CompactionReport | CompactionStats) -> dict[str, object]:
    saved = {"bytes_saved": report.bytes_saved, "compression_ratio": report.compression_ratio}
    return {**msgspec.structs.asdict(report), **saved}


# --- what is said of it


def _print_report(report: CompactionReport) -> None:
    replaced = [one for one in report.clusters if one.outcome in REPLACED]
    if replaced:
        _print_clusters(replaced, report.compressed)
        say("")
    _say_done(report)
    left = [one for one in report.clusters if one.outcome not in REPLACED]
    if left:
        say(f"{counted(len(left), 'cluster')} left as before; the next run tries again:", "yellow")
    reasons = Counter(one.reason or one.outcome for one in left)
    for why, count in reasons.most_common(REASONS_SHOWN_MAX):
        say(f"  {count:,}: {why}")
    if report.users_failed:
        say(f"{counted(report.users_failed, 'user')} could not be read or written.", "yellow")
    if report.cancelled:
        note("Interrupted: the rest is as it was. Run it again to go on.", "yellow")


def _print_clusters(clusters: Sequence[ClusterReport], count: int) -> None:
    """Print what saves most first, of the clusters that the report holds."""
    with_users = len({one.user_id for one in clusters}) > 1
    right = ("memories", "before", "after")
    names = ("user",) if with_users else ()
    made = table(*names, "period", *right, "sample", right=right, whole=("period",))
    by_saved = sorted(clusters, key=lambda one: one.bytes_after - one.bytes_before)
    for one in by_saved[:CLUSTERS_SHOWN_MAX]:
        user = [text(one.user_id)] if with_users else []
        days = [local(time).split()[0] for time in (one.time_range_start, one.time_range_end)]
        lines = "\n".join(shortened(line, SAMPLE_CHARACTERS_MAX) for line in one.sample)
        would_be = shortened(one.summary or "", SUMMARY_CHARACTERS_MAX)
        made.add_row(
            *user, " to ".join(dict.fromkeys(days)), f"{one.original_count:,}",
            size(one.bytes_before), size(one.bytes_after),
            text(lines) + text(f"\n{short_id(one.memory_id or '') or would_be}", "dim"),
        )  # fmt: skip
    print_table(made)
    more = count - min(len(clusters), CLUSTERS_SHOWN_MAX)
    if more > 0:
        say(f"… and {counted(more, 'cluster')} more: --json shows them.", "dim")


def _say_done(report: CompactionReport) -> None:
    considered = counted(report.memories_considered, "old memory", "old memories")
    if not report.originals:
        say(f"Nothing to compress: {considered}, none of them enough alike.")
        return
    would = "Would compress" if report.dry_run else "Compressed"
    say(
        f"{would} {report.originals:,} of {considered} into "
        f"{counted(report.compressed, 'summary', 'summaries')}: "
        f"{size(report.bytes_before)} to {size(report.bytes_after)}, {size(report.bytes_saved)} "
        f"saved ({_percent(report.bytes_saved, report.bytes_before)})."
    )
    if not report.dry_run:
        files = f"{size(report.file_bytes_before)} to {size(report.file_bytes_after)}"
        say(f"Files: {files}. It took {report.took_s:,.1f} s.", "dim")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


# --- compaction


@click.group(cls=Group)
def compaction() -> None:
    """Look at summaries of old memories, or take them back."""


@mirrors("system.compaction_stats", compaction, as_json=_for_programs)
def stats(found: CompactionStats) -> None:
    """Show how much was compressed: of all users, or of --user."""
    right = ("summaries", "originals", "before", "after", "saved")
    made = table(*right, right=right)
    made.add_row(
        f"{found.summaries:,}", f"{found.originals:,}", size(found.bytes_before),
        size(found.bytes_after), _percent(found.bytes_saved, found.bytes_before),
    )  # fmt: skip
    print_table(made)
    say("Compaction runs when asked, and by itself while `serve` runs (--compact-at).", "dim")


@mirrors("expand", compaction)
def expand(memories: Sequence[Memory]) -> None:
    """Show the memories that a summary stands for, as they were."""
    print_table(memory_table(memories))


@mirrors("undo_compaction", compaction, "undo")
def undo(receipts: Sequence[Receipt], compressed_id: str) -> None:
    """Bring back the memories that a summary stands for, and drop it. All or none."""
    say(f"Restored {counted(len(receipts), 'memory', 'memories')} in place of {compressed_id}.")

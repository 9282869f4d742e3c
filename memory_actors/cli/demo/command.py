"""demo: runs `memory_actors.cli.demo` and prints what came of it."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from memory_actors.cli import options
from memory_actors.cli.audit import print_history
from memory_actors.cli.demo import DemoReport, LocomoReport, run_demo, run_locomo
from memory_actors.cli.demo.context_document import ContextReport
from memory_actors.cli.demo.facts import QUERY, FactsReport
from memory_actors.cli.demo.improving import ImprovingReport
from memory_actors.cli.demo.limits import LimitsReport
from memory_actors.cli.demo.locomo import Row
from memory_actors.cli.demo.run import USER_ID, Asked
from memory_actors.cli.options import App, Command, pass_app
from memory_actors.cli.output import (
    counted,
    local,
    print_json,
    print_table,
    progress_bars,
    say,
    shortened,
    stdout,
    table,
    text,
)
from memory_actors.cli.quotas import print_cost, print_quotas
from memory_actors.cli.running import ensure_model, log_to_stderr, run
from memory_actors.interchange import open_file

HITS_SHOWN = 3
HIT_CHARACTERS_MAX = 160
DIFF_LINES_SHOWN = 6


@click.command(cls=Command, shared=(*options.OF_DIRECTORY, "user", "embedder"))
@click.argument("path", type=click.Path(path_type=Path), required=False)
@pass_app
def demo(app: App, /, path: Path | None) -> None:
    """Import a conversation, ask questions, close the store, open it again and check it.

    Then facts change, a memory gets full, a context document makes room, and a note is improved.

    Uses the bundled conversation, or the LoCoMo file at PATH. The store is a temporary one unless
    --data names a directory.
    """
    if path is not None:
        open_file(path).close()
    ensure_model(app)
    log_to_stderr(logging.ERROR)  # what it fills and prunes on purpose it tells itself
    with _directory(app) as directory:
        if path is None:
            _bundled(app, directory)
        else:
            _locomo(app, directory, path)


@contextmanager
def _directory(app: App, /) -> Iterator[Path]:
    """Hold the directory that --data names, or a temporary one; never the user's usual memory."""
    if app.data is not None:
        yield app.directory
        return
    with TemporaryDirectory(prefix="memory-actors-demo-") as scratch:
        yield Path(scratch)


# --- the bundled conversation


def _bundled(app: App, directory: Path) -> None:
    user_id = USER_ID if app.user is None else app.user
    report = run(lambda: run_demo(directory, user_id=user_id, embedder=app.model))
    if app.json:
        print_json(report)
    else:
        _print_demo(report)


def _print_demo(report: DemoReport) -> None:
    _heading("1  Remember")
    say(
        f"A conversation of {report.sessions} sessions, one memory a turn: {report.memories} "
        f"memories, stored and indexed in {report.import_s:.1f} s."
    )
    _heading("2  Find")
    say("Ten questions. ● marks a turn that answers the question.")
    for number, asked in enumerate(report.questions, start=1):
        _print_asked(number, asked)
    _heading("3  Count")
    _print_recall(report.turn_recall_at_5, report.turn_recall_at_10)
    say("Of the turns that answer a question, this part is among the first 5 and 10 found.", "dim")
    _heading("4  Close, open again")
    _print_reopened(report)
    _heading(f"5  Why is {report.history_of} here?")
    print_history(report.history)
    _heading("6  Facts change")
    _print_facts(report.facts)
    _heading("7  A memory gets full")
    _print_limits(report.limits)
    _heading("8  The document in every prompt")
    _print_context(report.context)
    _heading("9  A text gets better")
    _print_improving(report.improving)
    _heading("Times")
    _print_times(report)


def _print_times(report: DemoReport) -> None:
    again = report.reopened
    times = {
        "import": f"{report.import_s:.2f} s",
        "a question (median)": f"{report.retrieve_ms_median:.1f} ms",
        "opening again": f"{again.open_s * 1e3:.0f} ms",
        "verifying": f"{again.verify_s * 1e3:.0f} ms",
    }
    say("   ".join(f"{what} {took}" for what, took in times.items()))


def _print_asked(number: int, asked: Asked) -> None:
    say(f"\n{number}. {asked.question}", "bold")
    say(f"   Known answer: {asked.answer}")
    hits = table("", "score", "when", "id", "memory", right=("score",))
    for hit in asked.hits[:HITS_SHOWN]:
        hits.add_row(
            "   " + ("●" if hit.evidence else " "), f"{hit.score:.3f}", local(hit.occurred_at),
            text(hit.memory_id),
            text(shortened(hit.content, HIT_CHARACTERS_MAX)),
        )  # fmt: skip
    print_table(hits)
    say(f"   {_verdict(asked)}", "dim")


def _verdict(asked: Asked) -> str:
    ranks = {hit.memory_id: rank for rank, hit in enumerate(asked.hits, start=1)}
    places = [
        f"{turn} at {ranks[turn]}" if turn in ranks else f"{turn} not found"
        for turn in asked.evidence
    ]
    found = sum(turn in ranks for turn in asked.evidence)
    return f"Evidence in the top 10: {found} of {len(asked.evidence)} ({', '.join(places)})"


def _print_recall(at_5: float, at_10: float) -> None:
    say(f"turn recall@5:  {at_5:.3f}")
    say(f"turn recall@10: {at_10:.3f}")


def _print_reopened(report: DemoReport) -> None:
    again = report.reopened
    same = again.memories_before == again.memories_after
    _say_whether(
        same, f"{again.memories_after} memories are there, and {again.memories_before} were before"
    )
    _say_whether(again.ok, f"{again.events} events checked against their checksums and chain")


def _print_facts(facts: FactsReport) -> None:
    say(
        f"A graph of {facts.entities} entities and {facts.relationships} relationships, each true "
        "from a time on. A fact that contradicts another ends it; nothing is overwritten."
    )
    for when, true in ((f"{facts.asked_at:%d %B %Y}", facts.then), ("Now", facts.now)):
        said = ", ".join(f"{r.relation.replace('_', ' ')} {r.target}" for r in true)
        say(f"   {when}: Maya {said}")
    for over in facts.ended:
        say(f"   Over: {over.source} {over.relation} {over.target}, until {over.valid_to:%d %B %Y}")
    near = ", ".join(f"{n.entity.name} ({n.distance})" for n in facts.neighbours)
    say(f"   Within two steps of Theo: {near}")
    say(f"   Found by meaning, for {QUERY!r}: {facts.found[0].content}")


def _print_limits(limits: LimitsReport) -> None:
    used = limits.full
    say(f"Another user, of tier {used.tier}, remembers until nothing fits any more:")
    print_quotas(used, ("long_term",))
    for alert in limits.alerts:
        colour = "red" if alert.level == "critical" else "yellow"
        say(f"   alert: {alert.quota} {alert.level} at {alert.used} of {alert.limit}", colour)
    say(f"   One more: {limits.refused}")
    say(
        f"   With auto-prune: {len(limits.pruned)} of the oldest went ({limits.pruned[0]} to "
        f"{limits.pruned[-1]}), {limits.after_prune} memories are left."
    )
    say(
        f"   Undone: tier {limits.tier}, {limits.restored} restored, "
        f"{limits.after_restore} memories. One event each; the log has it all."
    )
    print_cost(limits.cost)


def _print_context(context: ContextReport) -> None:
    warned, made_room = context.warned_at, context.made_room
    if warned is not None and warned.warning is not None:
        say(f"   At {warned.tokens:,} tokens: {warned.warning}", "yellow")
    say(f"   One more, at {context.entries} entries: {context.refused}")
    say(f"   With auto-archive: {len(made_room.archived)} of the stalest entries went.")
    for line in made_room.message.splitlines():
        say(f"   {line}")
    for hit in context.found:
        said = shortened(hit.text, HIT_CHARACTERS_MAX)
        say(f"   In the archive, for {context.query!r}: {said} ({hit.section})")
    say(f"   Restored to its place: {context.restored.tokens:,} tokens.")
    _say_whether(context.same_bytes, "archive, then restore: the same bytes")


def _print_improving(improved: ImprovingReport) -> None:
    found = ", ".join(f"{kind} ({count})" for kind, count in improved.found.items())
    say(f"A handover note of {improved.words_before} words. Found without a model: {found}.")
    scores = " → ".join(f"{score:.2f}" for score in improved.scores)
    say(
        f"Score after each round: {scores}; {improved.words_after} words, ended: "
        f"{improved.stopped_because.replace('_', ' ')}."
    )
    for line in improved.diff[:DIFF_LINES_SHOWN]:
        colour = "green" if line.startswith("+") else "red"
        say(f"   {shortened(line, HIT_CHARACTERS_MAX)}", colour)
    _say_whether(
        improved.same,
        f"{counted(improved.rounds_recorded, 'round')} in the log, the text among them",
    )


def _say_whether(good: bool, what: str) -> None:
    say(f"{'✓' if good else '✗'} {what}", "green" if good else "red")


# --- a LoCoMo file


def _locomo(app: App, directory: Path, path: Path) -> None:
    with progress_bars("Importing", "Asking", quiet=app.json) as (importing, asking):
        report = run(
            lambda: run_locomo(
                directory, path, embedder=app.model, importing=importing, asking=asking
            )
        )
    if app.json:
        print_json(report)
    else:
        _print_locomo(report)


def _print_locomo(report: LocomoReport) -> None:
    say(
        f"{report.conversations} conversations, {report.turns:,} turns, one memory a turn; "
        f"{report.questions:,} questions with evidence."
    )
    _heading("Recall")
    _print_recall(report.turn_recall_at_5, report.turn_recall_at_10)
    _print_rows("category", report.by_category)
    _print_rows("conversation", report.by_conversation)
    _heading("Times")
    say(f"import {report.import_s:.1f} s   all questions {report.questions_s:.1f} s")


def _print_rows(name: str, rows: Sequence[Row]) -> None:
    right = ("questions", "recall@5", "recall@10")
    shown = table(name, *right, right=right)
    for row in rows:
        shown.add_row(
            text(row.name), f"{row.questions:,}",
            f"{row.turn_recall_at_5:.3f}", f"{row.turn_recall_at_10:.3f}",
        )  # fmt: skip
    stdout().print()
    print_table(shown)


def _heading(title: str) -> None:
    say(f"\n{title}", "bold cyan")

"""demo: a conversation is remembered and asked about, a writer is killed, and nothing is lost."""

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from random import randint
from statistics import fmean, median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final
from urllib.parse import urlencode

import anyio
import click
import msgspec
from rich.bar import Bar

from memory_actors.api.user import UserMemory
from memory_actors.base.processes import python, started
from memory_actors.base.records import Hit, Item, JsonObject, Relationship
from memory_actors.base.weights import SIGNALS, Weights
from memory_actors.cli import options
from memory_actors.cli.log import print_why
from memory_actors.cli.options import App
from memory_actors.cli.output import print_json, print_table, say, shortened, table
from memory_actors.cli.running import ONE_CALL, ensure_model, install_default, log_to_stderr, run
from memory_actors.cli.serve import show_dashboard
from memory_actors.interchange import Line
from memory_actors.kinds.passages import spoken
from memory_actors.server import check_installed
from memory_actors.sharing.system import MemorySystem, open_or_join

USER: Final = "demo"
SHOWN: Final = "What is the name of Maya's dog?"
"""The first question that the dashboard is asked."""
BEFORE: Final = "2024-12-24"  # a week and a half before Maya moved
VECTORS_ALONE: Final = Weights(**{name: float(name == "meaning") for name in SIGNALS})
BAR_CELLS: Final = 30
NAMES: Final = ("all signals", "meaning alone")
WRITERS: Final = 8
WRITES: Final = (20, 60)
"""From how many acknowledged writes to how many, by chance, the writing process lives."""


# --- questions, and the turns that answer them


class AskedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question, the turns that answer it, and what was found."""

    question: str
    answer: str
    evidence: Sequence[str]
    recall_at_5: float = 0.0
    """The part of the evidence that is among the first 5 hits."""
    recall_at_10: float = 0.0
    retrieve_ms: float = 0.0
    hits: list[Hit] = []


class FoundEvidence(msgspec.Struct, frozen=True):
    """Mean recall of turns over some questions."""

    turn_recall_at_5: float
    turn_recall_at_10: float


async def ask(
    user: UserMemory, one: AskedQuestion, weights: Weights | None = None
) -> AskedQuestion:
    """Ask a question, and return it with its hits and their recall."""
    began_s = perf_counter()
    hits = await user.retrieve(one.question, top_k=10, weights=weights)
    took_ms = (perf_counter() - began_s) * 1e3
    found, wanted = [hit.memory_id for hit in hits], {*one.evidence}
    at_5, at_10 = (len(wanted & {*found[:k]}) / len(wanted) for k in (5, 10))
    return msgspec.structs.replace(
        one, hits=hits, retrieve_ms=took_ms, recall_at_5=at_5, recall_at_10=at_10
    )


def recall(asked: Sequence[AskedQuestion]) -> FoundEvidence:
    """Return the mean recall of some questions."""
    return FoundEvidence(
        fmean(one.recall_at_5 for one in asked), fmean(one.recall_at_10 for one in asked)
    )


# --- the command


@options.command(shared=(*options.OF_DIRECTORY, "user", "embedder"))
@click.option("--ui", is_flag=True, help="See it in a browser afterwards, until Ctrl-C.")
def demo(app: App, /, ui: bool) -> None:
    """Import a conversation, ask questions, kill a writer and see that nothing is lost.

    The store is a temporary one unless --data names a directory. --ui needs the extra `server`.
    """
    if ui:
        check_installed()
    if app.data is None:  # else the store may be open in a process that has a model
        install_default(app)
    else:
        ensure_model(app)
    log_to_stderr(logging.ERROR)
    with _directory(app) as directory:
        told = run(lambda: _bundled(app, directory))
        if app.json:
            print_json(told)
        if ui:
            asked = urlencode({"user": app.user or USER, "q": SHOWN})
            show_dashboard(replace(app, data=directory), at=f"#/search?{asked}")


@contextmanager
def _directory(app: App) -> Iterator[Path]:
    """Hold the directory that --data names, or a temporary one; never the user's usual memory."""
    if app.data is not None:
        yield app.directory_or("the demo kills a process that has a directory; leave --data out")
        return
    with TemporaryDirectory(prefix="memory-actors-demo-") as scratch:
        yield Path(scratch)


async def _bundled(app: App, directory: Path) -> dict[str, object]:
    async with open_or_join(directory, asked=app.asked, embedder=app.model) as memory:
        user, said, began_s = memory.user(app.user or USER), turns(), perf_counter()
        await user.add_many(said)
        import_s = perf_counter() - began_s
        asked = [await ask(user, one) for one in known_questions()]
        by_vectors = [await ask(user, one, VECTORS_ALONE) for one in known_questions()]
        answers = [hit for one in asked for hit in one.hits if hit.memory_id in one.evidence]
        why = await user.why((answers or asked[0].hits)[0].memory_id)
        then, now = await facts(memory.user("demo facts"), BEFORE)
        memories = await user.count()
    row, vectors = recall(asked), recall(by_vectors)
    told = {
        "memories": memories,
        "sessions": len({turn.session_id for turn in said}),
        "import_s": import_s,
        "retrieve_ms_median": median(one.retrieve_ms for one in asked),
        "turn_recall_at_5": row.turn_recall_at_5,
        "turn_recall_at_10": row.turn_recall_at_10,
        "vectors_alone": vectors,
        "questions": asked,
        "killed": await kill(directory / "killed"),
        "why": why,
        "facts": {"then": then, "now": now},
    }
    if not app.json:
        _print_bundled(told, [(asked, row), (by_vectors, vectors)])
    return told


def _print_bundled(
    told: JsonObject, runs: Sequence[tuple[Sequence[AskedQuestion], FoundEvidence]]
) -> None:
    say("1  Remember", "bold cyan")
    say(
        f"A conversation of {told['sessions']} sessions, one memory a turn: {told['memories']} "
        f"memories, stored and indexed in {told['import_s']:.1f} s."
    )
    say("\n2  Find", "bold cyan")
    say("Ten questions, and the first memory that each finds. ● marks a turn that answers it.")
    for number, one in enumerate(runs[0][0], start=1):
        _print_asked(number, one)
    say("\nThe questions whose first hit answers, and the part of their turns in the top 5 and 10,")
    say("beside what the vectors find without the other signals:\n")
    _draw_recall(runs)
    say(f"A question takes {told['retrieve_ms_median']:.1f} ms (median).", "dim")
    say("\n3  A kill in mid-write", "bold cyan")
    killed = told["killed"]
    say(f"Another process wrote notes, {WRITERS} at a time, until it was killed (SIGKILL).")
    good = not killed.lost and killed.acknowledged > 0
    _say_whether(
        good,
        f"{killed.acknowledged} writes were acknowledged, {killed.lost} of them are lost "
        f"({killed.more} more, cut off before their acknowledgement, are there, too)",
    )
    _say_whether(killed.ok, "every event matches its checksum and its chain")
    say(f"\n4  Why is {told['why'].memory_id} here?", "bold cyan")
    print_why(told["why"])
    say("\n5  A fact changes", "bold cyan")
    say("Maya lived in Bristol, and has moved to Glasgow. The second fact ended the first.")
    for when, true in ((f"On {BEFORE}", told["facts"]["then"]), ("Now", told["facts"]["now"])):
        say(f"   {when}: " + ", ".join(f"{one.source} lives in {one.target}" for one in true))


def _print_asked(number: int, asked: AskedQuestion) -> None:
    ranks = {hit.memory_id: rank for rank, hit in enumerate(asked.hits, start=1)}
    first = asked.hits[0]
    mark = "●" if first.memory_id in asked.evidence else " "
    places = ", ".join(
        f"{turn} at {ranks[turn]}" if turn in ranks else f"{turn} not found"
        for turn in asked.evidence
    )
    say(f"\n{number}. {asked.question}", "bold")
    say(f"   Known answer: {asked.answer}")
    say(f" {mark} {first.memory_id}  {shortened(spoken(first.content, first.role), 160)}")
    say(f"   Evidence in the top 10: {places}", "dim")


def _draw_recall(runs: Sequence[tuple[Sequence[AskedQuestion], FoundEvidence]]) -> None:
    bars = table("", " ", "  ", right=("  ",))
    bars.show_header = False
    for name, colour, (asked, row) in zip(NAMES, ("green", "blue"), runs, strict=True):
        first = sum(one.hits[0].memory_id in one.evidence for one in asked) / len(asked)
        for what, part in (
            ("first hit", first),
            ("recall@5", row.turn_recall_at_5),
            ("recall@10", row.turn_recall_at_10),
        ):
            bar = Bar(1, 0, part, width=BAR_CELLS, color=colour)
            bars.add_row(f"{what}, {name}", bar, f"{part:.2f}")
    print_table(bars)


def _say_whether(good: bool, what: str) -> None:
    say(f"{'✓' if good else '✗'} {what}", "green" if good else "red")


# --- the conversation, and a fact


def turns() -> list[Item]:
    """Return the bundled conversation, one memory a turn."""
    lines = (files(__package__) / "conversation.jsonl").read_bytes()
    return [
        Item(
            content=str(line.content),
            occurred_at=str(line.timestamp),
            session_id=line.session,
            role=line.role,
            memory_id=line.id,
        )
        for line in msgspec.json.Decoder(Line).decode_lines(lines)
    ]


def known_questions() -> list[AskedQuestion]:
    """Return the bundled questions."""
    return msgspec.json.decode(
        (files(__package__) / "questions.json").read_bytes(), type=list[AskedQuestion]
    )


async def facts(user: UserMemory, then: str) -> tuple[list[Relationship], list[Relationship]]:
    """Tell where Maya lives, and where she has moved to; return what is known of then and now."""
    for name, kind in (("Maya", "person"), ("Bristol", "city"), ("Glasgow", "city")):
        await user.entities.add_entity(name, kind)
    await user.entities.relate("Maya", "lives_in", "Bristol", valid_from="2024-09-07")
    await user.entities.relate("Maya", "lives_in", "Glasgow", valid_from="2025-01-04")
    graph = user.entities
    return await graph.relationships("Maya", as_of=then), await graph.relationships("Maya")


# --- a kill in mid-write


class Killed(msgspec.Struct, frozen=True, kw_only=True):
    """The store of a process that was killed while it wrote."""

    acknowledged: int
    lost: int
    more: int
    """Writes that are there, too, though the kill came before their acknowledgement."""
    ok: bool
    """True if every event matches its checksum and its chain."""


class Wordless:
    """An embedder that costs nothing, for notes that nobody searches."""

    fingerprint = "wordless"
    dimension = 2

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one fixed vector for every text."""
        return [[1.0, 0.0] for _ in texts]


def write_for_ever(directory: str) -> None:
    """Add notes and print the id of each that was acknowledged: the process to be killed."""
    log_to_stderr()

    async def writing(user: UserMemory, writer: int) -> None:
        for number in range(sys.maxsize):
            receipt = await user.add(f"Note {number} of writer {writer}")
            print(receipt.memory_id, flush=True)

    async def whole() -> None:
        async with _opened(Path(directory)) as memory, anyio.create_task_group() as group:
            for writer in range(WRITERS):
                group.start_soon(writing, memory.user("writer"), writer)

    anyio.run(whole)


async def kill(directory: Path) -> Killed:
    """Kill a process in mid-write, and look in its store for all that it had acknowledged."""
    code = f"import sys; from {__name__} import write_for_ever; write_for_ever(sys.argv[1])"
    with started(python(code, directory)) as writing:
        assert writing.stdout is not None
        lines = [writing.stdout.readline() for _ in range(randint(*WRITES))]  # noqa: S311
        writing.kill()
        lines += writing.stdout.readlines()
    acknowledged = {line.decode().strip() for line in lines if line.endswith(b"\n")}
    async with _opened(directory) as memory:
        there = {one.memory_id async for one in memory.user("writer").export()}
        report = await memory.verify()
    return Killed(
        acknowledged=len(acknowledged),
        lost=len(acknowledged - there),
        more=len(there - acknowledged),
        ok=report.ok,
    )


def _opened(directory: Path) -> AbstractAsyncContextManager[MemorySystem]:
    return MemorySystem.open(directory, embedder=Wordless(), settings=ONE_CALL)

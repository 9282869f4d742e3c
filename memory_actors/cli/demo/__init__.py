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
NAMES: Final = ("here", "cosine")
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

    @property
    def rank(self) -> int | None:
        """The place of the first right hit, from 1, or None without one."""
        found = (n for n, hit in enumerate(self.hits, start=1) if hit.memory_id in self.evidence)
        return next(found, None)


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
        elif not app.json:
            say("\nAdd --ui to see this in a browser. Build with it: docs/chat-agent.md", "dim")


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
    row = recall(asked)
    told = {
        "memories": memories,
        "sessions": len({turn.session_id for turn in said}),
        "import_s": import_s,
        "retrieve_ms_median": median(one.retrieve_ms for one in asked),
        "turn_recall_at_5": row.turn_recall_at_5,
        "turn_recall_at_10": row.turn_recall_at_10,
        "vectors_alone": recall(by_vectors),
        "questions": asked,
        "killed": await kill(directory / "killed"),
        "why": why,
        "facts": {"then": then, "now": now},
    }
    if not app.json:
        _print_bundled(told, by_vectors)
    return told


def _print_bundled(told: JsonObject, by_vectors: Sequence[AskedQuestion]) -> None:
    asked: Sequence[AskedQuestion] = told["questions"]
    say(
        f"A chat of {told['sessions']} sessions, {told['memories']} messages, was stored and "
        f"indexed in {told['import_s']:.1f} s.\nTen questions, {told['retrieve_ms_median']:.0f} ms "
        "each. The rank of the first message that answers,\nhere and by cosine similarity alone:\n"
    )
    ranks = table("", *NAMES, right=NAMES)
    for pair in zip(asked, by_vectors, strict=True):
        ranks.add_row(shortened(pair[0].question, 62), *(str(one.rank or "-") for one in pair))
    print_table(ranks)
    say("")
    _draw_recall((asked, by_vectors))
    first = asked[0]
    say(f"\n{first.question}", "bold")
    say(shortened(spoken(first.hits[0].content, first.hits[0].role), 160) + "\n")
    killed, true = told["killed"], told["facts"]
    _say_whether(
        not killed.lost and killed.acknowledged > 0,
        f"{killed.lost} of {killed.acknowledged} confirmed writes lost to a kill -9 in mid-write",
    )
    _say_whether(killed.ok, "Every event in the log matches its checksum and its chain")
    then, now = (", ".join(one.target for one in true[when]) for when in ("then", "now"))
    _say_whether(then != now, f"Where Maya lives: {then} on {BEFORE}, {now} now")


def _draw_recall(runs: Sequence[Sequence[AskedQuestion]]) -> None:
    first = [fmean(one.rank == 1 for one in asked) for asked in runs]
    in_ten = [recall(asked).turn_recall_at_10 for asked in runs]
    bars = table("", " ", "  ", "   ", right=("   ",))
    bars.show_header = False
    for label, parts in (("first hit answers", first), ("recall in the top 10", in_ten)):
        for name, colour, part in zip(NAMES, ("green", "blue"), parts, strict=True):
            bar = Bar(1, 0, part, width=BAR_CELLS, color=colour)
            bars.add_row(label if name == NAMES[0] else "", name, bar, f"{part:.0%}")
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

"""Facts that change: which pairs are proposed, for a person to judge, and what they do to recall.

Sets are files as `recall_sets.py` reads them. Each is added twice through the public API: as it is,
and with nothing looked for; each pair that was recorded is printed, the older text first, with its
evidence. `--turns` takes the turns of conversations for facts, which `add` does not: what would be
proposed then says how sure the rules are on text they are not for.

A file of pairs that were judged, lines of `+ older | newer` (the newer one says otherwise) and `-
older | newer` (it does not), is put to the rules alone: false positives and misses are printed.
Lines of `## name` part them: pairs for tuning, and pairs held out.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import click

from bench.hashed import HashedTokens
from bench.recall_sets import RecallSet, SetUser, read_set
from bench.report import Options, Report, Table, facts, scratch
from memory_actors import Item, MemorySystem
from memory_actors.api.user import UserMemory
from memory_actors.cli.output import progress_bar
from memory_actors.search.embedding.default import DefaultEmbedder
from memory_actors.search.embedding.protocol import Embedder
from memory_actors.search.superseding.rules import evidence, read

BATCH = 200  # memories of one `add_many`
DEPTH = 10
JUDGED = (".txt", ".pairs")
PART = "## "
PACKAGES = ("numpy", "onnxruntime")
OFF, ON = "without", "with"


class Proposed(NamedTuple):
    """A pair that was recorded."""

    recall_set: str
    older: str
    newer: str
    similarity: float
    evidence: str


class Pair(NamedTuple):
    """A pair that somebody has judged."""

    older: str
    newer: str
    supersedes: bool
    part: str
    """Under which heading it is: what was tuned on, or held out."""


Scores = Mapping[str, list[tuple[float, float]]]
"""(R@10, hit@1) of questions by category; under "all" of all."""


def run(paths: Sequence[Path], name: str, options: Options, *, turns: bool) -> Report:
    """Propose pairs for each set, and judge the rules by each file of pairs."""
    judged = [path for path in paths if path.suffix in JUDGED]
    sets = [read_set(path) for path in paths if path.suffix not in JUDGED]
    embedder = HashedTokens() if name == "hashed" else DefaultEmbedder()
    with scratch(options) as directory:
        proposed, rows = asyncio.run(_measure(directory, sets, embedder, turns=turns))
        about = facts(directory, options, PACKAGES, embedder=embedder.fingerprint, turns=turns)
    tables = [
        Table("Pairs", ["set", "older", "newer", "cosine", "evidence"], list(map(list, proposed))),
        Table(
            "Recall",
            ["set", "category", "questions", "R@10 without", "R@10 with", "hit@1 without",
             "hit@1 with"],
            rows,
        ),
    ]  # fmt: skip
    for path in judged:
        pairs = list(read_pairs(path))
        tables += [_counts(path.stem, pairs), _wrong(path.stem, pairs)]
    return Report("Facts that change", about, tables, NOTES)


NOTES = (
    "cosine: of the two texts; evidence: the form that says so",
    "without: `supersedes=False`; hit@1: whether the first result is evidence",
)


# --- sets


async def _measure(
    directory: Path, sets: Sequence[RecallSet], embedder: Embedder, *, turns: bool
) -> tuple[list[Proposed], list[list[Any]]]:
    proposed: list[Proposed] = []
    rows: list[list[Any]] = []
    with progress_bar("Comparing", quiet=False) as moved:
        for number, one in enumerate(sets, 1):
            scores: dict[str, Scores] = {}
            for name, chosen in ((OFF, False), (ON, None)):
                store = directory / f"{number} {name}"
                async with MemorySystem.open(
                    store, embedder=embedder, alerts=[], supersedes=chosen
                ) as memory:
                    found, scores[name] = await _of_set(memory, one, turns=turns)
                    proposed += found
            rows += _compared(one.name, scores)
            moved(number, len(sets))
    return proposed, rows


async def _of_set(
    memory: MemorySystem, one: RecallSet, *, turns: bool
) -> tuple[list[Proposed], Scores]:
    proposed: list[Proposed] = []
    scores: dict[str, list[tuple[float, float]]] = {}
    for place, known in enumerate(one.users):
        user = memory.user(f"user {place}")
        texts = await _added(user, known, turns=turns)
        proposed += [found async for found in _proposed(memory, user, one.name, texts)]
        for question in known.questions:
            if question.evidence:
                scored = await _scored(user, question)
                for category in {question.category, "all"}:
                    scores.setdefault(category, []).append(scored)
    return proposed, scores


async def _added(user: UserMemory, known: SetUser, *, turns: bool) -> dict[str, str]:
    items = [
        Item(
            content=one.text,
            role=None if turns else one.role,
            session_id=None if turns else one.session,
            occurred_at=one.time,
            memory_id=one.id,
        )
        for one in known.memories
    ]
    for start in range(0, len(items), BATCH):
        await user.add_many(items[start : start + BATCH])
    return {one.id: one.text for one in known.memories}


async def _proposed(
    memory: MemorySystem, user: UserMemory, name: str, texts: Mapping[str, str]
) -> Any:
    async for entry in memory.events(user.user_id):
        if entry.event == "long_term.superseded":
            said = entry.data
            older, newer = texts[said["memory_id"]], texts[said["superseded_by_id"]]
            yield Proposed(name, older, newer, said["similarity"], said["evidence"])


async def _scored(user: UserMemory, question: Any) -> tuple[float, float]:
    hits = await user.retrieve(
        question.text, memory_types=["long_term"], top_k=DEPTH, reference_time=question.time
    )
    evidence_ids, found = set(question.evidence), [hit.memory_id for hit in hits]
    recalled = len(evidence_ids.intersection(found)) / min(DEPTH, len(evidence_ids))
    return min(1.0, recalled), float(bool(found) and found[0] in evidence_ids)


def _compared(name: str, scores: Mapping[str, Scores]) -> list[list[Any]]:
    return [
        [
            name,
            category,
            len(some),
            *(
                fmean(one[measure] for one in scores[which][category])
                for measure in (0, 1)
                for which in (OFF, ON)
            ),
        ]
        for category, some in sorted(scores[OFF].items())
    ]


# --- pairs that were judged


def read_pairs(path: Path) -> Iterator[Pair]:
    """Yield the pairs of a file.

    :raises click.ClickException: a line is neither a pair nor a comment.
    """
    part = ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        part = line.removeprefix(PART) if line.startswith(PART) else part
        if not line or line.startswith("#"):
            continue
        older, parted, newer = line[2:].partition(" | ")
        if line[:2] not in ("+ ", "- ") or not parted:
            raise click.ClickException(f"{path}:{number}: neither '+ a | b' nor '- a | b': {line}")
        yield Pair(older, newer, line[0] == "+", part)


def proposes(pair: Pair) -> bool:
    """Say whether the rules propose a pair."""
    return evidence(read(pair.older), read(pair.newer)) is not None


def _counts(name: str, pairs: Sequence[Pair]) -> Table:
    columns = ["part", "changes", "missed", "others", "false positives"]
    rows: list[list[Any]] = []
    for part in dict.fromkeys(pair.part for pair in pairs):
        some = [pair for pair in pairs if pair.part == part]
        changes = [pair for pair in some if pair.supersedes]
        others = [pair for pair in some if not pair.supersedes]
        missed = sum(not proposes(pair) for pair in changes)
        rows.append([part, len(changes), missed, len(others), sum(map(proposes, others))])
    return Table(f"Judged pairs: {name}", columns, rows)


def _wrong(name: str, pairs: Sequence[Pair]) -> Table:
    rows = [
        ["missed" if pair.supersedes else "false positive", pair.older, pair.newer]
        for pair in pairs
        if proposes(pair) != pair.supersedes
    ]
    return Table(f"Judged otherwise: {name}", ["", "older", "newer"], rows)

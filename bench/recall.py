"""Recall over sets of many kinds, through the public API, beside what a model alone would give.

Every set is a file as `recall_sets.py` reads it: users, their memories, questions. Ours is
`user.retrieve`. The other rankings use the same texts:

- cosine: the vectors of the same model
- BM25: rank_bm25 over the words of our keyword index
- sum: half the cosine, and half the BM25 as a share of the best for the query
- `--reranker NAME`: ours, its first hits in the order of a reranker, and what that takes
- `--peer NAME`: another system, as `bench peers` uses it, with the same vectors

R@10 is the fraction of a question's evidence among the first ten, divided by at most ten; hit@k is
1 where one of the first k is evidence. Memories folded into a hit count as found with it. A change
of the ranking is judged on all sets together, and never tuned on one.

The meaning of a score is measured, too. The calibration error is that of the ten results of each
question: how far, in ten bins, the mean score is from the share that answers. A question that is
put to another user of the same set has no answer there: the AUROC says how often `Hits.answered` of
a question with an answer is above that of a question without (0.5: it tells nothing). Questions
that both users are asked are left out.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Any, NamedTuple

import click
import numpy as np
from msgspec.structs import replace
from rank_bm25 import BM25Okapi

from bench.calibration import auroc, bins, calibration_error
from bench.hashed import HashedTokens
from bench.measures import stored_vectors
from bench.opened import opened
from bench.peer_stores import PEERS, Memory, Peer, load, missing
from bench.peers_plan import KnownTexts
from bench.plots import check_matplotlib, reliability
from bench.recall_sets import Question, RecallSet, Remembered, SetUser, read_set
from bench.report import Options, Report, Table, facts, scratch
from memory_actors import Hit, Item, MemorySystem, Reranker, Settings
from memory_actors.api.user import UserMemory
from memory_actors.base.weights import Weights
from memory_actors.cli.output import progress_bar
from memory_actors.kinds.passages import spoken
from memory_actors.search.embedding.named import embedder_of
from memory_actors.search.embedding.protocol import Embedded, Embedder, Vectors
from memory_actors.search.indexes.words import words
from memory_actors.search.reranking import reranker_of

DEPTH = 10
BATCH = 200  # memories of one `add_many`
RESAMPLES = 2_000
INTERVAL = (2.5, 97.5)
REPLY = "Let me see what I can find about that."
WITHIN = 0.005  # half a point: nearer than that is a tie
FLOORS = ("cosine", "BM25")
OURS, SUM = "ours", "sum"
MEASURES = ("R@10", "hit@1", "hit@3")
JUDGED = ("R@10", "hit@1")
PACKAGES = ("numpy", "onnxruntime", "tokenizers", "rank-bm25")


class Asked(NamedTuple):
    """One question with an answer, and what each ranking makes of it."""

    recall_set: str
    user: str
    category: str
    scores: Mapping[str, Mapping[str, float]]
    """MEASURES by ranking."""
    shown: Sequence[float]
    """The scores of our results."""
    answered: float
    """The chance that any of them answers."""
    answers: Sequence[bool]
    """True for each score whose memory is evidence."""


class Unanswered(NamedTuple):
    """A question that was put to a user who cannot know."""

    recall_set: str
    answered: float


def run(
    paths: Sequence[Path],
    name: str,
    options: Options,
    *,
    ablation: bool = False,
    before: bool = False,
    peers: Sequence[str] = (),
    drawn: Path | None = None,
    reranker: Reranker | str | None = None,
) -> Report:
    """Score every question of some sets. `drawn` is a directory for the reliability plot.

    `before` stores every question once, with a reply, before it is asked.
    """
    if drawn is not None:
        check_matplotlib()  # before minutes of measuring
    for peer in peers:
        if peer not in PEERS:
            raise click.BadParameter(f"no peer {peer}; there are {', '.join(PEERS)}")
        if (reason := missing(PEERS[peer])) is not None:
            raise click.ClickException(f"{peer}: {reason}")
    sets = [read_set(path) for path in paths]
    if before:
        sets = [
            replace(one, users=[replace(user, memories=with_asked(user)) for user in one.users])
            for one in sets
        ]
    embedder = HashedTokens() if name == "hashed" else embedder_of(name)
    chosen, costs = reranker_of(reranker), dict[str, object]()
    timed = None if chosen is None else _Timed(chosen)
    with scratch(options) as directory:
        asked, unanswered = asyncio.run(
            _measure(directory, sets, embedder, _rankings(ablation), peers, timed)
        )
        if timed is not None:
            costs["reranker_ms"] = round(1e3 * fmean(timed.took_s), 1)
        about = facts(
            directory,
            options,
            PACKAGES,
            embedder=embedder.fingerprint,
            sets=len(sets),
            memories=sum(len(user.memories) for one in sets for user in one.users),
            questions=len(asked),
            **costs,
        )
    verdict = _verdict(asked)
    report = Report("Recall", about, _tables(asked, unanswered, verdict), NOTES, ok=not verdict)
    if drawn is not None:
        sets = {**_by_set(asked), "all": asked}
        drawable = {name: bins(*_results(some)) for name, some in sets.items()}
        reliability(report, drawn, "recall_reliability", drawable)
    return report


def with_asked(user: SetUser) -> list[Remembered]:
    """Return a user's memories, then a chat in which every question was asked once."""
    times = [datetime.fromisoformat(one.time) for one in user.memories if one.time]
    last = max((one.replace(tzinfo=one.tzinfo or UTC) for one in times), default=None)
    turns = list(user.memories)
    for number, question in enumerate(user.questions):
        for role, text in (("user", question.text), ("assistant", REPLY)):
            at = None if last is None else last + timedelta(minutes=len(turns))
            when = None if at is None else at.isoformat()
            turns.append(Remembered(f"asked {number} {role}", text, role, "asked before", when))
    return turns


NOTES = (
    f"intervals: 95 %, {RESAMPLES:,} resamples of the users (of the questions, if there is one)",
    "without X: ours with `Weights(X=0)`",
    f"verdict: below cosine or BM25 by more than {WITHIN} in {' or '.join(JUDGED)} fails",
    "calibration: of the ten results of each question; AUROC: questions put to the next user",
)


def _rankings(ablation: bool) -> dict[str, Weights]:
    names = Weights.__struct_fields__ if ablation else ()
    return {OURS: Weights(), **{f"without {name}": Weights(**{name: 0.0}) for name in names}}


# --- ask


async def _measure(
    directory: Path,
    sets: Sequence[RecallSet],
    embedder: Embedder,
    weights: Mapping[str, Weights],
    peers: Sequence[str],
    timed: "_Timed | None",
) -> tuple[list[Asked], list[Unanswered]]:
    asked: list[Asked] = []
    unanswered: list[Unanswered] = []
    users = [(one, place) for one in sets for place in range(len(one.users))]
    async with opened(directory / "memory", embedder) as memory:
        with progress_bar("Asking", quiet=False) as moved:
            for number, (one, place) in enumerate(users, 1):
                user = memory.user(f"{one.name} {place}")
                asker = await _Asker.prepared(memory, user, one, one.users[place], embedder)
                asker.timed = timed
                await asker.open_peers(peers, directory / "peers" / str(number))
                asked += [await asker.ask(question, weights) for question in asker.answerable]
                if len(one.users) > 1:
                    others = one.users[(place + 1) % len(one.users)].questions
                    unanswered += [
                        await asker.ask_in_vain(each) for each in asker.not_asked(others)
                    ]
                await asker.close_peers()
                moved(number, len(users))
    return asked, unanswered


class _Timed:
    """A reranker, and the seconds that it took for each question."""

    def __init__(self, reranker: Reranker):
        self._reranker = reranker
        self.took_s: list[float] = []
        getattr(reranker, "prepare", lambda: None)()

    def ordered(self, question: str, hits: Sequence[Hit]) -> list[Hit]:
        began_s = perf_counter()
        scores = self._reranker.score(question, [hit.passage or hit.content for hit in hits])
        self.took_s.append(perf_counter() - began_s)
        return [hits[place] for place in np.argsort(-np.asarray(scores), kind="stable")]


class _Asker:
    def __init__(
        self,
        user: UserMemory,
        of_set: RecallSet,
        known: SetUser,
        stands_for: Mapping[str, set[str]],
        embedder: Embedder,
        vectors: Vectors,
    ):
        self._user, self._set, self._known = user, of_set, known
        self._stands_for = stands_for
        self._embedder, self._vectors = embedder, vectors
        self._peers: dict[str, Peer] = {}
        self.timed: _Timed | None = None
        self._bm25 = BM25Okapi(
            [words(spoken(one.text, one.role)) or [""] for one in known.memories]
        )
        self.answerable = [question for question in known.questions if question.evidence]

    @classmethod
    async def prepared(
        cls,
        memory: MemorySystem,
        user: UserMemory,
        of_set: RecallSet,
        known: SetUser,
        embedder: Embedder,
    ) -> "_Asker":
        """Add what a user remembers, and prepare the baselines over the same texts."""
        stands_for: dict[str, set[str]] = defaultdict(set)
        for start in range(0, len(known.memories), BATCH):
            some = known.memories[start : start + BATCH]
            items = [
                Item(content=one.text, role=one.role, session_id=one.session, occurred_at=one.time)
                for one in some
            ]
            for one, receipt in zip(some, await user.add_many(items), strict=True):
                stands_for[receipt.memory_id].add(one.id)
        texts = [spoken(one.text, one.role) for one in known.memories]
        vectors = stored_vectors(memory, texts, embedder)
        return cls(user, of_set, known, stands_for, embedder, vectors)

    async def open_peers(self, names: Sequence[str], directory: Path) -> None:
        texts = [spoken(one.text, one.role) for one in self._known.memories]
        known = {text: Embedded(one, None) for text, one in zip(texts, self._vectors, strict=True)}
        memories = [
            Memory(one.id, text, _metadata(one))
            for one, text in zip(self._known.memories, texts, strict=True)
        ]
        for name in names:
            path, peer = directory / name, load(name)
            path.mkdir(parents=True)
            await peer.open(path, KnownTexts(self._embedder, known, remember=True))
            self._peers[name] = peer
            for start in range(0, len(memories), BATCH):
                await peer.add_many(memories[start : start + BATCH])
            await peer.settle()

    async def close_peers(self) -> None:
        for peer in self._peers.values():
            await peer.close()

    async def ask(self, question: Question, weights: Mapping[str, Weights]) -> Asked:
        evidence, rankings = set(question.evidence), self._baselines(question)
        for name, peer in self._peers.items():
            found = await peer.search(question.text, DEPTH)
            rankings[name] = [{memory_id} for memory_id in found]
        if self.timed is not None:
            best = await self._retrieved(question, Weights(), Settings().reranker_hits)
            ordered = self.timed.ordered(question.text, best)[:DEPTH]
            rankings["reranked"] = [self._found_by(hit) for hit in ordered]
        for name, weighing in weights.items():
            hits = await self._retrieved(question, weighing)
            rankings[name] = [self._found_by(hit) for hit in hits]
            if name == OURS:
                shown, answered = [hit.score for hit in hits], hits.answered
        return Asked(
            self._set.name,
            self._known.id,
            question.category,
            {name: _scored(evidence, ranking) for name, ranking in rankings.items()},
            shown,
            answered,
            [bool(evidence & ids) for ids in rankings[OURS]],
        )

    def _found_by(self, hit: Hit) -> set[str]:
        return set().union(
            *map(self._stands_for.__getitem__, (hit.memory_id, *hit.near_duplicates))
        )

    def not_asked(self, questions: Sequence[Question]) -> list[Question]:
        """Return the questions that this user is not asked: nothing here should answer them."""
        own = {question.text for question in self.answerable}
        return [question for question in questions if question.text not in own]

    async def ask_in_vain(self, question: Question) -> Unanswered:
        hits = await self._retrieved(question, Weights())
        return Unanswered(self._set.name, hits.answered)

    async def _retrieved(self, question: Question, weights: Weights, top_k: int = DEPTH) -> Any:
        return await self._user.retrieve(
            question.text,
            memory_types=["long_term"],
            top_k=top_k,
            reference_time=question.time,
            weights=weights,
        )

    def _baselines(self, question: Question) -> dict[str, list[set[str]]]:
        asks = getattr(self._embedder, "query_prefix", "") + question.text
        cosines = self._vectors @ self._embedder.embed([asks])[0]
        bm25 = np.asarray(self._bm25.get_scores(words(question.text)))
        added = cosines + bm25 / max(float(bm25.max()), 1e-9)
        named = {"cosine": cosines, "BM25": bm25, SUM: added}
        ids = [one.id for one in self._known.memories]
        return {
            name: [{ids[row]} for row in np.argsort(-scores, kind="stable")[:DEPTH]]
            for name, scores in named.items()
        }


def _metadata(one: Remembered) -> dict[str, str]:
    return {
        "session": one.session or "",
        "speaker": one.role or "",
        "occurred_at": one.time or "2023-01-01",
        "topic": "",
    }


def _scored(evidence: set[str], ranking: Sequence[set[str]]) -> dict[str, float]:
    found = evidence.intersection(*[set().union(*ranking[:DEPTH])])
    return {
        "R@10": min(1.0, len(found) / min(DEPTH, len(evidence))),
        **{f"hit@{k}": float(any(evidence & ids for ids in ranking[:k])) for k in (1, 3)},
    }


# --- tables


def _tables(
    asked: Sequence[Asked], unanswered: Sequence[Unanswered], verdict: Sequence[list[Any]]
) -> list[Table]:
    sets = _by_set(asked)
    return [
        Table("By set", ["set", "ranking", "questions", *_spread()], _overall(sets)),
        Table("By category", ["set", "category", "questions", *_beside()], _by_category(sets)),
        Table("What scores say", ["set", "results", "ECE", "AUROC"], _said(sets, unanswered)),
        Table("Reliability", ["score", "results", "answers"], _reliability(asked)),
        Table("Verdict: below a baseline", ["set", "measure", "ours", "baseline", "is"], verdict),
    ]


def _by_set(asked: Sequence[Asked]) -> dict[str, list[Asked]]:
    sets: dict[str, list[Asked]] = defaultdict(list)
    for one in asked:
        sets[one.recall_set].append(one)
    return sets


def _spread() -> list[str]:
    return [column for measure in MEASURES for column in (measure, "from", "to")]


def _beside() -> list[str]:
    return [f"{measure} {name}" for measure in JUDGED for name in (OURS, *FLOORS, SUM)]


def _overall(sets: Mapping[str, Sequence[Asked]]) -> list[list[Any]]:
    return [
        [name, ranking, len(some), *(x for m in MEASURES for x in _interval(some, ranking, m))]
        for name, some in sets.items()
        for ranking in (OURS, *FLOORS, SUM, *_others(some))
    ]


def _others(some: Sequence[Asked]) -> list[str]:
    """Return the names of other systems, and of our rankings without a signal."""
    return [name for name in some[0].scores if name not in (OURS, *FLOORS, SUM)]


def _interval(some: Sequence[Asked], ranking: str, measure: str) -> tuple[float, float, float]:
    """Return the mean over questions, and between what bounds it lies."""
    groups: dict[Any, list[float]] = defaultdict(list)
    users = {one.user for one in some}
    for place, one in enumerate(some):
        groups[one.user if len(users) > 1 else place].append(one.scores[ranking][measure])
    sums = np.array([sum(values) for values in groups.values()])
    counts = np.array([len(values) for values in groups.values()])
    picked = np.random.default_rng(0).integers(0, len(sums), (RESAMPLES, len(sums)))
    low, high = np.percentile(sums[picked].sum(1) / counts[picked].sum(1), INTERVAL)
    return float(sums.sum() / counts.sum()), float(low), float(high)


def _mean(some: Sequence[Asked], ranking: str, measure: str) -> float:
    return fmean(one.scores[ranking][measure] for one in some)


def _by_category(sets: Mapping[str, Sequence[Asked]]) -> list[list[Any]]:
    rows = []
    for name, some in sets.items():
        groups: dict[str, list[Asked]] = defaultdict(list)
        for one in some:
            groups[one.category].append(one)
        for category, group in sorted(groups.items()):
            figures = [
                _mean(group, ranking, measure)
                for measure in JUDGED
                for ranking in (OURS, *FLOORS, SUM)
            ]
            rows.append([name, category, len(group), *figures])
    return rows


def _said(sets: Mapping[str, Sequence[Asked]], unanswered: Sequence[Unanswered]) -> list[list[Any]]:
    vain: dict[str, list[float]] = defaultdict(list)
    for one in unanswered:
        vain[one.recall_set].append(one.answered)
    rows = [_said_by(name, some, vain[name]) for name, some in sets.items()]
    everything = [one for some in sets.values() for one in some]
    return [*rows, _said_by("all", everything, [one.answered for one in unanswered])]


def _said_by(name: str, some: Sequence[Asked], vain: Sequence[float]) -> list[Any]:
    scores, answers = _results(some)
    best = [one.answered for one in some]
    told = auroc(best, vain) if vain else None
    return [name, len(scores), calibration_error(scores, answers), told]


def _results(some: Sequence[Asked]) -> tuple[list[float], list[bool]]:
    scores = [score for one in some for score in one.shown]
    return scores, [answer for one in some for answer in one.answers]


def _reliability(asked: Sequence[Asked]) -> list[list[Any]]:
    return [[one.score, one.results, one.answers] for one in bins(*_results(asked))]


def _verdict(asked: Sequence[Asked]) -> list[list[Any]]:
    return [
        [name, measure, ours, below, floor]
        for name, some in _by_set(asked).items()
        for measure in JUDGED
        for below in FLOORS
        if (ours := _mean(some, OURS, measure)) + WITHIN < (floor := _mean(some, below, measure))
    ]

"""The cost of a full quota: the check, an add at the limit and just below it, the typical queries.

Each kind gets a user of its own in one store. The user is filled through the public API to one less
than the limit: each add from there is timed and taken back. Then it is filled to the limit, and
each add has to make room: by letting one thing go, or by a prune of the oldest tenth, after which
the user is filled again outside of the clock. Then the store is opened again for the queries.

The store fills with vectors that cost nothing. If the model is installed, it is switched on for a
second round of the same calls.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import msgspec

from bench.hashed import Switched
from bench.opened import at_rest, command_of, installed_model, live_user, opened, services_of
from bench.report import Options, Report, Table, facts, median, percentile, scratch
from bench.stalls import Stalled, Ticker, ticking
from bench.subjects import (
    Documents,
    Entities,
    Episodes,
    LargeDocuments,
    Memories,
    Messages,
    Relationships,
    Steps,
    Subject,
    WorkingKeys,
)
from bench.subjects.base import Call
from memory_actors import Limits, QuotaExceededError, Receipt
from memory_actors.search.embedding.default import DefaultEmbedder
from memory_actors.users.live_user import LiveUser

SUBJECTS: tuple[type[Subject], ...] = (
    WorkingKeys, Messages, Memories, Entities, Relationships, Episodes, Steps, Documents,
    LargeDocuments,
)  # fmt: skip
SCALED = (
    "working_keys", "short_term_messages", "short_term_sessions", "long_term_memories", "entities",
    "relationships", "episodes", "episode_steps", "documents",
)  # fmt: skip
SCALED_MIN = 8
WARM_UP_CALLS = 5
PACKAGES = ("lmdb", "numpy", "immutables", "onnxruntime")


def scaled(scale: float) -> Limits:
    """Return the default limits, the counts multiplied."""
    limits = Limits()
    counts = {name: max(SCALED_MIN, int(scale * getattr(limits, name))) for name in SCALED}
    return msgspec.structs.replace(limits, **counts)


class Found(NamedTuple):
    """The rows of one kind, for each table."""

    fill: list[Any]
    decisions: list[Any]
    adds: list[Any]
    queries: list[list[Any]]


def run(scale: float, calls: int, prunes: int, without_model: bool, options: Options) -> Report:
    """Measure all kinds."""
    model, limits = None if without_model else installed_model(), scaled(scale)
    found = []
    with scratch(options) as directory:
        for make in SUBJECTS:
            bench = _Bench(directory / "store", limits, model, calls, prunes, options)
            found.append(asyncio.run(bench.measure(make)))
        about = facts(directory, options, PACKAGES, calls=calls, prunes=prunes, scale=scale)
    return Report(
        "Quota",
        about
        | {
            "embedder": "hashed with tokens; "
            + ("no model" if model is None else model.fingerprint)
        },
        [
            Table("The decision, at full quota", DECISIONS, [one.decisions for one in found]),
            Table("Adds, end to end", ADDS, [one.adds for one in found]),
            Table("Queries at full quota", QUERIES, [row for one in found for row in one.queries]),
            Table("The users", FILLS, [one.fill for one in found]),
        ],
        NOTES,
    )


DECISIONS = [
    "kind", "limit", "below us", "p99", "refused us", "p99", "making room us", "p99",
]  # fmt: skip
ADDS = [
    "kind", "below ms", "p99", "with the model", "at the limit ms", "p99", "stall ms",
    "loop CPU ms", "room", "mean ms", "with the model",
]  # fmt: skip
QUERIES = ["kind", "query", "results", "cold ms", "p50 ms", "p99 ms", "with the model"]
FILLS = ["kind", "limit", "fill s", "adds/s", "at rest after s", "activation ms", "slowest"]
NOTES = (
    "columns without a word on it are medians, with hashed vectors and token states: no model",
    "with the model: the median of the same calls, the embedding included",
    "decision: `decide` alone, which is the check of the quota and the making of the events",
    "below: at one less than the limit; refused: at it, without leave to make room",
    "room: what one add at the limit lets go",
    "mean: of one such add and the plain ones that fit before the next",
    "stall: the longest time that the event loop stood still during an add at the limit",
    "loop CPU: processor time of the loop's thread in it: of a prune, nearly all in one piece",
    "cold: the first query of a user who was just activated, files in the page cache",
    "structured, 8 KB each: 40 MB, which is more than the 4 MB of documents kept in memory",
)


class _Bench:
    def __init__(
        self,
        store: Path,
        limits: Limits,
        model: DefaultEmbedder | None,
        calls: int,
        prunes: int,
        options: Options,
    ):
        self._store = store
        self._limits = limits
        self._model = model
        self._embedder = Switched()
        self._calls = calls
        self._prunes = prunes
        self._options = options

    async def measure(self, make: type[Subject]) -> Found:
        async with opened(self._store, self._embedder, self._limits) as memory:
            subject = make(memory, self._limits, self._options.seed)
            spare = 1 if subject.undoes else 2 * self._calls
            fill = await self._fill(subject, subject.full - spare)
            resting_s = await _resting_s(memory, subject)
            work = _Work(subject, self._embedder, self._calls, self._prunes)
            async with live_user(memory, subject.user_id) as live, ticking() as ticker:
                below = await work.decided_us(live, services_of(memory).decider.decide)
                adds = await self._both(work.below_ms, ticker)
                await subject.fill(subject.full)
                full = await work.decided_us(live, services_of(memory).decider.decide)
                pruned = await self._both(work.full_ms, ticker)
            await subject.fill(subject.full)
            await at_rest(memory, subject.user_id)
        queries, activations = await self._queries(subject)
        return Found(
            [*fill, resting_s, median(activations), max(activations)],
            _decision_row(subject, below, full),
            _add_row(subject, adds, pruned, work.last),
            queries,
        )

    async def _fill(self, subject: Subject, count: int) -> list[Any]:
        await subject.prepare()
        started_s = perf_counter()
        await subject.fill(count)
        took_s = perf_counter() - started_s
        return [subject.name, subject.full, took_s, count / took_s]

    async def _both(self, measure: Any, ticker: Ticker) -> list[list[Stalled]]:
        models = [None] if self._model is None else [None, self._model]
        return [await measure(ticker, model) for model in models]

    # --- queries

    async def _queries(self, subject: Subject) -> tuple[list[list[Any]], list[float]]:
        cold: dict[str, list[float]] = {}
        activations: list[float] = [await self._activation_ms(subject)]
        for _ in range(self._options.runs):
            for name in subject.queries():
                took_ms, cold_ms = await self._cold_ms(subject, name)
                activations.append(took_ms)
                cold.setdefault(name, []).append(cold_ms)
        async with opened(self._store, self._embedder, self._limits) as memory:
            subject.use(memory)
            rows = [
                [subject.name, name, *await self._warm(name, make, cold[name])]
                for name, make in subject.queries().items()
            ]
        return rows, activations

    async def _activation_ms(self, subject: Subject) -> float:
        async with opened(self._store, self._embedder, self._limits) as memory:
            subject.use(memory)
            return (await _timed(subject.user.usage))[0]

    async def _cold_ms(self, subject: Subject, name: str) -> tuple[float, float]:
        async with opened(self._store, self._embedder, self._limits) as memory:
            subject.use(memory)
            activation_ms, _ = await _timed(subject.user.usage)
            took_ms, _ = await _timed(subject.queries()[name])
            return activation_ms, took_ms

    async def _warm(self, name: str, make: Call, cold: Sequence[float]) -> list[Any]:
        results = 0
        for _ in range(WARM_UP_CALLS):
            _, answer = await _timed(make)
            results = len(answer) if isinstance(answer, list | dict) else 1
        plain = [(await _timed(make))[0] for _ in range(self._calls)]
        with_model = None
        if self._model is not None and name.startswith("retrieve"):
            with self._embedder.using(self._model):
                with_model = median([(await _timed(make))[0] for _ in range(self._calls)])
        p50, p99 = percentile(plain, 50), percentile(plain, 99)
        return [results, median(cold), p50, p99, with_model]


class _Work:
    def __init__(self, subject: Subject, embedder: Switched, calls: int, prunes: int):
        self._subject = subject
        self._embedder = embedder
        self._calls = calls
        self._prunes = prunes
        self.last: Receipt | None = None
        """The receipt of an add at the limit."""

    async def below_ms(self, ticker: Ticker, model: DefaultEmbedder | None) -> list[Stalled]:
        """Add with room for one more, and take it back."""
        subject, found = self._subject, []
        for _ in range(self._calls):
            with self._embedder.using(model):
                receipt, stalled = await ticker.watch(subject.add())
            subject.note(receipt)
            found.append(stalled)
            if subject.undoes:
                await subject.undo(receipt)
        return found

    async def full_ms(self, ticker: Ticker, model: DefaultEmbedder | None) -> list[Stalled]:
        """Add at the limit, with leave to make room; fill again after each prune."""
        subject, found = self._subject, []
        for _ in range(self._prunes if subject.refuses and self._prunes_a_tenth() else self._calls):
            await subject.fill(subject.full)
            with self._embedder.using(model):
                receipt, stalled = await ticker.watch(subject.add(auto_prune=True))
            subject.note(receipt)
            self.last = receipt
            found.append(stalled)
        return found

    def _prunes_a_tenth(self) -> bool:
        return self.last is None or bool(self.last.pruned)

    async def decided_us(self, live: LiveUser, decide: Any) -> list[list[float]]:
        """Return how long the decision of an add takes, without and with leave to make room."""
        found = []
        for auto_prune in (False, True):
            command = await command_of(live, self._subject.add(auto_prune=auto_prune))
            found.append([_decide_us(decide, command, live) for _ in range(self._calls)])
        return found


def _decide_us(decide: Any, command: Any, live: LiveUser) -> float:
    state, started_s = live.state, perf_counter()
    with suppress(QuotaExceededError):
        decide(command, state)
    return (perf_counter() - started_s) * 1e6


async def _timed(make: Call) -> tuple[float, Any]:
    call: Awaitable[Any] = make()
    started_s = perf_counter()
    answer = await call
    return (perf_counter() - started_s) * 1e3, answer


async def _resting_s(memory: Any, subject: Subject) -> float:
    started_s = perf_counter()
    await at_rest(memory, subject.user_id)
    return perf_counter() - started_s


# --- rows


def _decision_row(subject: Subject, below: list[list[float]], full: list[list[float]]) -> list[Any]:
    refused = [median(full[0]), percentile(full[0], 99)] if subject.refuses else [None, None]
    return [
        subject.name, subject.full, median(below[0]), percentile(below[0], 99), *refused,
        median(full[1]), percentile(full[1], 99),
    ]  # fmt: skip


def _add_row(
    subject: Subject,
    below: list[list[Stalled]],
    full: list[list[Stalled]],
    last: Receipt | None,
) -> list[Any]:
    pruned = len(last.pruned) if last else 0
    gone = f"prunes {pruned:,}" if pruned else "evicts 1"
    plain = [one.took_ms for one in below[0]]
    at_limit = [one.took_ms for one in full[0]]
    fits = max(1, pruned)
    return [
        subject.name,
        median(plain),
        percentile(plain, 99),
        median([one.took_ms for one in below[1]]) if len(below) > 1 else None,
        median(at_limit),
        percentile(at_limit, 99),
        median([one.stall_ms for one in full[0]]),
        median([one.loop_ms for one in full[0]]),
        gone,
        (median(at_limit) + (fits - 1) * median(plain)) / fits,
        median([one.took_ms for one in full[1]]) if len(full) > 1 else None,
    ]

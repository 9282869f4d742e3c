"""The cost of a call without `await`: the same calls on the loop and by `memory_actors.sync`.

One system, opened by the API without `await`. In each run the calls are made in turn by a task on
the loop that the system lives on, and by another thread, which waits; so both are measured beside
the same load. The embedder hashes words: no model takes part.
"""

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

from bench.hashed import HashedEmbedder
from bench.report import Options, Report, Table, facts, median, scratch
from memory_actors.sync import MemorySystem

MEMORIES = 200
OVERHEAD_MS_MAX = 0.15


def run(calls: int, options: Options) -> Report:
    """Measure some calls both ways."""
    with scratch(options) as directory:
        path = directory / "memory"
        with MemorySystem.open(path, embedder=HashedEmbedder(), alerts=[]) as memory:
            user = memory.user("user 1", session_id="session 1")
            for number in range(MEMORIES):
                user.add(f"fact {number} about tea")
            user.working.set("city", "Leeds")
            rows = [_row(memory, name, calls, options.runs) for name in CALLS]
        said = facts(directory, options, ["anyio"], calls=calls, memories=MEMORIES)
    return Report(
        name="sync",
        facts=said,
        tables=[Table("Calls, ms (p50 of the median run)", COLUMNS, rows)],
        notes=[f"at most {OVERHEAD_MS_MAX} ms more a call"],
        ok=all(row[-1] <= OVERHEAD_MS_MAX for row in rows),
    )


COLUMNS = ("call", "awaited on the loop", "without await", "more")
CALLS: dict[str, Callable[[Any], Any]] = {
    "working.get": lambda user: user.working.get("city"),
    "working.set": lambda user: user.working.set("city", "York"),
    "count": lambda user: user.count(),
    "retrieve": lambda user: user.retrieve("tea", top_k=5),
}


def _row(memory: MemorySystem, name: str, calls: int, runs: int) -> list[Any]:
    user: Any = memory.user("user 1", session_id="session 1")
    on_loop: list[float] = []
    without: list[float] = []
    for _ in range(runs):
        on_loop.append(user._loop.call(_awaited, CALLS[name], user._handle, calls))  # noqa: SLF001
        without.append(median([_timed_ms(CALLS[name], user) for _ in range(calls)]))
    return [name, median(on_loop), median(without), median(without) - median(on_loop)]


async def _awaited(call: Callable[[Any], Awaitable[Any]], user: Any, calls: int) -> float:
    took_ms = []
    for _ in range(calls):
        started_s = perf_counter()
        await call(user)
        took_ms.append((perf_counter() - started_s) * 1e3)
    return median(took_ms)


def _timed_ms(call: Callable[[Any], Any], user: Any) -> float:
    started_s = perf_counter()
    call(user)
    return (perf_counter() - started_s) * 1e3

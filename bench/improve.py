"""Time and memory of the loop that improves a text, in the thousandth round and in the first.

The same run twice, each in a process of its own: once its events are used and dropped, as they are
meant to be, and once they are put into a list, which is what a loop without bounds does. Critic and
reviser do next to nothing, so that what is measured is the loop.
"""

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from time import perf_counter

import msgspec

from bench.report import Options, Report, Table, facts, median, scratch
from memory_actors import Critique, improve_stream
from memory_actors.base.quota import MIB
from memory_actors.improve import Event, Revised
from memory_actors.improve.records import Finished
from memory_actors.observing.monitor import resident_bytes

GROWTH_MB_MAX = 5.0
"""The growth that the bounded loop may have after its first tenth."""
SLOWER_MAX = 1.5
"""Times as slow as the first tenth of its rounds the last tenth may be: the machine is shared."""
KINDS = ("bounded", "list")
COLUMNS = (
    "history", "rounds", "KB a text", "first 10 % us", "last 10 % us", "RSS MB after 10 %",
    "RSS MB at the end", "grown MB", "rounds evicted",
)  # fmt: skip
PACKAGES = ("msgspec", "psutil")


class Measured(msgspec.Struct, frozen=True):
    """The report of a process about itself."""

    rounds_us: list[float]
    warm_bytes: int
    """Resident, after the first tenth of the rounds."""
    end_bytes: int
    evicted: int

    @property
    def tenth(self) -> int:
        """Rounds in a tenth."""
        return max(1, len(self.rounds_us) // 10)

    @property
    def first_us(self) -> float:
        """Median of the first tenth."""
        return median(self.rounds_us[: self.tenth])

    @property
    def last_us(self) -> float:
        """Median of the last tenth."""
        return median(self.rounds_us[-self.tenth :])

    @property
    def grown_mb(self) -> float:
        """The growth since the first tenth."""
        return (self.end_bytes - self.warm_bytes) / MIB


def run(rounds: int, text_kb: int, options: Options) -> Report:
    """Measure both, as often as asked; print the medians of the runs."""
    with scratch(options) as directory:
        measured = {
            kind: [_child(kind, rounds, text_kb) for _ in range(options.runs)] for kind in KINDS
        }
        about = facts(directory, options, PACKAGES)
    bounded = measured["bounded"]
    grown = median([one.grown_mb for one in bounded])
    slower = median([one.last_us / one.first_us for one in bounded])
    return Report(
        "Improve",
        about,
        [Table("One run", COLUMNS, [_row(k, rounds, text_kb, measured[k]) for k in KINDS])],
        notes=[f"bounded: the last tenth takes {slower:.2f} times what the first took"],
        ok=grown < GROWTH_MB_MAX and slower < SLOWER_MAX,
    )


def _row(kind: str, rounds: int, text_kb: int, runs: list[Measured]) -> list[object]:
    return [
        kind,
        rounds,
        text_kb,
        median([one.first_us for one in runs]),
        median([one.last_us for one in runs]),
        median([one.warm_bytes / MIB for one in runs]),
        median([one.end_bytes / MIB for one in runs]),
        median([one.grown_mb for one in runs]),
        runs[0].evicted,
    ]


def _child(kind: str, rounds: int, text_kb: int) -> Measured:
    arguments = [sys.executable, "-m", "bench.improve", kind, str(rounds), str(text_kb)]
    root = Path(__file__).parents[1]
    done = subprocess.run(arguments, cwd=root, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=Measured)


# --- in the child


async def measure(kind: str, rounds: int, text_kb: int) -> Measured:
    """Run the loop once."""
    kept: list[Event] | None = [] if kind == "list" else None
    taken_us: list[float] = []
    warm_bytes = evicted = 0
    began_s = perf_counter()
    async for event in _events(rounds, text_kb * 1024):
        if kept is not None:
            kept.append(event)
        if isinstance(event, Revised):
            taken_us.append((perf_counter() - began_s) * 1e6)
            began_s = perf_counter()
        if len(taken_us) == rounds // 10 and not warm_bytes:
            gc.collect()
            warm_bytes = resident_bytes()
            began_s = perf_counter()
        if isinstance(event, Finished):
            evicted = event.result.metadata["memory_stats"]["history_entries_evicted"]
    gc.collect()
    return Measured(taken_us, warm_bytes, resident_bytes(), evicted)


def _events(rounds: int, text_bytes: int) -> AsyncGenerator[Event, None]:
    async def critic(_text: str) -> Critique:
        return Critique(score=0.5, text="Say it again.")

    numbers = iter(range(rounds))

    async def reviser(_text: str, _critique: Critique) -> str:
        return f"{next(numbers):08d} ".ljust(text_bytes, "x")

    return improve_stream(
        "x" * text_bytes,
        critic=critic,
        reviser=reviser,
        memory_limits={"max_iterations": rounds},
        stop=lambda _state: False,
    )


if __name__ == "__main__":
    _kind, _rounds, _text_kb = sys.argv[1:]
    found = asyncio.run(measure(_kind, int(_rounds), int(_text_kb)))
    sys.stdout.buffer.write(msgspec.json.encode(found))

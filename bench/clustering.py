"""Our DBSCAN against scikit-learn's: labels, time and peak memory, on the same vectors.

Each runs in a fresh process with one thread of BLAS, the two in turn, and reads the vectors from a
file. Its time is that of the call alone. Its peak is that of the process, so the vectors and what
it imports are in it; what the process held before the call is shown beside it.

The vectors are those of a long life: topics of unequal size, each memory at its own distance from
the centre of its topic, and some memories of no topic. The data therefore has core points, borders
and noise.
"""

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from bench.report import Options, Report, Table, facts, scratch

EPS, MIN_SAMPLES = 0.3, 5
DIMENSION = 384
ROWS_A_TOPIC = 100
SPREADS = (0.3, 0.9)  # length of the noise around a centre of length 1
STRAY_SHARE = 0.05  # of the memories: those of no topic
PAIRS = 1_000_000  # drawn, to say of those of one topic how many are neighbours
CHILD_S_MAX = 3_600
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
OURS, THEIRS = "memory-actors", "scikit-learn"
NOTES = (
    "seconds: of the call, median of the runs; peak: of the whole process, the largest of the runs",
    "before: what the process held when the call began, the vectors and all imports",
    "labels equal: number for number, noise and borders included; if not, the exit status is 1",
)

Vectors = npt.NDArray[np.float32]


class Clustered(msgspec.Struct, frozen=True):
    """One call in a process of its own."""

    seconds: float
    before_bytes: int | None
    """It is None if the system does not report it."""
    peak_bytes: int | None


class Comparison(Report, frozen=True):
    """A report that says whether the labels were right."""

    ok: bool = True


def run(sizes: Sequence[int], alone: bool, options: Options) -> Comparison:
    """Cluster at every size; `alone` leaves scikit-learn out."""
    reason = _reason_to_skip(alone)
    names = [OURS] if reason else [OURS, THEIRS]
    rows: list[list[Any]] = []
    ratios: list[list[Any]] = []
    with scratch(options) as directory:
        for size in sizes:
            np.save(directory / "vectors.npy", memories(size, np.random.default_rng(options.seed)))
            found = _in_turn(directory, names, options.runs)
            rows += [_row(directory, size, name, found[name]) for name in names]
            if not reason:
                ratios.append(_ratios(directory, size, found[OURS], found[THEIRS]))
        about = facts(directory, options, ("numpy", THEIRS), **_about(options.seed))
    skipped = [[THEIRS, reason]] if reason else []
    return Comparison("Clusters", about, _tables(rows, ratios, skipped), NOTES, _equal(ratios))


def _reason_to_skip(alone: bool) -> str | None:
    if alone:
        return "left out with --alone"
    return None if find_spec("sklearn") else "not installed: pip install -e '.[dev]'"


def memories(count: int, rng: np.random.Generator) -> Vectors:
    """Return float32 unit vectors [count, 384], around one topic for each 100."""
    return _memories(count, rng)[0]


def _memories(count: int, rng: np.random.Generator) -> tuple[Vectors, Any]:
    """Return the vectors and the topic of each; -1 for none."""
    topic_count = max(1, count // ROWS_A_TOPIC)
    centres = _unit(rng.standard_normal((topic_count, DIMENSION), dtype=np.float32))
    sizes = rng.lognormal(size=topic_count)
    topics = rng.choice(topic_count, size=count, p=sizes / sizes.sum())
    vectors = rng.standard_normal((count, DIMENSION), dtype=np.float32)
    strays = rng.random(count) < STRAY_SHARE
    spread = rng.uniform(*SPREADS, size=(count, 1)).astype(np.float32) / DIMENSION**0.5
    vectors[~strays] *= spread[~strays]
    vectors[~strays] += centres[topics[~strays]]
    return _unit(vectors), np.where(strays, -1, topics)


def _unit(rows: Vectors) -> Vectors:
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _about(seed: int) -> dict[str, Any]:
    return {
        "vectors": f"{DIMENSION} dimensions, {ROWS_A_TOPIC} a topic, {STRAY_SHARE:.0%} of no topic",
        "neighbours": f"{_near_share(seed):.0%} of the pairs of a topic, sampled of 10,000 rows",
        "parameters": f"eps={EPS}, min_samples={MIN_SAMPLES}",
        "blas": "one thread",
    }


def _near_share(seed: int) -> float:
    rng = np.random.default_rng(seed)
    vectors, topics = _memories(10_000, rng)
    one, other = rng.integers(len(topics), size=(2, PAIRS))
    together = (topics[one] == topics[other]) & (topics[one] >= 0) & (one != other)
    cosines = np.einsum("ij,ij->i", vectors[one[together]], vectors[other[together]])
    return float(np.mean(cosines >= 1 - EPS))


# --- figures


def _in_turn(directory: Path, names: Sequence[str], runs: int) -> dict[str, list[Clustered]]:
    found: dict[str, list[Clustered]] = {name: [] for name in names}
    for _ in range(runs):
        for name in names:
            found[name].append(_child(name, directory))
    return found


def _row(directory: Path, size: int, name: str, found: Sequence[Clustered]) -> list[Any]:
    labels = _labels(directory, name)
    before_mb = _megabytes([run.before_bytes for run in found])
    figures = [_seconds(found), before_mb, _peak_mb(found)]
    return [name, size, *figures, int(labels.max(initial=-1)) + 1, float(np.mean(labels == -1))]


def _ratios(
    directory: Path, size: int, ours: Sequence[Clustered], theirs: Sequence[Clustered]
) -> list[Any]:
    mine, peak = _peak_mb(ours), _peak_mb(theirs)
    equal = np.array_equal(_labels(directory, OURS), _labels(directory, THEIRS))
    memory = mine / peak if mine and peak else None
    return [size, _seconds(theirs) / _seconds(ours), memory, "yes" if equal else "no"]


def _equal(ratios: Sequence[Sequence[Any]]) -> bool:
    return all(row[-1] == "yes" for row in ratios)


def _seconds(found: Sequence[Clustered]) -> float:
    return statistics.median(run.seconds for run in found)


def _peak_mb(found: Sequence[Clustered]) -> float | None:
    return _megabytes([run.peak_bytes for run in found])


def _megabytes(sizes: Sequence[int | None]) -> float | None:
    known = [size for size in sizes if size is not None]
    return max(known) / 1e6 if known else None


def _labels(directory: Path, name: str) -> Any:
    return np.load(directory / f"{name}.npy")


def _tables(rows: list[list[Any]], ratios: list[list[Any]], skipped: list[list[Any]]) -> Any:
    columns = ["by", "vectors", "seconds", "before MB", "peak MB", "clusters", "noise"]
    compared = ["vectors", "times as fast", "of its memory", "labels equal"]
    return [
        Table("Clusters", columns, rows),
        Table(f"Ours against {THEIRS}", compared, ratios),
        Table("Skipped", ["by", "reason"], skipped),
    ]


def _child(name: str, directory: Path) -> Clustered:
    command = [sys.executable, "-m", "bench.clustering", name, str(directory.resolve())]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], env={**os.environ, **ONE_THREAD},
        stdout=subprocess.PIPE, check=True, timeout=CHILD_S_MAX,
    )  # fmt: skip
    return msgspec.json.decode(done.stdout, type=Clustered)


# --- the child


def _clustering(name: str) -> Callable[[Vectors], Any]:
    """Return what clusters; neither process imports what only the other needs."""
    if name == OURS:
        from memory_actors.compaction.clusters import dbscan

        return lambda vectors: dbscan(vectors, EPS, MIN_SAMPLES)
    from sklearn.cluster import DBSCAN

    model: Any = DBSCAN(eps=EPS, min_samples=MIN_SAMPLES, metric="cosine")
    return lambda vectors: model.fit_predict(vectors)


def _memory_bytes(field: str) -> int | None:
    """Return VmRSS or VmHWM. The peak that getrusage knows has the parent in it, this has not."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    (line,) = (line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


def _main(name: str, directory: str) -> None:
    cluster, vectors = _clustering(name), np.load(Path(directory) / "vectors.npy")
    before_bytes, started_s = _memory_bytes("VmRSS"), perf_counter()
    labels = cluster(vectors)
    found = Clustered(perf_counter() - started_s, before_bytes, _memory_bytes("VmHWM"))
    np.save(Path(directory) / f"{name}.npy", labels)
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    _main(*sys.argv[1:])

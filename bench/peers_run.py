"""Other systems and ours, side by side: the same memories, questions and vectors, in one run.

For each peer three kinds of child process are started, so that none shares a heap, a cache or a
crash with another:

- `fill` puts a large number of memories into a store, weighs them in memory and on disk;
- `measure` asks every question of every conversation, each in a store of its own, and then times
  the large store: reopening, searches, filtered searches, single adds;
- `write` adds and reports until it is killed with SIGKILL, and `check` counts what is missing.

Every text was embedded before, by one model, in the parent: what is timed is store and ranking.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

import click
import msgspec

from bench.peer_stores import PEERS, missing, versions
from bench.peers_child import Answered, Checked, Filled, Measured
from bench.peers_plan import EmbedderName, Plan, make_plan, write_plan
from bench.plots import check_matplotlib, cost_dots, recall_bars
from bench.recall_sets import read_locomo
from bench.report import Options, Report, Table, facts, percentile, scratch
from memory_actors.search.model.installed import MODEL_DIR_VARIABLE, models_dir

CHILD_S_MAX = 3_600
LIFE_S_MAX = 1.5  # after the first acknowledgement
PACKAGES = ("numpy", "onnxruntime", "tokenizers")

T = TypeVar("T")


class Asked(NamedTuple):
    """The options of the command."""

    only: Sequence[str]
    conversations: int | None
    memories: int
    calls: int
    rounds: int
    embedder: EmbedderName


class Killed(NamedTuple):
    """The outcome of many kills."""

    acknowledged: int
    lost: int
    broken: int
    """Stores that could not be opened, or not be searched, afterwards."""


class Found(NamedTuple):
    """Everything about one peer."""

    filled: Filled
    measured: Measured
    killed: Killed | None


class ChildError(Exception):
    """A child process failed; the message is the last thing it said."""


def run(path: Path, asked: Asked, options: Options, drawn: Path | None = None) -> Report:
    """Measure every peer that can run; draw recall, and its cost, into a directory."""
    if drawn is not None:
        check_matplotlib()  # before an hour of measuring
    names = _chosen(asked.only)
    found: dict[str, Found] = {}
    skipped: dict[str, str] = {}
    with scratch(options) as directory:
        plan = _plan(path, asked, options.seed)
        write_plan(plan, directory)
        for name in names:
            result = _tried(directory, name, asked.rounds, options.seed)
            if isinstance(result, Found):
                found[name] = result
                _progress(f"{name}: {_short(result)}")
            else:
                skipped[name] = result
                _progress(f"{name}: {result}")
        about = _facts(directory, options, plan, asked)
    report = Report("Peers", about, _tables(found, skipped, options.seed), NOTES)
    if drawn is not None:
        model = "MiniLM" if asked.embedder == "default" else asked.embedder
        title = f"LoCoMo, {about['questions']} questions, the same {model} for all, no LLM"
        recall_bars(report, drawn, "recall_by_system", RECALL, title)
        cost_dots(report, drawn, "cost_against_recall", RECALL[0], COSTS, title)
    return report


def _plan(path: Path, asked: Asked, seed: int) -> Plan:
    conversations = read_locomo(path)[: asked.conversations]
    return make_plan(conversations, asked.memories, asked.calls, asked.embedder, seed)


def _chosen(only: Sequence[str]) -> list[str]:
    unknown = set(only) - PEERS.keys()
    if unknown:
        raise click.BadParameter(f"no peer {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return [name for name in PEERS if name in only or not only]


def _facts(directory: Path, options: Options, plan: Plan, asked: Asked) -> dict[str, Any]:
    return facts(
        directory,
        options,
        PACKAGES,
        embedder=asked.embedder,
        conversations=len(plan.talks),
        turns=sum(len(talk.memories) for talk in plan.talks),
        questions=sum(len(talk.questions) for talk in plan.talks),
        large_store=f"{len(plan.fill)} memories",
        timed=f"{len(plan.asked)} searches, {len(plan.late)} adds, {asked.rounds} kills",
    )


# --- one peer


def _tried(directory: Path, name: str, rounds: int, seed: int) -> Found | str:
    reason = missing(PEERS[name])
    if reason is not None:
        return reason
    try:
        return _peer(directory, name, rounds, seed)
    except ChildError as error:
        return f"failed: {error}"


def _peer(directory: Path, name: str, rounds: int, seed: int) -> Found:
    with tempfile.TemporaryDirectory(dir=directory) as store:
        filled = _child("fill", name, directory, Path(store), Filled)
        measured = _child("measure", name, directory, Path(store), Measured)
    keeps = filled.disk_bytes is not None
    return Found(filled, measured, _killed(directory, name, rounds, seed) if keeps else None)


def _child(action: str, name: str, plan: Path, store: Path, kind: type[T], said: bytes = b"") -> T:
    """Run an action in a process of its own and return what it printed.

    :raises ChildError: it failed.
    """
    environment = _environment(plan)
    command = _command(action, name, plan, store)
    try:
        done = subprocess.run(
            command, input=said, capture_output=True, env=environment, timeout=CHILD_S_MAX
        )
    except subprocess.TimeoutExpired as error:
        raise ChildError(f"{action} took more than {CHILD_S_MAX} s") from error
    if done.returncode != 0 or not done.stdout:
        raise ChildError(f"{action}: {_last_line(done.stderr) or f'exit {done.returncode}'}")
    return msgspec.json.decode(done.stdout, type=kind)


def _command(action: str, name: str, plan: Path, store: Path) -> list[str]:
    return [sys.executable, "-m", "bench.peers_child", action, name, str(plan), str(store)]


def _environment(plan: Path) -> dict[str, str]:
    """Return an environment with a home of its own, one thread for arithmetic, and no network."""
    root = str(Path(__file__).parents[1])
    home = plan / "home"
    home.mkdir(exist_ok=True)
    ours = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "HF_HUB_OFFLINE"), "1")
    return {
        **os.environ,
        **ours,
        "HOME": str(home),
        "TOKENIZERS_PARALLELISM": "false",
        MODEL_DIR_VARIABLE: str(models_dir()),
        "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")])),
    }


def _last_line(stderr: bytes) -> str:
    lines = [line for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ""


def _killed(plan: Path, name: str, rounds: int, seed: int) -> Killed:
    rng = random.Random(seed)
    killed = Killed(0, 0, 0)
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=plan) as store:
            one = _one_kill(plan, name, Path(store), rng.uniform(0, LIFE_S_MAX))
        killed = Killed(*map(sum, zip(killed, one, strict=True)))
    return killed


def _one_kill(plan: Path, name: str, store: Path, life_s: float) -> Killed:
    acknowledged = _acknowledged(plan, name, store, life_s)
    said = "\n".join(acknowledged).encode()
    try:
        missing_now = _child("check", name, plan, store, Checked, said).missing
    except ChildError as error:
        _progress(f"{name} after a kill: {error}")
        return Killed(len(acknowledged), len(acknowledged), 1)
    return Killed(len(acknowledged), missing_now, 0)


def _acknowledged(plan: Path, name: str, store: Path, life_s: float) -> list[str]:
    with subprocess.Popen(
        _command("write", name, plan, store),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment(plan),
    ) as child:  # fmt: skip
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(life_s)
        child.kill()
        rest = child.stdout.read()
    lines = (first + rest).split(b"\n")[:-1]  # the last one may have been cut
    if not lines:
        raise ChildError("write: it ended before it had added anything")
    return [line.decode() for line in lines]


def _short(found: Found) -> str:
    """Return the figures that one would want if the rest never came."""
    recall, one = _mean(found.measured.answered, lambda one: one.turns), found.measured
    search_ms, add_ms = percentile(one.search_ms, 50), percentile(one.add_ms, 50)
    return f"turn R@10 {recall:.3f}, search {search_ms:.2f} ms, add {add_ms:.2f} ms"


def _progress(text: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)


# --- tables


RECALL = ("turn R@10", "session R@5", "session R@10")
RECALL_COLUMNS = ["system", "questions", *RECALL, "turn R@10, all asked for", "search p50 ms"]
SPEED_COLUMNS = [
    "system", "add p50 ms", "add p99 ms", "save ms", "search p50 ms", "search p99 ms",
    "filtered p50 ms", "filtered found", "reopen ms",
]  # fmt: skip
COST_COLUMNS = [
    "system", "disk KB/memory", "RSS KB/memory", "of that anonymous", "acknowledged", "lost",
    "broken stores",
]  # fmt: skip
COSTS = ("search p50 ms", "disk KB/memory", "RSS KB/memory")
"""The costs that recall is drawn over."""
NOTES = (
    "R@k: fraction of a question's evidence among the first k (not: at least one of it)",
    "turn R@10: of a search for 10; all asked for: first 10 of a search for every memory",
    "these two differ where a system ranks candidates whose number depends on what is asked for",
    "session R@k: of the search for every memory, sessions ranked by their best turn",
    "recall and its search p50: one store a conversation; all other figures: the large store",
    "vectors are looked up, in all rows: embedding costs nothing here",
    "add: one, as durable as the system makes one; save: what an add leaves to be written, if any",
    "filtered: equality on a topic that one memory in 100 has; found: of what should be returned",
    "reopen: open and first answer in a new process, modules imported, files in the page cache",
    "unplanned texts: embedded by a model while measuring, because they were not looked up",
    "RSS: growth of a fresh process 2 s after filling; anonymous: without pages of files",
    "lost: acknowledged adds that are not stored after SIGKILL and reopening",
)


def _tables(found: Mapping[str, Found], skipped: Mapping[str, str], seed: int) -> list[Table]:
    resampled = _resampled(found, seed)
    return [
        Table("Recall", RECALL_COLUMNS, [_recall_row(*item) for item in found.items()]),
        Table("Turn R@10 by category", _category_columns(found), _categories(found)),
        Table("Turn R@10 against the first row, by resampling", DIFFERENCE_COLUMNS, resampled),
        Table("Speed", SPEED_COLUMNS, [_speed_row(*item) for item in found.items()]),
        Table("Cost and safety", COST_COLUMNS, [_cost_row(*item) for item in found.items()]),
        Table("How", ["system", "versions", "unplanned texts", "used"], _how(found)),
        Table("Skipped", ["system", "reason"], [list(item) for item in skipped.items()]),
    ]


def _recall_row(name: str, found: Found) -> list[Any]:
    answered = found.measured.answered
    return [
        name,
        len(answered),
        _mean(answered, lambda one: one.turns),
        _mean(answered, lambda one: one.sessions_5),
        _mean(answered, lambda one: one.sessions_10),
        _mean(answered, lambda one: one.turns_of_all),
        percentile(found.measured.small_search_ms, 50),
    ]


def _category_columns(found: Mapping[str, Found]) -> list[str]:
    return ["system", *_kinds(found)]


def _categories(found: Mapping[str, Found]) -> list[list[Any]]:
    return [[name, *_by_kind(one.measured.answered, _kinds(found))] for name, one in found.items()]


def _kinds(found: Mapping[str, Found]) -> list[str]:
    return sorted({one.category for each in found.values() for one in each.measured.answered})


def _by_kind(answered: Sequence[Answered], kinds: Sequence[str]) -> list[float]:
    groups = [[one for one in answered if one.category == kind] for kind in kinds]
    return [_mean(group, lambda one: one.turns) for group in groups]


DIFFERENCE_COLUMNS = ["system", "difference", "from (95 %)", "to"]
RESAMPLES = 2_000


def _resampled(found: Mapping[str, Found], seed: int) -> list[list[Any]]:
    """Return each row's difference to the first, with its interval over resampled questions."""
    turns = {name: [a.turns for a in one.measured.answered] for name, one in found.items()}
    first = next(iter(turns.values()), [])
    rows: list[list[Any]] = []
    for name, mine in list(turns.items())[1:]:
        differences = [own - other for own, other in zip(mine, first, strict=True)]
        rng = random.Random(seed)
        means = [fmean(rng.choices(differences, k=len(differences))) for _ in range(RESAMPLES)]
        rows.append([name, fmean(differences), percentile(means, 2.5), percentile(means, 97.5)])
    return rows


def _speed_row(name: str, found: Found) -> list[Any]:
    one = found.measured
    return [
        name,
        percentile(one.add_ms, 50) if found.killed else None,  # nothing was made durable
        percentile(one.add_ms, 99) if found.killed else None,
        one.persist_ms,
        percentile(one.search_ms, 50),
        percentile(one.search_ms, 99),
        percentile(one.filtered_ms, 50),
        one.filtered_share,
        one.reopen_ms,
    ]


def _cost_row(name: str, found: Found) -> list[Any]:
    filled, killed = found.filled, found.killed
    disk = None if filled.disk_bytes is None else filled.disk_bytes / filled.stored / 1024
    return [
        name,
        disk,
        filled.resident_bytes / filled.grown_by / 1024,
        filled.anonymous_bytes / filled.grown_by / 1024,
        *(killed or (None, None, None)),
    ]


def _how(found: Mapping[str, Found]) -> list[list[Any]]:
    return [
        [name, versions(name), one.measured.unplanned, one.filled.note]
        for name, one in found.items()
    ]


def _mean(answered: Sequence[Answered], of: Callable[[Answered], float]) -> float:
    return fmean(map(of, answered)) if answered else 0.0

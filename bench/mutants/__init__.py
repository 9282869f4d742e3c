"""Would a test notice? Small faults put into the modules that decide, one at a time.

Each module has a few of the tests of the default suite, the quick ones first, so that a mutant
takes seconds. A mutant that survives them is a fault that nobody would have noticed, or a change
that changes nothing; a person says which.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.mutants.plugin import Outcome
from bench.report import Options, Report, Table

ROOT = Path(__file__).parents[2]
KINDS, UNIT = "memory_actors/kinds", "tests/memory_actors/kinds"
WHOLE = "tests/properties/test_user_decider.py"
COMPRESSED = f"{UNIT}/test_compression.py"
ENTITIES = (f"{UNIT}/test_entity.py", f"{UNIT}/test_relationship.py", f"{UNIT}/test_graph.py",
            "tests/properties/test_entity.py", WHOLE)  # fmt: skip
EPISODES = (f"{UNIT}/test_episodic.py", f"{UNIT}/test_episodic_compression.py",
            "tests/properties/test_episodic.py", WHOLE)  # fmt: skip
DOCUMENTS = (f"{UNIT}/test_context.py", "tests/properties/test_context.py", WHOLE)
TESTS = {
    f"{KINDS}/working.py": (f"{UNIT}/test_working.py", WHOLE),
    f"{KINDS}/short_term/__init__.py": (f"{UNIT}/test_short_term.py", WHOLE),
    f"{KINDS}/long_term/__init__.py": (f"{UNIT}/test_long_term.py", COMPRESSED, WHOLE),
    f"{KINDS}/held.py": (f"{UNIT}/test_long_term.py", f"{UNIT}/test_structured.py", WHOLE),
    f"{KINDS}/entity/decide_entity.py": ENTITIES,
    f"{KINDS}/entity/decide_relationship.py": ENTITIES,
    f"{KINDS}/entity/room.py": ENTITIES,
    f"{KINDS}/episodic/__init__.py": EPISODES,
    f"{KINDS}/episodic/room.py": EPISODES,
    f"{KINDS}/structured/__init__.py": (
        f"{UNIT}/test_structured.py", "tests/properties/test_structured.py", WHOLE,
    ),
    f"{KINDS}/context/decide.py": DOCUMENTS,
    f"{KINDS}/context/sizes.py": DOCUMENTS,
    "memory_actors/quota.py": (
        "tests/memory_actors/test_quota_advice.py", f"{UNIT}/test_long_term.py", WHOLE,
    ),
    "memory_actors/actors/actor.py": (
        "tests/memory_actors/actors", "tests/memory_actors/test_quotas.py",
        "tests/memory_actors/test_system.py",
    ),
    "eventlog/ledger.py": (
        "tests/contracts/test_event_store.py", "tests/contracts/test_erase.py",
        "tests/contracts/test_archive.py", "tests/eventlog/test_log.py",
        "tests/eventlog/test_totals.py", "tests/properties/test_event_store_model.py",
    ),
}  # fmt: skip
"""The tests that a module's mutants have to get past."""


def run(modules: Sequence[str], each: int, options: Options) -> Report:
    """Try up to so many mutants of each module, picked by the seed."""
    rows: list[list[Any]] = []
    survivors: list[list[str]] = []
    total: Counter[str] = Counter()
    for module in modules or TESTS:
        outcomes = _outcomes(module, each, options.seed)
        fates = Counter(outcome.fate for outcome in outcomes[1:])
        total.update(fates)
        rows.append([module, *(fates[f] for f in FATES), outcomes[0].seconds])
        survivors += [[module, o.mutant] for o in outcomes[1:] if o.fate == "survived"]
    rows.append(["all", *(total[fate] for fate in FATES), None])
    tables = [
        Table("Mutants", ["module", *FATES, "s, as it is"], rows),
        Table("What survived", ["module", "line: before -> after"], survivors),
    ]
    return Report("mutants", {"seed": options.seed, "of each module": each}, tables)


FATES = ("killed", "hung", "survived", "untried")


def _outcomes(module: str, each: int, seed: int) -> list[Outcome]:
    """Return what came of the module as it is, then of its mutants."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "outcomes"
        command = [
            sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider",
            "--timeout=0", f"--hypothesis-seed={seed}", "-p", "bench.mutants.plugin",
            f"--mutate={module}", f"--mutants={each}", f"--mutants-seed={seed}",
            f"--outcomes={path}", *TESTS[module],
        ]  # fmt: skip
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        lines = path.read_bytes().splitlines() if path.exists() else []
    outcomes = [msgspec.json.decode(line, type=Outcome) for line in lines]
    if not outcomes or outcomes[0].fate != "survived":
        said = (done.stdout + done.stderr)[-2000:]
        raise RuntimeError(f"the tests of {module} fail as it is, or before: {said}")
    return outcomes

"""Would a test notice? Small faults put into the modules that decide, one at a time.

Each module has a few of the tests of the default suite, the quick ones first, so that a mutant
takes seconds. A mutant that survives them is a fault that nobody would have noticed, or a change
that changes nothing; a person says which.
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.mutants.plugin import Outcome
from bench.report import Report, Table

ROOT = Path(__file__).parents[2]
KINDS, UNIT = "memory_actors/kinds", "tests/memory_actors/kinds"
WHOLE = (
    "tests/memory_actors/users/test_quota_boundaries.py", "tests/properties/test_user_decider.py",
)  # fmt: skip
API = "tests/memory_actors/api"
ALONE = "tests/properties/test_kinds.py"
KEYED = (f"{ALONE}::TestLongTerm", f"{ALONE}::TestStructured", *WHOLE)
RESTORED = (f"{API}/test_restoring.py", *KEYED)
COMPRESSED = f"{UNIT}/test_compacting.py"
LONG_TERM = (f"{UNIT}/test_long_term.py", f"{UNIT}/test_superseding.py", COMPRESSED,
             f"{ALONE}::TestLongTerm", *WHOLE)  # fmt: skip
ENTITIES = (f"{UNIT}/test_entity.py", f"{UNIT}/test_relationship.py", f"{UNIT}/test_graph.py",
            f"{ALONE}::TestEntity", *WHOLE)  # fmt: skip
EPISODES = (f"{UNIT}/test_episodic.py", f"{UNIT}/test_episodic_compacting.py",
            "tests/memory_actors/interchange/test_kinds.py", f"{ALONE}::TestEpisodic",
            *WHOLE)  # fmt: skip
DOCUMENTS = (f"{UNIT}/test_context.py", f"{API}/test_context_refusals.py",
             "tests/properties/test_context.py", f"{ALONE}::TestContext", *WHOLE)  # fmt: skip
FORGOTTEN = (f"{UNIT}/test_tombstones.py", f"{API}/test_forgetting.py", f"{API}/test_review.py",
             "tests/memory_actors/test_forgetting_cases.py")  # fmt: skip
ACTOR = ("tests/memory_actors/actors", "tests/memory_actors/users/test_quotas.py",
         f"{API}/test_system.py", "tests/properties/test_actor_batches.py",
)  # fmt: skip
COMPACTION = "tests/memory_actors/compaction"
COMPACTED = (f"{COMPACTION}/test_compaction.py", f"{COMPACTION}/test_episodes.py",
             f"{COMPACTION}/test_series.py", f"{COMPACTION}/test_stops.py",
             "tests/properties/test_memory_system.py")  # fmt: skip
LOG = ("tests/contracts/test_event_store.py", "tests/contracts/test_erase.py",
       "tests/contracts/test_archive.py", "tests/eventlog/test_log.py",
       "tests/eventlog/lmdb/test_totals.py", "tests/eventlog/lmdb/test_ends.py",
       "tests/eventlog/keys/test_encryption.py", "tests/properties/test_event_store_model.py",
)  # fmt: skip
TESTS = {
    f"{KINDS}/working.py": (f"{UNIT}/test_working.py", f"{ALONE}::TestWorking", *WHOLE),
    f"{KINDS}/short_term.py": (
        f"{UNIT}/test_short_term.py", f"{ALONE}::TestShortTerm", *WHOLE,
    ),
    f"{KINDS}/long_term/__init__.py": LONG_TERM,
    f"{KINDS}/long_term/state.py": LONG_TERM,
    f"{KINDS}/compacting.py": (COMPRESSED, *EPISODES),
    f"{KINDS}/rows.py": (f"{UNIT}/test_structured.py", *KEYED),
    f"{KINDS}/kind.py": (
        f"{UNIT}/test_structured.py", f"{UNIT}/test_long_term.py", *KEYED, *RESTORED,
    ),
    f"{KINDS}/past.py": (f"{API}/test_purge.py", *RESTORED),
    f"{KINDS}/account.py": (
        f"{UNIT}/test_account.py", "tests/memory_actors/users/test_quotas.py", *WHOLE,
    ),
    f"{KINDS}/commands.py": (f"{UNIT}/test_long_term.py", *RESTORED),
    f"{KINDS}/user_state.py": (
        f"{UNIT}/test_user_state.py", f"{API}/test_turn.py", f"{API}/test_purge.py", *RESTORED,
    ),
    f"{KINDS}/provenance.py": (f"{API}/test_lifetimes.py", f"{API}/test_purge.py", *WHOLE),
    f"{KINDS}/purging.py": (
        f"{API}/test_purge.py", f"{API}/test_retention.py",
        "tests/properties/test_memory_system.py",
    ),
    f"{KINDS}/review.py": (
        "tests/properties/test_review.py", f"{API}/test_review.py", f"{UNIT}/test_tombstones.py",
    ),
    f"{KINDS}/tombstones.py": FORGOTTEN,
    f"{KINDS}/forgetting.py": FORGOTTEN,
    f"{KINDS}/grants.py": (f"{API}/test_scopes.py",),
    "memory_actors/users/holds.py": (f"{API}/test_retention.py",),
    "memory_actors/users/totals.py": (
        "tests/properties/test_totals.py", "tests/memory_actors/users/test_quotas.py",
        "tests/memory_actors/users/test_quota_advice.py",
    ),
    f"{KINDS}/extracting.py": (
        f"{API}/test_extracting.py", "tests/properties/test_extracting.py",
    ),
    f"{KINDS}/entity/__init__.py": ENTITIES,
    f"{KINDS}/entity/graph.py": ENTITIES,
    f"{KINDS}/entity/relationships.py": ENTITIES,
    f"{KINDS}/entity/state.py": ENTITIES,
    f"{KINDS}/episodic/__init__.py": EPISODES,
    f"{KINDS}/episodic/state.py": EPISODES,
    f"{KINDS}/structured.py": (
        f"{UNIT}/test_structured.py", f"{ALONE}::TestStructured", *WHOLE,
    ),
    f"{KINDS}/context/__init__.py": DOCUMENTS,
    f"{KINDS}/context/draft.py": DOCUMENTS,
    f"{KINDS}/context/sizes.py": DOCUMENTS,
    f"{KINDS}/context/state.py": DOCUMENTS,
    "memory_actors/base/quota.py": (
        "tests/memory_actors/users/test_quota_advice.py", f"{UNIT}/test_long_term.py", *WHOLE,
    ),
    "memory_actors/actors/actor.py": ACTOR,
    "memory_actors/actors/asking.py": ACTOR,
    "memory_actors/actors/heap.py": ACTOR,
    "memory_actors/actors/runtime.py": ("tests/memory_actors/users/test_live_user.py", *ACTOR),
    "memory_actors/compaction/clusters.py": (
        f"{COMPACTION}/test_clusters.py", f"{COMPACTION}/test_splitting.py",
    ),
    "memory_actors/compaction/replacing.py": COMPACTED,
    "memory_actors/compaction/schedule.py": (f"{COMPACTION}/test_schedule.py",),
    "memory_actors/compaction/selection.py": COMPACTED,
    "eventlog/core/rules.py": LOG,
    "eventlog/lmdb/ledger.py": LOG,
}  # fmt: skip
"""The tests that a module's mutants have to get past."""


def run(modules: Sequence[str], each: int, seed: int, properties: bool) -> Report:
    """Try up to so many mutants of each module, picked by the seed; of all modules if none.

    With `properties`, only property tests may notice them.
    """
    rows: list[list[Any]] = []
    survivors: list[list[str]] = []
    total: Counter[str] = Counter()
    for module in modules or TESTS:
        tests = [path for path in TESTS[module] if PROPERTIES in path or not properties]
        if not tests:
            continue
        as_it_is, *tried = outcomes(ROOT, module, tests, each, seed)
        fates = Counter(outcome.fate for outcome in tried)
        total.update(fates)
        rows.append([module, *(fates[fate] for fate in FATES), as_it_is.seconds])
        survivors += [[module, one.mutant] for one in tried if one.fate == "survived"]
    rows.append(["all", *(total[fate] for fate in FATES), None])
    tables = [
        Table("Mutants", ["module", *FATES, "s, as it is"], rows),
        Table("What survived", ["module", "line: before -> after"], survivors),
    ]
    told = {"seed": seed, "of each module": each, "property tests alone": properties}
    return Report("mutants", told, tables)


PROPERTIES = "tests/properties/"
FATES = ("killed", "hung", "survived", "untried")


def outcomes(root: Path, module: str, tests: Sequence[str], each: int, seed: int) -> list[Outcome]:
    """Return the outcome of the unchanged module, then those of its mutants.

    :raises RuntimeError: its tests fail as it is.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "outcomes"
        command = [
            sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider",
            "--timeout=0", f"--hypothesis-seed={seed}", "-p", "bench.mutants.plugin",
            f"--mutate={module}", f"--mutants={each}", f"--mutants-seed={seed}",
            f"--outcomes={path}", *tests,
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=root, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        lines = path.read_bytes().splitlines() if path.exists() else []
    found = [msgspec.json.decode(line, type=Outcome) for line in lines]
    if not found or found[0].fate != "survived":
        said = (done.stdout + done.stderr)[-2000:]
        raise RuntimeError(f"the tests of {module} fail as it is, or before: {said}")
    return found

"""Commands at random, of everything a memory system does; after each, model = live = replay.

Each trial is one step of the machine in `tests/support/whole_machine.py`: a command of one user or
a race of several, compaction, a restart, a backup put back, an erasure, a look back. After it the
lists, searches and reads must match a model of dictionaries, the live state must match a replay of
the whole stream, and a replay as of an earlier moment must give the answers of that moment. The
machine is the tests' own, so the row wants a checkout, and Hypothesis. A run of 100 examples that
failed is repeated by its seed.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from bench.faults.row import Counts, Row

TESTS = Path(__file__).parents[2] / "tests"
STEPS = {"quick": 200, "middle": 10_000, "full": 100_000}


def run(counts: Counts, seed: int, _scratch: Path) -> Row:
    """Take that many steps."""
    row = Row(fault="commands at random: model = live = replay")
    if find_spec("hypothesis") is None:
        row.skipped = "not installed: hypothesis (pip install 'memory-actors[dev]')"
        return row
    _take(row, STEPS[counts], seed)
    return row


def _take(row: Row, wanted: int, seed: int) -> None:
    sys.path.insert(0, str(TESTS))
    from support.whole_machine import many_steps

    runs = 0
    try:
        for steps, examples in many_steps(wanted, seed):
            row.tried, row.survived, runs = row.tried + steps, row.survived + steps, runs + 1
            row.count("examples", examples)
    except Exception as error:
        example = "\n".join(getattr(error, "__notes__", ()))
        row.fail("not as the model", f"seed {seed + runs}: {error!r:.200} {example}", lost=1)

"""kill -9 at random moments: while it writes and does something else, or works on a closed store.

The work is that of bench/kill.py and bench/kill_closed.py. The kills of a run are divided evenly
between all that is done.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import get_args

from bench.faults.row import Counts, Row
from bench.kill import KillReport
from bench.kill import run as kill
from bench.kill_child import Beside
from bench.kill_closed import Closed
from bench.kill_closed import run as kill_closed

KILLS = {"quick": 18, "middle": 90, "full": 1_000}
DURING: dict[str, Callable[[int, int], KillReport]] = {
    **{name: partial(kill, beside=name) for name in get_args(Beside)},
    **{name: partial(kill_closed, name) for name in get_args(Closed)},
}


def run(counts: Counts, seed: int, _scratch: Path) -> Row:
    """Kill processes and see what is lost."""
    row = Row(fault="kill -9 at random moments")
    rounds = -(-KILLS[counts] // len(DURING))
    for name, killed in DURING.items():
        report = killed(rounds, seed)
        harm = report.lost + report.damaged_logs + report.diverged_states
        row.tried += report.rounds
        row.survived += report.rounds - min(report.rounds, harm)
        row.lost += report.lost
        row.count("acknowledged", report.acknowledged)
        row.count(f"kills while {name}", report.rounds)
        if not report.ok:
            row.failures.append(f"while {name}: {report}")
    return row

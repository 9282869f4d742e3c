"""kill -9 at random moments: while it writes, compacts and archives, backs up and erases.

The work is that of bench/kill.py.
"""

from pathlib import Path

from bench.faults.row import Counts, Row
from bench.kill import Beside
from bench.kill import run as kill

DURING: tuple[Beside, ...] = ("writing", "compacting", "keeping", "encrypting")
ROUNDS = {"quick": 3, "middle": 30, "full": 500}  # of each


def run(counts: Counts, seed: int, _scratch: Path) -> Row:
    """Kill processes and see what is lost."""
    row = Row(fault="kill -9 at random moments")
    for during in DURING:
        report = kill(ROUNDS[counts], seed, beside=during)
        harm = report.lost + report.damaged_logs + report.diverged_states
        row.tried += report.rounds
        row.survived += report.rounds - min(report.rounds, harm)
        row.lost += report.lost
        row.count("acknowledged", report.acknowledged)
        row.count(f"kills while {during}", report.rounds)
        if not report.ok:
            row.failures.append(f"while {during}: {report}")
    return row

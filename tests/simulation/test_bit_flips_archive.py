"""One flipped bit in a log that has an archive: detected or harmless, and it costs no segment.

The trials are those of test_bit_flips.py, over a log of which most has been archived and the file
shrunk. A damaged record of a segment must not make its file look as if nothing named it: whatever
the tables say of the archive, it stays whole.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog
from simulation import test_bit_flips as flips

from eventlog import EventLog

KEPT = "u11"

write_hot, one_trial = flips.write, flips.trial


async def write(path: Path) -> None:
    """Write as test_bit_flips does, then archive."""
    await write_hot(path)
    async with EventLog.open(path, flips.registry, clock=lambda: 1_700_000_000_000_000) as log:
        for stream in flips.STREAMS:
            last = (await log.head(stream)).version
            if stream != KEPT:
                await log.archive(stream, range(1, last))
        await log.shrink(force=True)
        await log.acquire(KEPT, 2)


def trial(source: Path, target: Path, name: str, seed: int, truth: dict[str, Any]) -> str:
    """Run a trial beside a whole archive; say so if that lost a file."""
    shutil.rmtree(target / "archive", ignore_errors=True)
    shutil.copytree(source / "archive", target / "archive")
    outcome = one_trial(source, target, name, seed, truth)
    lost = segments(source) - segments(target)
    return f"wrong\tlost {len(lost)} segments: {outcome}" if lost else outcome


def segments(path: Path) -> set[str]:
    return {file.name for file in (path / "archive").iterdir()}


def check(outcomes: dict[str, list[str]]) -> None:
    assert flips.wrong_answers(outcomes, flips.EVENTS | {"lost"}) == []
    assert outcomes["wrong, and verified"] == outcomes["untyped"] == []


def test_damaged_tables_cost_no_segment(tmp_path: Path):
    """Damage to the tables is never served, and costs no segment."""
    outcomes = flips.outcomes_of(tmp_path, "log.mdb", 40, script=__file__)

    check(outcomes)
    assert len(outcomes["refused"]) + len(outcomes["found"]) > 6


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_flipped_bits_cost_no_segment(tmp_path: Path):
    """Of many flipped bits none is served or costs a segment."""
    check(flips.outcomes_of(tmp_path, "log.mdb", 2000, script=__file__))


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    flips.write, flips.trial = write, trial
    flips.simulate(*sys.argv[1:])

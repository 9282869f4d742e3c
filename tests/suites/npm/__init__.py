"""Suites that are packages of npm: MCP's conformance suite, and its reference memory server.

Node is that of PyPI. Both are fetched once, into the user's cache; nothing of them is in the
repository.
"""

from collections.abc import Callable, Iterator, Mapping
from time import perf_counter

import anyio

from suites.npm import conformance, reference
from suites.npm.differences import DIFFERENCES
from suites.running import Result

SEQUENCES, SEED = 500, 1


def _conformance(version: str) -> Result:
    """Run the scenarios of a version of the conformance suite."""
    began_s = perf_counter()
    run, failed, left_out = conformance.run(version)
    bad = {one.partition(":")[0] for one in failed}
    return Result(
        suite=f"mcp-conformance-{version}",
        package=conformance.PACKAGE,
        version=version,
        items=len(run) + len(left_out),
        run=len(run),
        passed=len(set(run) - bad),
        left_out=dict(left_out),
        items_left_out=dict.fromkeys(left_out, 1),
        problems=failed,
        seconds=perf_counter() - began_s,
    )


def _reference() -> Result:
    """Run random sequences of calls on the reference memory server and on ours."""
    began_s = perf_counter()
    found = anyio.run(reference.compare, SEQUENCES, SEED)
    return Result(
        suite="mcp-server-memory",
        package=reference.PACKAGE,
        version=reference.VERSION,
        items=SEQUENCES,
        run=SEQUENCES,
        passed=SEQUENCES - len(found),
        left_out={one.name: f"{one.what} {one.reason}" for one in DIFFERENCES},
        items_left_out={},
        problems=[str(one) for one in found],
        seconds=perf_counter() - began_s,
    )


def _suites() -> Iterator[tuple[str, Callable[[], Result]]]:
    for version in conformance.SCENARIOS:
        yield f"mcp-conformance-{version}", lambda version=version: _conformance(version)
    yield "mcp-server-memory", _reference


SUITES: Mapping[str, Callable[[], Result]] = dict(_suites())
"""The suites by name: calling one runs it, or raises `NotObtainedError`."""

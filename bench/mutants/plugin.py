"""A plugin of pytest: run the tests that were collected once for each mutant of a module.

Everything is imported once. Each mutant lives in a process of its own, forked from there, in which
the functions of the module get the code of the mutant; nothing on disk changes. The first test that
fails ends it.
"""

import gc
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

import msgspec
import pytest
from hypothesis import Phase, settings

from bench.mutants.mutations import Mutation, count, mutation

EXAMPLES_MAX = 16  # of a state machine: what survives them may still fail in the whole suite
DEADLINE_FACTOR = 4  # times what the tests compute for the module as it is: it hangs
DEADLINE_S_MIN = 30.0
WAITED_FACTOR = 10  # times the deadline by the clock, for a busy machine and what waits for ever
DATA_BYTES_MAX = 4 << 30  # a loop that does not end may also grow


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a mutant."""

    mutant: str
    fate: str
    """killed, survived, hung; or untried, where its functions cannot be exchanged."""
    seconds: float
    """Time of the processor."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take what to mutate."""
    parser.addoption("--mutate", type=Path)
    parser.addoption("--mutants", type=int)
    parser.addoption("--mutants-seed", type=int)
    parser.addoption("--outcomes", type=Path)


def pytest_configure() -> None:
    """Do not look for the smallest example: that there is one is enough."""
    settings.register_profile(
        "mutants",
        phases=[Phase.explicit, Phase.generate],
        database=None,
        deadline=None,
        report_multiple_bugs=False,
    )
    settings.load_profile("mutants")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Run the tests for the module as it is, then for each mutant."""
    option = session.config.option
    for item in session.items:
        chosen = getattr(getattr(item, "cls", None), "settings", None)
        if isinstance(chosen, settings):
            fewer = min(chosen.max_examples, EXAMPLES_MAX)
            item.cls.settings = settings(chosen, max_examples=fewer)
    path = option.mutate.resolve()
    with option.outcomes.open("wb") as file:

        def told(outcome: Outcome) -> None:
            file.write(msgspec.json.encode(outcome) + b"\n")
            file.flush()

        as_it_is = _tried(session, None, DEADLINE_S_MIN * 20)
        told(as_it_is)
        if as_it_is.fate != "survived":
            return True
        deadline_s = max(DEADLINE_S_MIN, DEADLINE_FACTOR * as_it_is.seconds)
        source = path.read_text()
        known = count(source)
        picked = random.Random(option.mutants_seed).sample(range(known), min(known, option.mutants))
        for number in sorted(picked):
            told(_tried(session, mutation(source, str(path), number), deadline_s))
    return True


def _tried(session: pytest.Session, mutant: Mutation | None, deadline_s: float) -> Outcome:
    until_s = time.monotonic() + WAITED_FACTOR * deadline_s
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os._exit(_run(session, mutant, deadline_s))
    done, status, used = 0, 0, None
    while not done and time.monotonic() < until_s:
        done, status, used = os.wait4(child, os.WNOHANG)
        time.sleep(0.01)
    if not done:
        os.killpg(child, signal.SIGKILL)
        _, _, used = os.wait4(child, 0)
        status = signal.SIGXCPU
    assert used is not None
    seconds = round(used.ru_utime + used.ru_stime, 2)
    fates = {-signal.SIGXCPU: "hung", 0: "survived", UNTRIED: "untried"}
    fate = fates.get(os.waitstatus_to_exitcode(status), "killed")
    return Outcome(str(mutant or "as it is"), fate, seconds)


UNTRIED = 17


def _run(session: pytest.Session, mutant: Mutation | None, deadline_s: float) -> int:
    """Run the tests in a process of its own; return its exit status."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES_MAX, DATA_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CPU, (int(deadline_s), int(deadline_s) + 5))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    if mutant is not None and not _exchange(mutant.code):
        return UNTRIED
    for item, following in zip(session.items, [*session.items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return 1
    return 0


def _exchange(module: CodeType) -> bool:
    """Give the functions of a module their new code; say whether all could take theirs."""
    new = {(code.co_qualname, code.co_firstlineno): code for code in _codes(module)}
    gc.unfreeze()  # a collection that was frozen hides every function
    everything = [one for one in gc.get_objects() if isinstance(one, FunctionType)]
    functions = [one for one in everything if one.__code__.co_filename == module.co_filename]
    for function in functions:
        code = function.__code__
        key = (code.co_qualname, code.co_firstlineno)
        try:
            function.__code__ = new.get(key, code)
        except ValueError:  # it lost a variable of the function around it
            return False
    return bool(functions)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)

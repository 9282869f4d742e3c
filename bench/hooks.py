"""The cost of a hook of a coding agent: the whole process at a prompt, beside a running owner.

The owner is a process of its own, with the default model, some memories of a project and an empty
memory of the person. A hook is started as a host starts it, by its command line, and takes turns
with a Python that does nothing. Then comes a day of prompts, of which one in ten begins a turn that
is captured: what is left of the hooks when the last has had its time, and how the resident memory
of the owner has changed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, sleep
from typing import NamedTuple

import psutil

from bench.report import Options, Report, Table, facts, median, percentile, scratch
from memory_actors.integrations.coding_agents.hook import HookCommand
from memory_actors.integrations.coding_agents.storing import WORK_S_MAX

GOAL_MS = 100.0
TURN_EVERY, TURN_S = 10, 0.5
COLUMNS = ("process", "p50, ms", "p95, ms", "of the processor, ms")
OWNER = """
import asyncio, sys
from memory_actors import Item, MemorySystem
async def main():
    async with MemorySystem.open(sys.argv[1]) as memory:
        texts = [f"Module {n} is written by {n % 7} writers" for n in range(int(sys.argv[3]))]
        await memory.user(sys.argv[2]).add_many([Item(content=text) for text in texts])
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""


class _Took(NamedTuple):
    elapsed_ms: float
    processor_ms: float


def run(calls: int, memories: int, day: int, options: Options) -> Report:
    """Measure some hooks, and a day of them."""
    with scratch(options) as directory:
        project, store = directory / "project", directory / "memory"
        project.mkdir()
        arguments = [str(store), f"project:{project}", str(memories)]
        with subprocess.Popen(
            [sys.executable, "-c", OWNER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as owner:
            assert owner.stdout is not None
            owner.stdout.readline()
            hook = HookCommand(str(store), "default").hook("claude-code")
            processes: dict[str, Sequence[str]] = {
                "a Python that does nothing": [sys.executable, "-c", ""],
                "a hook at a prompt": hook,
                "a hook at a session's start": hook,
            }
            took: dict[str, list[_Took]] = {name: [] for name in processes}
            for number in range(calls):
                for name, command in processes.items():
                    took[name].append(_run(command, _event(name, project, number), directory))
            before, took["a hook at a turn's end"] = _resident_mb(owner.pid), []
            for number in range(day):
                _run(hook, _event("a hook at a prompt", project, number), directory)
                if number % TURN_EVERY == 0:
                    took["a hook at a turn's end"].append(_turn(hook, project, number, directory))
            until_s = perf_counter() + WORK_S_MAX
            while _left(hook, owner.pid) and perf_counter() < until_s:
                sleep(0.1)
            after, left = _resident_mb(owner.pid), _left(hook, owner.pid)
            owner.communicate()
        said = facts(directory, options, [], calls=calls, memories=memories)
        failed = sum(1 for _ in directory.rglob("agent.log"))
    rows = [
        [name, *(percentile([one.elapsed_ms for one in each], p) for p in (50, 95)),
         median([one.processor_ms for one in each])]
        for name, each in took.items()
        if each
    ]  # fmt: skip
    told = [[day, left, before, after]]
    return Report(
        name="hooks",
        facts=said,
        tables=[
            Table("Whole processes", COLUMNS, rows),
            Table("A day", ("prompts", "processes left", "owner before, MB", "after, MB"), told),
        ],
        notes=[f"at most {GOAL_MS:g} ms at p95 of a prompt; no language model is set"],
        ok=rows[1][2] <= GOAL_MS and left == 0 and failed == 0,
    )


def _event(name: str, project: Path, number: int) -> bytes:
    kind = "SessionStart" if name.endswith("start") else "UserPromptSubmit"
    prompt = f"How many writers has module {number}?"
    event = {"session_id": "now", "cwd": str(project), "hook_event_name": kind, "prompt": prompt}
    return json.dumps(event).encode()


def _turn(hook: Sequence[str], project: Path, number: int, directory: Path) -> _Took:
    path = directory / "session.jsonl"
    said = (("user", f"Give module {number} a writer"), ("assistant", f"It has {number} writers."))
    with path.open("a") as file:
        for who, text in said:
            message = {"role": who, "content": text}
            line = {"type": who, "uuid": f"{who} {number}", "message": message}
            file.write(json.dumps(line | {"timestamp": datetime.now(UTC).isoformat()}) + "\n")
    event = {"session_id": "day", "cwd": str(project), "hook_event_name": "Stop"}
    sent = json.dumps(event | {"transcript_path": str(path)}).encode()
    took = _run(hook, sent, directory)
    sleep(TURN_S)
    return took


def _run(command: Sequence[str], sent: bytes, directory: Path) -> _Took:
    read, write = os.pipe()
    os.write(write, sent)
    os.close(write)
    environment = {**os.environ, "XDG_STATE_HOME": str(directory / "state")}
    nowhere = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    started_s = perf_counter()
    pid = os.posix_spawn(
        command[0], command, environment, file_actions=[(os.POSIX_SPAWN_DUP2, read, 0), nowhere]
    )
    _, _, used = os.wait4(pid, 0)
    elapsed_s = perf_counter() - started_s
    os.close(read)
    return _Took(elapsed_s * 1e3, (used.ru_utime + used.ru_stime) * 1e3)


def _resident_mb(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss) / 2**20


def _left(hook: Sequence[str], owner: int) -> int:
    """Return how many processes there are with the store on their command line, but its owner."""
    store = hook[hook.index("--data") + 1]
    lines = (one.info for one in psutil.process_iter(["pid", "cmdline"]))
    return sum(store in (one["cmdline"] or ()) and one["pid"] != owner for one in lines)

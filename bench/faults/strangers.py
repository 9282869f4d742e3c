"""Peers on the socket of an owner that mean harm, while a client of the same owner goes on working.

Each must get a typed refusal or lose its connection; the owner lives and its memory stays bounded;
the client is answered all the time. Most of them know the secret of the store, which only its own
user can read: another user of the machine cannot even connect, which is tried where this is root.
"""

import asyncio
import os
import random
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from bench.faults.erasing import NOBODY
from bench.faults.processes_child import opened
from bench.faults.row import Counts, Row
from bench.faults.trials import in_child, in_loop
from memory_actors import MemoryActorsError
from memory_actors.base.on import On
from memory_actors.sharing import frames
from memory_actors.sharing.address import FILE, SOCKET, reachable, read_address
from memory_actors.sharing.serving import HELLO_S_MAX, INCOMING_BYTES_MAX, UNREAD_BYTES_MAX
from memory_actors.sharing.values import error_of

TIMES = {"quick": 1, "middle": 5, "full": 20}
MIB = 1 << 20
GROWN_BYTES_MAX = INCOMING_BYTES_MAX + UNREAD_BYTES_MAX
"""The memory that strangers may use in the owner: unfinished frames, answers nobody reads."""
ANSWER_S_MAX = 5.0
CONNECTIONS = 1_000
FILES_MAX = 900  # of a thousand, as most systems allow
LARGE = 40
LARGE_BYTES = 200_000


Trial = Callable[[Path, random.Random], str]
"""Does harm; returns what should not have come of it."""


def run(counts: Counts, seed: int, scratch: Path) -> Row:
    """Let strangers at an owner."""
    row = Row(fault="peers of the owner's socket that send junk, too much, or nothing")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * CONNECTIONS:
        wanted = 2 * CONNECTIONS
        if hard != resource.RLIM_INFINITY and hard < wanted:
            row.skipped = f"a process may have {hard:,} files here, and this needs {wanted:,}"
            return row
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    store = scratch / "store"
    with _owner(scratch) as pid:
        for n in range(TIMES[counts]):
            for name, trial in STRANGERS.items():
                _judge(row, name, partial(_trial, store, pid, trial, seed + n))
            _other_user(row, store)
    return row


def _judge(row: Row, name: str, trial: Callable[[], Any]) -> None:
    ending = in_loop(trial, 120)
    if ending.kind == "harmless":
        row.survive(name)
        said, _, most = ending.detail.partition(" ")
        row.detail["slowest answer beside, s"] = max(
            float(said), float(row.detail.get("slowest answer beside, s", 0))
        )
        row.detail["most grown, MiB"] = max(int(most), int(row.detail.get("most grown, MiB", 0)))
    else:
        row.fail(name, str(ending))


@contextmanager
def _owner(scratch: Path) -> Iterator[int]:
    process = get_context("fork").Process(target=_own, args=(scratch / "store",), daemon=True)
    process.start()
    try:
        assert process.pid is not None
        until = time.monotonic() + 30
        while not (scratch / "store" / "ready").exists() and time.monotonic() < until:
            time.sleep(0.02)
        yield process.pid
    finally:
        process.kill()
        process.join()


def _own(store: Path) -> None:
    async def own() -> None:
        async with opened(store) as memory:
            user = memory.user("ada")
            for n in range(LARGE):
                await user.add(f"{n} " + "x" * LARGE_BYTES)
            (store / "ready").touch()
            await asyncio.Event().wait()

    asyncio.run(own())


def _own_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


async def _trial(store: Path, pid: int, trial: Trial, seed: int) -> tuple[str, str]:
    async with opened(store) as memory:
        user = memory.user("ben")
        await user.working.set("key", 1)
        before, most, slowest_s = _own_bytes(pid), 0, 0.0
        harming = asyncio.create_task(asyncio.to_thread(trial, store, random.Random(seed)))
        while not harming.done():
            started_s = time.monotonic()
            await user.working.get("key")
            slowest_s = max(slowest_s, time.monotonic() - started_s)
            most = max(most, _own_bytes(pid) - before)
            await asyncio.sleep(0.005)
        wrong = await harming
        await user.add(f"goes on {time.monotonic_ns()}")
    if wrong:
        return "wrong", wrong
    if slowest_s > ANSWER_S_MAX:
        return "slow", f"a client waited for {slowest_s:.1f} s"
    if most > GROWN_BYTES_MAX:
        return "too much memory", f"{most / MIB:,.0f} MiB more"
    return "harmless", f"{slowest_s:.3f} {most // MIB}"


# --- the language


@contextmanager
def _connected(store: Path, sent: bytes = b"") -> Iterator[socket.socket]:
    address = read_address(store)
    assert address is not None
    with reachable(store, address) as (found, where), found:
        found.settimeout(HELLO_S_MAX + 5)
        found.connect(where)
        found.sendall(sent)
        yield found


def _hello(store: Path, **fields: Any) -> bytes:
    address = read_address(store)
    assert address is not None
    hello = frames.Hello(frames.PROTOCOL, address.secret, "stranger", os.getpid(), {}, keeps=True)
    return frames.framed(msgspec.structs.replace(hello, **fields))


def _call(number: int, operation: str, arguments: bytes = b"\x92\x90\x80") -> bytes:
    return frames.framed(frames.Call(number, operation, On("ada"), arguments))


def _end(found: socket.socket) -> str:
    """Return "" if the owner ends the connection, else the problem."""
    try:
        while found.recv(1 << 16):
            pass
    except ConnectionError:
        return ""
    except TimeoutError:
        return "the connection is still open"
    return ""


def _sent(found: socket.socket, data: bytes) -> None:
    with suppress(ConnectionError, TimeoutError):
        found.sendall(data)


def _said(found: socket.socket) -> Iterator[frames.Said]:
    read = frames.Frames(frames.FRAME_BYTES_MAX)
    with suppress(ConnectionError):
        while data := found.recv(1 << 16):
            yield from read.fed(data)


def _refused(store: Path, **fields: Any) -> str:
    with _connected(store, _hello(store, **fields)) as found:
        said = next(_said(found), None)
        if not isinstance(said, frames.Refused):
            return f"it says {said!r:.200}"
        error = error_of(said.error)
        return _end(found) if isinstance(error, MemoryActorsError) else repr(error)


# --- strangers


def _junk(store: Path, rng: random.Random) -> str:
    for begun in (b"", _hello(store)):
        for _ in range(20):
            with _connected(store, begun) as found:
                _sent(found, b"\x00\x00\x01\x00" + rng.randbytes(1_000))
                if wrong := _end(found):
                    return wrong
    return ""


def _huge(store: Path, _rng: random.Random) -> str:
    for begun in (b"", _hello(store)):
        with _connected(store, begun) as found:
            _sent(found, b"\xff\xff\xff\xff" + b"x" * 1_000)
            if wrong := _end(found):
                return wrong
    return ""


def _unfinished(store: Path, _rng: random.Random) -> str:
    """Send large frames without their ends, over several connections at once."""
    each, block = 128 * MIB, b"x" * MIB
    with ExitStack() as held:
        found = [held.enter_context(_connected(store, _hello(store))) for _ in range(6)]
        for one in found:
            _sent(one, (each + 1).to_bytes(4, "big"))
            for _ in range(each // MIB):
                _sent(one, block)
        time.sleep(0.5)
        return "" if any(map(_is_gone, found)) else "all of it is kept"


def _is_gone(found: socket.socket) -> bool:
    found.settimeout(0.2)
    try:
        while data := found.recv(1 << 16):
            del data
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def _silent(store: Path, _rng: random.Random) -> str:
    with _connected(store) as nothing, _connected(store, _hello(store)[:20]) as half:
        return _end(nothing) or _end(half)


def _deaf(store: Path, _rng: random.Random) -> str:
    asked = b"".join(_call(n, "list_memories") for n in range(1, 501))
    with ExitStack() as held:
        for _ in range(4):
            found = held.enter_context(_connected(store, _hello(store)))
            _sent(found, asked)
        time.sleep(3)
    return ""


def _crowd(store: Path, _rng: random.Random) -> str:
    """Open a thousand connections that say nothing, and a thousand that say hello."""
    most = 0
    for begun in (b"", _hello(store)):
        with ExitStack() as held:
            for _ in range(CONNECTIONS):
                with suppress(OSError):  # more than the owner wants to know of
                    held.enter_context(_connected(store, begun))
                most = max(most, _open_files(store))
            time.sleep(0.2)
            most = max(most, _open_files(store))
    return "" if most < FILES_MAX else f"the owner has {most} files open"


def _open_files(store: Path) -> int:
    address = read_address(store)
    return 0 if address is None else len([*Path(f"/proc/{address.pid}/fd").iterdir()])


def _nonsense(store: Path, rng: random.Random) -> str:
    calls = [
        _call(1, "no such operation"),
        _call(2, "__class__"),
        _call(3, "add", b"\xc1"),
        _call(4, "add", b"\x91" * 10_000 + b"\x90"),
        _call(5, "add", rng.randbytes(300)),
        _call(6, "system.users"),
        _call(7, "add", msgspec.msgpack.encode([["x"], {"nonsense": 1}])),
        _call(8, "add", msgspec.msgpack.encode([["x"] * 30, {}])),
        frames.framed(frames.More(99, 1 << 60)),
        frames.framed(frames.Signal(99, 99)),
        frames.framed(frames.Answered(99, b"")),
        frames.framed(frames.Welcome(1, 0.0, 0, {})),
    ]
    with _connected(store, _hello(store) + b"".join(calls)) as found:
        failed = {}
        for said in _said(found):
            if isinstance(said, frames.CallFailed):
                failed[said.number] = error_of(said.error)
            if isinstance(said, frames.Answered):
                return f"call {said.number} has a result"
            if len(failed) == 8:
                break
        wrong = [repr(one) for one in failed.values() if not isinstance(one, REFUSALS)]
        return str(wrong or "") or ("" if len(failed) == 8 else f"{len(failed)} answers")


REFUSALS = (MemoryActorsError, TypeError)  # a TypeError as for a caller in the owner's process


def _twice(store: Path, _rng: random.Random) -> str:
    with _connected(store, 2 * _hello(store)) as found:
        return _end(found)


STRANGERS: dict[str, Trial] = {
    "junk": _junk,
    "huge frames": _huge,
    "unfinished frames": _unfinished,
    "no hello": _silent,
    "a second hello": _twice,
    "asks and never reads": _deaf,
    "a thousand connections": _crowd,
    "nonsense": _nonsense,
    "wrong secret": lambda store, _: _refused(store, secret="0" * 64),
    "a secret that is no ASCII": lambda store, _: _refused(store, secret="\u00e9" * 64),
    "wrong version": lambda store, _: _refused(store, protocol=frames.PROTOCOL + 1),
    "other settings": lambda store, _: _refused(store, choices={"embedder": "another"}),
}


def _other_user(row: Row, store: Path) -> None:
    """Try as another user of the machine, who can at most see that there is a store."""
    if os.geteuid() != 0:
        row.detail["another user"] = "not tried: this is not root"
        return
    for mode in (0o700, 0o755):
        ending = in_child(partial(_as_another, store, mode))
        if ending.kind == "harmless":
            row.survive("another user")
        else:
            row.fail("another user", str(ending))


def _as_another(store: Path, mode: int) -> tuple[str, str]:
    for above in (store.parent, *store.parent.parents[:2]):
        with suppress(OSError):
            above.chmod(above.stat().st_mode | 0o011)
    store.chmod(mode)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    try:
        (store / FILE).read_bytes()
    except PermissionError:
        pass
    else:
        return "read", "the address"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as found:
        try:
            found.connect(str(store / SOCKET))
        except PermissionError:
            return "harmless", ""
    return "connected", oct(mode)

"""The activation of one user in a fresh process, from one of the states that a store may be in."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil
import structlog

from bench.hashed import HashedTokens
from bench.memory import DAMAGE
from bench.opened import opened, services_of
from bench.stalls import ticking
from bench.users import anonymous_bytes

SAMPLE_S = 0.005
WARM, COLD = "warm", "cold"


class Activated(msgspec.Struct, frozen=True):
    """The report of the process about itself."""

    took_ms: float
    stall_ms: float
    loop_ms: float
    before_bytes: int
    grown_bytes: int
    """Anonymous memory, over that with the system open and a small user live."""
    live_bytes: int
    """The runtime's own estimate."""
    peak_bytes: int = 0
    """The highest that was seen from outside, over that before."""


def activated(store: Path, user: str, warm_up_user: str, state: str, files: str) -> Activated:
    """Activate a user from a copy of the store, once."""
    with _copy(store, DAMAGE[state]) as copy:
        if files == COLD:
            _forget_pages(copy)
        command = [sys.executable, "-m", "bench.activation", str(copy), user, warm_up_user]
        root = Path(__file__).parents[1]
        with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) as child:
            peak = _peak_bytes(child)
            assert child.stdout is not None
            answer = msgspec.json.decode(child.stdout.read(), type=Activated)
    return msgspec.structs.replace(answer, peak_bytes=max(0, peak - answer.before_bytes))


@contextmanager
def _copy(store: Path, damage: Callable[[Path], None]) -> Iterator[Path]:
    copy = store.with_name("copy")
    shutil.copytree(store, copy)
    try:
        damage(copy)
        yield copy
    finally:
        shutil.rmtree(copy)


def _forget_pages(store: Path) -> None:
    """Put a store's files out of the page cache, as far as the system follows."""
    for path in filter(Path.is_file, store.rglob("*")):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _peak_bytes(child: "subprocess.Popen[bytes]") -> int:
    process, peak = psutil.Process(child.pid), 0
    while child.poll() is None:
        try:
            info = process.memory_info()
        except psutil.Error:
            break
        peak = max(peak, info.rss - getattr(info, "shared", 0))
        time.sleep(SAMPLE_S)
    return peak


# --- the child


async def _main(store: Path, user: str, warm_up_user: str) -> None:
    async with opened(store, HashedTokens()) as memory, ticking() as ticker:
        await memory.user(warm_up_user).usage()  # code, caches, arenas
        before, live_before = anonymous_bytes(), memory.statistics().runtime.live_bytes
        _, stalled = await ticker.watch(memory.user(user).usage())
        live = services_of(memory).runtime.statistics().live_bytes - live_before
        answer = Activated(
            *stalled, before_bytes=before, grown_bytes=anonymous_bytes() - before, live_bytes=live
        )
        sys.stdout.buffer.write(msgspec.json.encode(answer))
        sys.stdout.flush()
        os._exit(0)  # an index without its file is being built: nobody waits for that


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(_main(Path(sys.argv[1]), *sys.argv[2:]))

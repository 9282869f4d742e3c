"""Giving way: a run takes a tenth of the time while others are at work, and all of it otherwise.

Clustering and summaries run in threads, but threads share cores, caches and the interpreter's lock
with the loop. Somebody who adds or searches meanwhile would notice every one of them.

The lock is passed on after 5 ms where nobody says otherwise, and a search has to get it back after
every product that it computes without it: that took searches from 10 to 20 ms.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter

REST = 9  # times as long as the work it follows
REST_S_MAX = 0.25  # a summary that was waited for has burdened nobody; a second gains nothing
TURN_S_MAX = 0.0005  # of a thread that has the interpreter's lock while another wants it

_lock = threading.Lock()
_inside = 0
_turn_s_before = 0.0


class Pace:
    """Rests after each piece of work if somebody else has used the memory meanwhile.

    `uses` says how often others have; `halt` ends a rest.
    """

    def __init__(self, uses: Callable[[], int], halt: asyncio.Event):
        self._uses = uses
        self._halt = halt
        self._seen = uses()
        self._since_s = perf_counter()

    async def give_way(self) -> None:
        """Rest, maybe."""
        before, worked_s = self._uses(), perf_counter() - self._since_s
        others = before > self._seen
        await self._rest(min(REST * worked_s, REST_S_MAX) if others else 0)
        self._seen, self._since_s = before, perf_counter()  # who came meanwhile is still about

    async def _rest(self, rest_s: float) -> None:
        await asyncio.sleep(0)
        with suppress(TimeoutError):
            async with asyncio.timeout(rest_s):
                await self._halt.wait()


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads pass the interpreter's lock on soon. A setting of the process, restored."""
    global _inside, _turn_s_before
    with _lock:
        if _inside == 0:
            _turn_s_before = sys.getswitchinterval()
            sys.setswitchinterval(min(TURN_S_MAX, _turn_s_before))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                sys.setswitchinterval(_turn_s_before)

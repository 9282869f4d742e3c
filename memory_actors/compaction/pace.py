"""Giving way: a run takes a tenth of the time while others are at work, and all of it otherwise.

Clustering and summaries run in threads, but threads share cores, caches and the interpreter's lock
with the loop. Somebody who adds or searches meanwhile would notice every one of them.

The lock is passed on after 5 ms where nobody says otherwise, and a search has to get it back after
every product that it computes without it: that took searches from 10 to 20 ms.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from time import perf_counter

from memory_actors.compaction.process_setting import ProcessSetting

REST = 9  # times as long as the work it follows
REST_S_MAX = 0.25  # a summary that was waited for has burdened nobody; a second gains nothing
TURN_S_MAX = 0.0005  # of a thread that has the interpreter's lock while another wants it


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


def _shorten_turns() -> Callable[[], None]:
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(min(TURN_S_MAX, before_s))
    return partial(sys.setswitchinterval, before_s)


_turns = ProcessSetting(_shorten_turns)


def short_turns() -> AbstractContextManager[None]:
    """Let threads pass the interpreter's lock on soon meanwhile."""
    return _turns.changed()

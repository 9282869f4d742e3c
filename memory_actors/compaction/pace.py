"""Giving way: a run takes a tenth of the time while others are at work, and all of it otherwise.

Clustering and summaries run in threads, but threads share cores, caches and the interpreter's lock
with the loop. Somebody who adds or searches meanwhile would notice every one of them.
"""

import asyncio
from collections.abc import Callable
from time import perf_counter

REST = 9  # times as long as the work it follows
REST_S_MAX = 0.25  # a summary that was waited for has burdened nobody


class Pace:
    """Rests after each piece of work if somebody else has used the memory meanwhile."""

    def __init__(self, uses: Callable[[], int]):
        self._uses = uses
        self._seen = uses()
        self._since_s = perf_counter()

    async def give_way(self, *, own_uses: int = 0) -> None:
        """Rest, maybe; `own_uses` are of the work itself."""
        before, worked_s = self._uses(), perf_counter() - self._since_s
        others = before - self._seen > own_uses
        await asyncio.sleep(min(REST * worked_s, REST_S_MAX) if others else 0)
        self._seen, self._since_s = before, perf_counter()  # who came meanwhile is still about

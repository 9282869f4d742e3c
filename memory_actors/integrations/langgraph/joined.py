"""Calls at once become one batch, as in LangGraph's own asynchronous stores.

While a batch runs, calls wait and become the next one. A read that several ask for is done once,
and of several puts under one key the last one counts. A batch that fails is done again call by
call, so that an error is its caller's alone: a put that was carried out already changes nothing.
"""

import asyncio
from collections.abc import Sequence

from langgraph.store.base import Op, PutOp, Result

from memory_actors.integrations.langgraph.operations import Operations

Call = tuple[Sequence[Op], "asyncio.Future[list[Result]]"]


class Joined:
    """The calls of an event loop."""

    def __init__(self, operations: Operations):
        self._operations = operations
        self._waiting: list[Call] = []
        self._task: asyncio.Task[None] | None = None

    async def batch(self, given: Sequence[Op]) -> list[Result]:
        """Carry out operations, with those of other calls. See `Operations.batch`."""
        self._operations.check(given)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Result]] = loop.create_future()
        self._waiting.append((given, future))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())
        return await future

    async def _work(self) -> None:
        while self._waiting:
            calls, self._waiting = self._waiting, []
            calls = [call for call in calls if not call[1].done()]  # they were cancelled
            try:
                await self._carry_out(calls)
            except Exception as error:
                if len(calls) == 1:
                    _fail(calls[0][1], error)
                    continue
                for call in calls:
                    try:
                        await self._carry_out([call])
                    except Exception as own:
                        _fail(call[1], own)

    async def _carry_out(self, calls: Sequence[Call]) -> None:
        """Carry out the operations of calls as one batch, each once, and answer them."""
        ops: list[Op] = []
        places: dict[object, int] = {}
        asked = [[_place(op, ops, places) for op in given] for given, _ in calls]
        results = await self._operations.carry_out(ops)
        for (_, future), mine in zip(calls, asked, strict=True):
            if not future.done():
                future.set_result([results[at] for at in mine])


def _place(op: Op, ops: list[Op], places: dict[object, int]) -> int:
    """Return where an operation stands in a batch; it is added if it is not there yet."""
    if isinstance(op, PutOp):
        at = places.setdefault((PutOp, op.namespace, op.key), len(ops))
        if at < len(ops):
            ops[at] = op
            return at
    else:
        try:
            at = places.setdefault(op, len(ops))
        except TypeError:  # its filter is a dict
            at = len(ops)
        if at < len(ops):
            return at
    ops.append(op)
    return at


def _fail(future: "asyncio.Future[list[Result]]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)

"""An opening: entered by `async with`, or awaited and closed by `close`.

`MemorySystem.open(...)` opens nothing yet. Using its return value without `async with` or `await`
raises an error that names the missing word.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

from memory_actors.base.errors import NotOpenError


class Closable(Protocol):
    """Something that can be closed, more than once."""

    async def close(self) -> None:
        """Close it."""


T = TypeVar("T", bound=Closable)


class Opening(AbstractAsyncContextManager[T, None]):
    """Something that is not open yet. `call` is what made it, as it is written in a program."""

    def __init__(self, call: str, open_: Callable[[], Awaitable[T]]):
        self._call = call
        self._open = open_
        self._opened: T

    async def __aenter__(self) -> T:
        """Open it, until the end of the block."""
        self._opened = await self._open()
        return self._opened

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self._opened.close()

    def __await__(self) -> Generator[object, None, T]:
        """Open it, until `close` is called."""
        return self._open().__await__()

    def __enter__(self) -> NoReturn:
        """Name the fix.

        :raises NotOpenError: always.
        """
        raise self._not_open("`with`")

    def __exit__(self, *_: object) -> None:
        """Exist because `with` asks for it; never called."""

    def _not_open(self, use: str) -> NotOpenError:
        return NotOpenError(
            f"{self._call} is not open yet ({use}): write `async with {self._call} as it:` and use "
            f"it in the block, or `it = await {self._call}` and `await it.close()` at the end"
        )

    if not TYPE_CHECKING:  # a type checker finds these by itself

        def __getattr__(self, name: str) -> NoReturn:
            """Name the fix.

            :raises NotOpenError: always.
            """
            raise self._not_open(f"`.{name}`")

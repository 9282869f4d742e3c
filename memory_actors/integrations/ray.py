"""A function of yours for every user of a store, on a Ray cluster: checks, exports, compaction.

    async def compact(memory, user_id):
        return await memory.compact(user_id)

    async for done in each_user("postgresql://…", compact, journal="compacted.jsonl"):
        print(done.user_id, done.error or done.value)

Each Ray task opens the store and calls the function for a batch of users. In a database a task is a
node of its own. A directory belongs to one machine: its tasks run there, as clients.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import msgspec

from eventlog.files.datafile import MADE, opened
from memory_actors.base.errors import InvalidInputError, importing
from memory_actors.integrations.adapting import NEEDS
from memory_actors.sharing.address import place_of, shown
from memory_actors.sharing.system import MemorySystem

with importing(NEEDS, "ray"):
    import ray
    from ray.exceptions import RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

Work: TypeAlias = Callable[[MemorySystem, str], Awaitable[Any]]

USERS_A_TASK: Final = 32
"""A task opens the store, which takes some tenths of a second, and a failed one is begun again."""
TASKS_A_CPU: Final = 2
"""Tasks that Ray knows of at once: the next one waits when one ends."""


class UserDone(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one user."""

    user_id: str
    value: Any = None
    """What the function returned."""
    error: str | None = None
    """The exception that the function raised, or the failure of its Ray task; None: neither."""


async def each_user(
    store: str | Path,
    work: Work,
    *,
    users: Iterable[str] | None = None,
    journal: str | Path | None = None,
    batch: int = USERS_A_TASK,
    num_cpus: float = 1,
    **parts: Any,
) -> AsyncIterator[UserDone]:
    """Await `work(memory, user_id)` for every user on a Ray cluster; yield outcomes as they come.

    The cluster is the one that this process has joined, else that of `ray.init()`. `users` are all
    users if None. `parts` are options of `MemorySystem.open`, which each task is sent a copy of.

    `journal` is a file, made if missing, that notes each user who is done without an error. Run the
    same work with the same file again to go on: it passes over the users in it. `work` may run
    twice for a user: a process may die before it notes one, and Ray repeats the batch of a machine
    that fails.

    :raises InvalidInputError: the work or a part cannot be pickled, or the journal is another's.
    :raises Exception: what a task raises that cannot open the store, as `MemorySystem.open` does.
    """
    if batch < 1:
        raise InvalidInputError(f"batch is {batch}: a task has at least one user")
    place = place_of(store)
    place = place.absolute() if isinstance(place, Path) else place
    noted, finished = (None, frozenset[str]()) if journal is None else _opened(journal, place, work)
    with noted or nullcontext():
        if not ray.is_initialized():
            await asyncio.to_thread(ray.init)
        async with MemorySystem.open(place, **parts) as memory:
            known = await memory.users() if users is None else users
            left = (one for one in dict.fromkeys(known) if one not in finished)
            batches = iter(lambda: tuple(islice(left, batch)), ())
            how: dict[str, Any] = {"num_cpus": num_cpus}
            if isinstance(place, Path):  # the tasks of a directory run on its machine
                here = ray.get_runtime_context().get_node_id()
                how["scheduling_strategy"] = NodeAffinitySchedulingStrategy(here, soft=False)
            task = ray.remote(_carried_out).options(**how)
            order = _order(place, work, parts)
            cpus = ray.cluster_resources().get("CPU", 1)
            at_once = max(1, int(TASKS_A_CPU * cpus / (num_cpus or 1)))
            async for done in _done(
                ((task.remote(order, some), some) for some in batches), at_once
            ):
                if noted is not None and done.error is None:
                    noted.write(msgspec.json.encode(done.user_id) + b"\n")
                    noted.flush()
                yield done


async def _done(
    begun: Iterator[tuple[Any, tuple[str, ...]]], at_once: int
) -> AsyncIterator[UserDone]:
    """Begin tasks, so many at once, and yield what comes of each; cancel them if nobody asks on."""
    running: dict[asyncio.Future[list[UserDone]], tuple[Any, tuple[str, ...]]] = {}
    try:
        while True:
            for ref, users in islice(begun, at_once - len(running)):
                running[asyncio.wrap_future(ref.future())] = ref, users
            if not running:
                return
            ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for future in ended:
                _, users = running.pop(future)
                for done in _outcomes(future, users):
                    yield done
    finally:
        for ref, _ in running.values():
            ray.cancel(ref)


def _carried_out(
    order: tuple[str | Path, Work, dict[str, Any]], users: tuple[str, ...]
) -> list[UserDone]:
    place, work, parts = order

    async def one(memory: MemorySystem, user_id: str) -> UserDone:
        try:
            return UserDone(user_id=user_id, value=await work(memory, user_id))
        except Exception as error:  # whatever the work of the caller raises
            return UserDone(user_id=user_id, error=f"{type(error).__name__}: {error}")

    async def whole() -> list[UserDone]:
        async with MemorySystem.open(place, **parts) as memory:
            return [await one(memory, user_id) for user_id in users]

    return asyncio.run(whole())


def _outcomes(ended: "asyncio.Future[list[UserDone]]", users: tuple[str, ...]) -> list[UserDone]:
    try:
        return ended.result()
    except RayTaskError as failed:
        raise failed.cause from failed
    except RayError as failed:  # its process or machine was gone as often as Ray has tried
        return [UserDone(user_id=one, error=f"{type(failed).__name__}: {failed}") for one in users]


def _order(place: str | Path, work: Work, parts: dict[str, Any]) -> Any:
    """Send to Ray, once, what all tasks have in common."""
    if (settings := parts.get("settings")) is not None:  # other machines have other addresses
        parts = parts | {"settings": msgspec.structs.replace(settings, node_host=None, node_port=0)}
    try:
        return ray.put((place, work, parts))
    except Exception as error:  # whatever pickling a part of the caller's raises
        raise InvalidInputError(f"this cannot be sent to Ray's processes: {error}") from error


def _opened(journal: str | Path, place: str | Path, work: Work) -> tuple[IO[bytes], frozenset[str]]:
    name = f"{work.__module__}.{getattr(work, '__qualname__', type(work).__qualname__)}"
    title = msgspec.json.encode({"work": name, "store": shown(place)}) + b"\n"
    try:
        file = opened(Path(journal), os.O_RDWR | os.O_APPEND | MADE)
    except OSError as error:
        raise InvalidInputError(f"the journal {journal} cannot be opened: {error}") from error
    data = file.read()
    if data and not data.startswith(title):
        file.close()
        raise InvalidInputError(f"{journal} is no journal of {name} in this store: name another")
    file.truncate(end := data.rfind(b"\n") + 1)  # a line without its end was not written whole
    if not data:
        file.write(title)
    lines = data[len(title) : end].splitlines()
    return file, frozenset(msgspec.json.decode(line, type=str) for line in lines)

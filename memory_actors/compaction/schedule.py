"""The schedule of compaction: a cron expression in local time, and a loop that keeps to it.

One number, `since`, is the time up to which all that was due has been run. The next run is due at
the first named time after it, or now if that is past: one run catches up for all missed ones.
`since` is kept when a run begins, so that a run that takes the process down is not repeated at each
start, and again when it ends; closing puts the old one back. If processes share a store, the
first one that keeps `since` runs. A run waits up to `JITTER_S`, for not all to start at once.

`since` is a moment, so an hour that comes twice runs nothing twice, and a time that the clocks skip
is due right after the gap. The loop looks at the clock once a minute: a machine that was suspended
wakes no timer.
"""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import anyio.to_thread
import msgspec

from eventlog import EventLogError, SettingStore
from eventlog.core.logs import get_logger
from eventlog.core.records import to_datetime
from eventlog.files.datafile import read_bytes, write_whole
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.privacy import reason
from memory_actors.base.shared_setting import SharedSetting

JITTER_S = 600.0
NAP_S_MAX = 60.0
FIELDS = 5  # cronsim takes seconds in a sixth: nobody compacts by the second
FILE_NAME, SETTING = "compaction.json", "last scheduled compaction"

_logger = get_logger("memory_actors.compaction")


class LocalZone(tzinfo):
    """The zone of this machine with its rules, for times to come too: `TZ`, or the system's.

    It asks the C library, which also reads a `TZ` that holds rules (`CET-1CEST,M3.5.0,M10.5.0/3`)
    and needs no database of zones; tzlocal refuses such a `TZ`.
    """

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        """Return the offset at a wall time."""
        return None if moment is None else moment.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, _moment: datetime | None) -> None:
        """Return None: unknown, and of no use."""

    def tzname(self, moment: datetime | None) -> str | None:
        """Return the zone's name at a wall time."""
        return None if moment is None else moment.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, moment: datetime) -> datetime:
        """Return the wall time at a moment, its fold included."""
        wall = datetime.fromtimestamp(moment.replace(tzinfo=UTC).timestamp())  # noqa: DTZ006
        return wall.replace(tzinfo=self)


LOCAL = LocalZone()


def check_expression(expression: str) -> str:
    """Return a cron expression that names times.

    :raises InvalidInputError: it has no five fields, one of them is wrong, or no day is like that.
    """
    next_run(expression, datetime(2024, 1, 1, tzinfo=UTC), UTC)
    return expression


def next_run(expression: str, after: datetime, zone: tzinfo = LOCAL) -> datetime:
    """Return the first time after another that an expression names, in UTC.

    `after` is aware; what the expression says is wall time in `zone`.

    :raises InvalidInputError: see `check_expression`.
    """
    from cronsim import CronSim, CronSimError  # most processes have no schedule

    if len(expression.split()) != FIELDS:
        raise _wrong(expression, "it needs five fields")
    try:
        # In the hour that comes twice cronsim starts at its first pass: look past what was before.
        named = (one.astimezone(UTC) for one in CronSim(expression, after.astimezone(zone)))
        found = next((one for one in named if one > after), None)
    except CronSimError as error:
        raise _wrong(expression, str(error)) from error
    if found is None:
        raise _wrong(expression, "there is no such day")
    return found


def _wrong(expression: str, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"{expression!r:.80} is no cron expression ({why}): write minute, hour, day of the month, "
        "month and day of the week, for example '0 3 * * 0' for Sundays at 03:00"
    )


# --- what was done last


class _LastRun(msgspec.Struct):
    since: datetime
    by: str | None = None
    """The process that wrote it. Two may write the same time."""


class LastRun:
    """Keeps one time across restarts. For a thread, one call at a time.

    It is in a JSON file of the process that has a directory; an unreadable one is as good as none.
    For processes that share a store it is in that: of two who write at once, one has.
    """

    def __init__(self, where: Path | SettingStore):
        self._where = where if isinstance(where, Path) else SharedSetting(where, SETTING)
        self._by = secrets.token_hex(8)
        self._kept: bytes | None = None

    def read(self) -> datetime | None:
        """Return the time, None if there is none that can be read."""
        if isinstance(self._where, SharedSetting):
            self._kept = self._where.load()
        else:
            try:
                self._kept = read_bytes(self._where)
            except OSError as error:
                if not isinstance(error, FileNotFoundError):
                    _unreadable(error)
                return None
        return None if self._kept is None else _decoded(self._kept)

    def write(self, time: datetime) -> bool:
        """Keep a time; or say False, if somebody else has since the last call here."""
        kept = msgspec.json.encode(_LastRun(time.astimezone(UTC), self._by))
        if isinstance(self._where, SharedSetting):
            if not self._where.save(kept, self._kept):
                return False
        else:
            write_whole(self._where, kept)
        self._kept = kept
        return True


def _decoded(kept: bytes) -> datetime | None:
    try:
        since = msgspec.json.decode(kept, type=_LastRun).since
    except ValueError as error:
        _unreadable(error)
        return None
    return since if since.tzinfo is not None else since.replace(tzinfo=UTC)


def _unreadable(error: Exception) -> None:
    _logger.warning("time of the last compaction is unreadable", error=reason(error))


# --- the loop


class Scheduler:
    """Runs a coroutine function when it is due, one run at a time. It logs exceptions of a run.

    `clock` gives microseconds since 1970, `chance` a number in [0, 1) for each run.

    :raises InvalidInputError: the expression is wrong.
    """

    def __init__(
        self,
        run: Callable[[], Awaitable[object]],
        expression: str,
        clock: Callable[[], int],
        last_run: LastRun,
        *,
        zone: tzinfo = LOCAL,
        chance: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ):
        self._run = run
        self._expression = check_expression(expression)
        self._clock = clock
        self._last_run = last_run
        self._zone = zone
        self._chance = chance
        self._sleep = sleep
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to wait for the first run."""
        self._task = asyncio.create_task(self._keep_to_it())

    async def close(self, deadline_s: float) -> None:
        """Start no run any more; cancel one that is under way and wait for it so long at most."""
        self._closing = True
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task], timeout=deadline_s)
        if not self._task.done():
            _logger.warning("compaction under way did not end in time", deadline_s=deadline_s)

    async def _keep_to_it(self) -> None:
        since = await self._since()
        while not self._closing:
            due_at = max(next_run(self._expression, since, self._zone), self._now())
            due_at += timedelta(seconds=JITTER_S * self._chance())
            while (left_s := (due_at - self._now()).total_seconds()) > 0:
                await self._sleep(min(left_s, NAP_S_MAX))
            since = await self._run_once(since)

    async def _since(self) -> datetime:
        """Return up to when all that was due is dealt with. A time to come is a clock set wrong."""
        while True:
            try:
                kept = await anyio.to_thread.run_sync(self._last_run.read)
            except EventLogError as error:  # the store is away: perhaps it comes back
                _unreadable(error)
                await self._sleep(NAP_S_MAX)
                continue
            now = self._now()
            if kept is not None and kept <= now:
                return kept
            if await self._keep(now):
                return now

    async def _run_once(self, since: datetime) -> datetime:
        if not await self._keep(self._now()):
            return await self._since()
        try:
            await self._run()
        except Exception as error:
            _logger.error("scheduled compaction failed", error=reason(error))
        finally:
            now = since if self._closing else self._now()
            await self._keep(now)
        return now

    async def _keep(self, time: datetime) -> bool:
        try:
            return await anyio.to_thread.run_sync(self._last_run.write, time)
        except Exception as error:  # then a run may come twice, and nothing is done twice
            _logger.warning("time of the last compaction was not kept", error=reason(error))
            return True

    def _now(self) -> datetime:
        return to_datetime(self._clock())

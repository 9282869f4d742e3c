"""Delivery of quota alerts: to the log, a function of your own, or a webhook.

Whoever notices that a quota runs short must not wait for anybody: `post` only queues. Each sink
has its own queue and its own task, so a sink that is slow or fails never delays another. What
bounds it: 1,000 alerts wait for a sink, then the oldest is dropped (the newest tells the state),
and one call of a sink may take 30 s. Alerts are advice, not records: what waits is lost in a crash.

Webhooks need httpx (extra `webhook`).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

import anyio
import msgspec

from eventlog.core.logs import get_logger
from eventlog.core.records import Returned
from memory_actors.base.errors import AlertNotDeliveredError, InvalidInputError, importing
from memory_actors.base.privacy import hashed, reason
from memory_actors.base.quota import size
from memory_actors.base.statistics import AlertStatistics
from memory_actors.base.validation import checked_host

if TYPE_CHECKING:
    import httpx

WAITING_MAX = 1_000  # a sink that is further behind tells of quotas that have changed since
SEND_DEADLINE_S = 30.0  # three attempts of a webhook and the pauses between them
CANCEL_S = 1.0  # for a sink to heed its cancellation, and to close

_logger = get_logger("memory_actors.observing.alerts")


class Alert(Returned, frozen=True, kw_only=True):
    """A quota of one user runs short."""

    user_id: str
    kind: str
    """The kind of memory, or what else is limited."""
    quota: str
    """For example `long_term.memories`."""
    level: Literal["warning", "critical"]
    used: int
    limit: int
    unit: str
    percent: float
    """Used of the limit."""
    tier: str
    at: datetime
    """Aware."""
    upgradable: bool = False
    """True if another tier has a higher limit."""

    @property
    def message(self) -> str:
        """The alert in words, with advice; without the user's id."""
        used, limit, noun = f"{self.used:,}", f"{self.limit:,}", self.quota.partition(".")[2]
        if self.unit == "bytes":
            used, limit, noun = size(self.used), size(self.limit), "content"
        kind = self.kind.replace("_", "-").capitalize()
        advice = " or upgrade" if self.upgradable else ""
        return (
            f"{kind} memory at {int(self.percent)}% capacity: {used} of {limit} {noun}. "
            f"Delete old memories{advice} before it is full."
        )


class AlertSink(Protocol):
    """A receiver of alerts. One that has an `async close()` is closed with its dispatcher."""

    async def send(self, alert: Alert) -> None:
        """Deliver one alert; raise what went wrong. Called for one alert at a time."""


# --- sinks


class LogSink:
    """Writes alerts to the log, the user's id hashed."""

    async def send(self, alert: Alert) -> None:
        """Log a warning, or an error for a critical alert."""
        log = _logger.error if alert.level == "critical" else _logger.warning
        fields = msgspec.structs.asdict(alert)
        fields["severity"] = fields.pop("level")  # structlog's processors write `level`
        fields["user"] = hashed(fields.pop("user_id"))
        log("quota alert", message=alert.message, **{**fields, "at": alert.at.isoformat()})


class CallbackSink:
    """Hands alerts to an async callable."""

    def __init__(self, callback: Callable[[Alert], Awaitable[None]]):
        self._callback = callback

    async def send(self, alert: Alert) -> None:
        """Await the callable."""
        await self._callback(alert)


class WebhookSink:
    """POSTs alerts as JSON: an alert's fields and its message; `user_hash` for `user_id`, if asked.

    Any 2xx is success. A transport error, no answer within `timeout_s`, 429 and 5xx are tried
    again, `attempts` in all, after `backoff_s`, then twice that, and so on. A `client` of yours
    stays open when the sink closes. Logs and errors name the host only: paths often hold a secret.

    :raises MissingExtraError: httpx is not installed.
    :raises InvalidInputError: no http(s) URL, or a number that is not positive.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 5.0,
        attempts: int = 3,
        backoff_s: float = 0.5,
        client: "httpx.AsyncClient | None" = None,
        headers: Mapping[str, str] | None = None,
        include_user_id: bool = True,
    ):
        self._host = checked_host(url, "a webhook needs a URL like https://example.com/alerts")
        if not (timeout_s > 0 and attempts >= 1 and backoff_s >= 0):
            raise InvalidInputError("a webhook needs timeout_s > 0, attempts >= 1, backoff_s >= 0")
        with importing("webhooks need httpx", "webhook"):
            import httpx
        self._httpx = httpx
        self._url = url
        self._timeout_s = timeout_s
        self._attempts = attempts
        self._backoff_s = backoff_s
        self._owns_client = client is None
        self._client = self._httpx.AsyncClient() if client is None else client
        self._headers = self._httpx.Headers(headers)
        self._headers["content-type"] = "application/json"
        self._include_user_id = include_user_id

    async def send(self, alert: Alert) -> None:
        """POST one alert.

        :raises AlertNotDeliveredError: it was refused, or every attempt failed.
        """
        fields = msgspec.structs.asdict(alert) | {"message": alert.message}
        if not self._include_user_id:
            fields["user_hash"] = hashed(fields.pop("user_id"))
        body = msgspec.json.encode(fields)
        for attempt in range(self._attempts):
            if attempt:
                await anyio.sleep(self._backoff_s * 2 ** (attempt - 1))
            failure, again = await self._post(body)
            if failure is None:
                return
            if not again:
                raise AlertNotDeliveredError(f"webhook at {self._host} refused it: {failure}")
        raise AlertNotDeliveredError(
            f"webhook at {self._host} failed {self._attempts} times, at last: {failure}"
        )

    async def close(self) -> None:
        """Close the connections. The sink cannot send any more."""
        if self._owns_client:
            await self._client.aclose()

    async def _post(self, body: bytes) -> tuple[str | None, bool]:
        """Return the problem, or None, and whether another attempt may help."""
        request = self._client.stream(
            "POST", self._url, content=body, headers=self._headers, timeout=self._timeout_s
        )
        try:
            with anyio.fail_after(self._timeout_s):  # httpx's own counts each read anew
                async with request as response:  # the body is never read: it may have no end
                    status = int(response.status_code)
        except TimeoutError:
            return f"no answer within {self._timeout_s:g} s", True
        except self._httpx.TransportError as error:
            return type(error).__name__, True
        failure = None if 200 <= status < 300 else f"HTTP {status}"
        return failure, status == 429 or status >= 500


# --- from posting to sending


class AlertDispatcher:
    """Carries alerts to sinks. Used on one event loop and its thread."""

    def __init__(self, sinks: Iterable[AlertSink]):
        self._lanes = [_Delivery(sink) for sink in sinks]
        self._posted = 0

    def start(self) -> None:
        """Begin to deliver; what was posted before is delivered too."""
        for lane in self._lanes:
            lane.start()

    def post(self, alert: Alert) -> None:
        """Queue an alert for every sink. Never blocks, never raises."""
        self._posted += 1
        for lane in self._lanes:
            lane.post(alert)

    def forget(self, user_id: str) -> None:
        """Drop what waits about a user."""
        for lane in self._lanes:
            lane.forget(user_id)

    async def close(self, deadline_s: float) -> None:
        """Deliver what waits until the deadline, then stop; close the sinks that can be closed."""
        await asyncio.gather(*(lane.close(deadline_s) for lane in self._lanes))

    def statistics(self) -> AlertStatistics:
        """Return the counts of alerts so far."""
        waiting = sum(len(lane.waiting) for lane in self._lanes)
        names = ("delivered", "failed", "dropped")
        counts = {name: sum(getattr(lane, name) for lane in self._lanes) for name in names}
        return AlertStatistics(posted=self._posted, waiting=waiting, **counts)


class _Delivery:
    def __init__(self, sink: AlertSink):
        self._sink = sink
        self._name = type(sink).__name__
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self.waiting: deque[Alert] = deque()
        self.delivered = 0
        self.failed = 0
        self.dropped = 0

    def start(self) -> None:
        if self._task is None and not self._closing:
            self._task = asyncio.create_task(self._run())

    def post(self, alert: Alert) -> None:
        if self._closing:
            self.dropped += 1
            return
        if len(self.waiting) == WAITING_MAX:
            self.waiting.popleft()
            self.dropped += 1
            if self.dropped == 1:  # once: the statistics count on
                _logger.warning("alerts are dropped: the sink is behind", sink=self._name)
        self.waiting.append(alert)
        self._news.set()

    def forget(self, user_id: str) -> None:
        kept = [alert for alert in self.waiting if alert.user_id != user_id]
        self.dropped += len(self.waiting) - len(kept)
        self.waiting = deque(kept)

    async def close(self, deadline_s: float) -> None:
        if self._closing:
            return
        self.start()
        self._closing = True
        self._news.set()
        assert self._task is not None
        await asyncio.wait([self._task], timeout=deadline_s)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CANCEL_S)
        self.dropped += len(self.waiting)
        self.waiting.clear()
        if (close := getattr(self._sink, "close", None)) is None:
            return
        try:
            async with asyncio.timeout(CANCEL_S):
                await close()
        except Exception as error:
            _logger.warning("sink did not close", sink=self._name, error=reason(error))

    async def _run(self) -> None:
        while True:
            while self.waiting:
                await self._deliver(self.waiting.popleft())
            if self._closing:
                return
            self._news.clear()
            await self._news.wait()

    async def _deliver(self, alert: Alert) -> None:
        try:
            async with asyncio.timeout(SEND_DEADLINE_S):
                await self._sink.send(alert)
        except Exception as error:
            self._note_failure(error)
        except asyncio.CancelledError as error:
            self._note_failure(error)
            task = asyncio.current_task()
            if task is None or task.cancelling():  # else the sink itself was cancelled inside
                raise
        else:
            self.delivered += 1

    def _note_failure(self, error: BaseException) -> None:
        self.failed += 1
        _logger.warning("alert not delivered", sink=self._name, error=reason(error))

"""Operations carried out by a server over HTTP, for what servers offer. See generated_routes.py.

A request that did not reach the server is sent again, after a pause. One that may have reached it
is sent again only if nothing can be done twice by that: it reads, or it has an idempotency key.
"""

import asyncio
import os
import random
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from enum import Enum
from inspect import Parameter, signature
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn
from urllib.parse import quote

import anyio
import msgspec

from memory_actors.base.context_documents import DEFAULT_DOCUMENT
from memory_actors.base.errors import (
    AccessDeniedError,
    DeadlineExceededError,
    InvalidInputError,
    NotOfferedError,
    SystemClosedError,
    UnavailableError,
    WrongLoopError,
    importing,
)
from memory_actors.base.on import On
from memory_actors.base.reports import CompactionProgress, CompactionReport, Moment
from memory_actors.base.validation import check_name, checked_host, json_copy
from memory_actors.base.watching import tell
from memory_actors.sharing.declaration import TYPE_PREFIX, Invocation, Offered, Problem
from memory_actors.sharing.generated_operations import DECLARED
from memory_actors.sharing.generated_routes import OFFERED, PROBLEMS
from memory_actors.sharing.invocations import arguments
from memory_actors.sharing.values import error_named

if TYPE_CHECKING:
    import httpx

TIMEOUT_S: Final = 30.0
"""The deadline of a call, as that of a store: a server that says nothing for so long is stuck."""
PAUSES_S: Final = (0.1, 0.3, 1.0)
"""Before each further attempt: a server that is started anew is back in that time."""
RETRY_AFTER_S_MAX: Final = 5.0
CLOSE_S: Final = 10.0
"""The time for requests in hand to end when the client is closed: as the server gives them."""
LEAST_TTL_S: Final = 1e-6  # of what has expired where it comes from
COME_AGAIN: Final = (429, 502, 503, 504)
POLL_S: Final = (0.05, 1.0)
"""The pause between questions about a job, at first and later: it takes milliseconds or minutes."""
HEALTH: Final = "/health"
HEALTH_BYTES_MAX: Final = 64 << 10
ANSWER_BYTES_MAX: Final = 512 << 20  # a page of 1,000 of the longest memories, escaped


class HttpRequest(NamedTuple):
    """A request to the server."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    headers: Mapping[str, str] = {}
    repeatable: bool = False
    """Sent twice, it does no more than sent once."""
    answer_bytes_max: int = ANSWER_BYTES_MAX


class Answer(NamedTuple):
    """An answer of the server, whole."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes


class JobReply(msgspec.Struct):
    """The fields of a run of compaction that are read."""

    job_id: str
    state: str
    progress: CompactionProgress | None = None
    report: CompactionReport | None = None
    error: Problem | None = None


class HttpCaller:
    """Carries out operations on a server. It belongs to one event loop."""

    def __init__(self, url: str, key: str | None, timeout_s: float):
        self._host = checked_host(url, "a server is a URL like http://127.0.0.1:8765")
        if not (isinstance(timeout_s, int | float) and timeout_s > 0):
            raise InvalidInputError(f"timeout_s must be above 0, not {timeout_s!r:.40}")
        with importing("a server over HTTP needs httpx", "http"):
            import httpx
        self._httpx = httpx
        self._unsent = httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout
        """The errors after which it is sure that nothing has reached the server."""
        self._url, self._timeout_s = url.rstrip("/"), timeout_s
        if key is not None and not (isinstance(key, str) and key.isascii() and key.isprintable()):
            raise InvalidInputError("key must be an API key: ma_… of `memory-actors keys create`")
        self._headers = {"Accept-Encoding": "identity"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._pid: int | None = None
        self._in_hand: set[asyncio.Future[None]] = set()
        self._closed = False

    async def start(self) -> None:
        """Look whether a server is there.

        :raises UnavailableError: there is none, or it is something else.
        """
        answer = await self._sent(
            HttpRequest("GET", HEALTH, repeatable=True, answer_bytes_max=HEALTH_BYTES_MAX)
        )
        if answer.status_code != 200 or b'"status"' not in answer.content:
            raise self._no_server(answer)

    async def call(self, invocation: Invocation) -> object:
        """Carry out an operation, and return its result.

        :raises NotOfferedError: the server does not do that.
        :raises AccessDeniedError: not with this key.
        :raises UnavailableError: nobody answers, or the server cannot do it now.
        :raises DeadlineExceededError: it has not answered in time.
        """
        name = invocation.name
        if name not in OFFERED:
            raise self._not_offered(name)
        given = arguments(invocation)
        if name == "system.compact":
            return await self._compacted(given)
        said = (await self._answer(_request(name, OFFERED[name], invocation.on, given))).content
        try:
            if (within := OFFERED[name].within) is not None:
                said = msgspec.json.decode(said, type=dict[str, msgspec.Raw])[within]
            return msgspec.json.decode(said, type=DECLARED[name].result)
        except (msgspec.MsgspecError, KeyError) as error:
            raise UnavailableError(
                f"{self._host} answered what cannot be read: it may be another version ({error})"
            ) from error

    async def _compacted(self, given: dict[str, Any]) -> CompactionReport:
        """Ask for a run, and look after it until it has ended; cancelling leaves it to itself."""
        progress: Callable[[CompactionProgress], object] | None = given.pop("progress", None)
        asked = _request("system.compact", OFFERED["system.compact"], On(), given)
        job = msgspec.json.decode((await self._answer(asked)).content, type=JobReply)
        told, pause_s = None, POLL_S[0]
        look = HttpRequest(
            "GET", f"{asked.path.rpartition('/')[0]}/jobs/{job.job_id}", repeatable=True
        )
        while job.state in ("queued", "running"):
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, POLL_S[1])
            job = msgspec.json.decode((await self._answer(look)).content, type=JobReply)
            if progress is not None and job.progress not in (None, told):
                told = job.progress
                await tell(progress, told)
        if job.report is None:
            raise _error(job.error) if job.error else UnavailableError("the run was cancelled")
        return job.report

    def iterate(self, invocation: Invocation) -> NoReturn:
        """Refuse: no server offers what is iterated, or not awaited."""
        raise self._not_offered(invocation.name)

    at_once = iterate

    async def replay(self, *_: object, **__: object) -> tuple[On, Moment, int]:
        """Refuse: no server offers replays."""
        raise self._not_offered("system.replay")

    async def end_replay(self, *_: object, **__: object) -> None:
        """Do nothing: there is none."""

    def watch_erasures(self, *_: object, **__: object) -> NoReturn:
        """Refuse: no server tells of erasures."""
        raise self._not_offered("system.watch_erasures")

    async def close(self) -> None:
        """End the connections, when the requests in hand are answered."""
        if self._closed:
            return
        if self._pid == os.getpid():
            self._check_here()
            self._closed = True
            if self._in_hand:
                await asyncio.wait(self._in_hand, timeout=CLOSE_S)
            await self._client.aclose()
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise SystemClosedError("the memory system is closed: connect again")

    def _not_offered(self, name: str) -> NotOfferedError:
        self._check_open()
        return NotOfferedError(name)

    # --- requests

    def _check_here(self) -> None:
        self._check_open()
        if self._pid != os.getpid():  # at first, and in a child: what is open is its parent's
            self._pid, self._loop, self._in_hand = os.getpid(), asyncio.get_running_loop(), set()
            self._client = self._httpx.AsyncClient(headers=self._headers, timeout=self._timeout_s)
        if asyncio.get_running_loop() is not self._loop:
            raise WrongLoopError

    async def _answer(self, request: HttpRequest) -> Answer:
        answer = await self._sent(request)
        if 200 <= answer.status_code < 300:
            return answer
        try:
            problem = msgspec.json.decode(answer.content, type=Problem)
        except msgspec.MsgspecError:
            raise self._no_server(answer) from None
        raise _error(problem)

    async def _sent(self, request: HttpRequest) -> Answer:
        """Send a request, again where that is safe, and return the last answer."""
        until_s = monotonic() + self._timeout_s
        for pause_s in PAUSES_S:
            try:
                answer = await self._sent_once(request)
            except UnavailableError as error:
                unsent = isinstance(error.__cause__, self._unsent)
                late = isinstance(error, DeadlineExceededError) or monotonic() >= until_s
                if late or not (unsent or request.repeatable):
                    raise
            else:
                if answer.status_code not in COME_AGAIN or not request.repeatable:
                    return answer
                pause_s = max(pause_s, _retry_after_s(answer))
            await anyio.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311 - not all at once
        return await self._sent_once(request)

    async def _sent_once(self, request: HttpRequest) -> Answer:
        self._check_here()
        ended = self._loop.create_future()
        self._in_hand.add(ended)
        try:
            async with self._client.stream(
                request.method,
                self._url + request.path,
                params=request.query or None,
                content=request.body,
                headers=request.headers,
            ) as answer:
                content = await self._content(answer, request.answer_bytes_max)
            return Answer(answer.status_code, answer.headers, content)
        except self._httpx.TimeoutException as error:
            kind = UnavailableError if isinstance(error, self._unsent) else None
            raise (kind or DeadlineExceededError)(
                f"{self._host} has not answered in {self._timeout_s:g} s. A write may still be "
                "carried out; read, then retry"
            ) from error
        except self._httpx.HTTPError as error:
            raise UnavailableError(
                f"{self._host} does not answer: {error or type(error).__name__}. Is the server "
                "running (`memory-actors serve`)? A write may have been carried out"
            ) from error
        finally:
            ended.set_result(None)
            self._in_hand.discard(ended)

    async def _content(self, answer: "httpx.Response", bytes_max: int) -> bytes:
        """Read an answer, as far as one may be long; it was asked for as it is, not compressed."""
        if answer.headers.get("content-encoding", "identity") != "identity":
            raise UnavailableError(f"{self._host} answered compressed, which was not asked for")
        content = bytearray()
        async for part in answer.aiter_raw():
            content += part
            if len(content) > bytes_max:
                raise UnavailableError(f"{self._host} answered over {bytes_max:,} bytes")
        return bytes(content)

    def _no_server(self, answer: Answer) -> Exception:
        if answer.status_code in (401, 403):
            return AccessDeniedError(f"{self._host} lets nobody in with this key")
        return UnavailableError(
            f"{self._host} answered {answer.status_code}, and not as a server of memory-actors does"
        )


# --- a request from a call


def _request(name: str, route: Offered, on: On, given: dict[str, object]) -> HttpRequest:
    parts = {"user_id": on.user_id}
    if "{memory_id}" in route.path:
        parts["memory_id"] = check_name(given.pop("memory_id"), "memory_id")
    if "{document}" in route.path:
        parts["document"] = on.document or DEFAULT_DOCUMENT
    path = route.path.format(**{part: _escaped(value or "") for part, value in parts.items()})
    said = _said(name, route, _as_of_handle(name, route, on, given))
    if len(on.by) > 1:
        raise NotOfferedError(name, "a handle that speaks for several subjects")
    headers = {"Agent-Id": on.agent_id, "Session-Id": on.session_id, "Speaks-For": "".join(on.by)}
    return HttpRequest(
        route.method,
        path,
        () if route.in_body else tuple(_in_query(said)),
        msgspec.json.encode(said) if route.in_body else None,
        {each: quote(value, safe="") for each, value in headers.items() if value}
        | ({"Reads": ", ".join(quote(one, safe="") for one in on.reads)} if on.reads else {}),
        route.reads or given.get("idempotency_key") is not None,
    )


def _escaped(part: str) -> str:
    """Return a part of a path; no dots, which clients take out, and no word of the routes."""
    escaped = quote(part, safe="").replace(".", "%2E")
    return "%73earch" if escaped == "search" else escaped


def _as_of_handle(name: str, route: Offered, on: On, given: dict[str, object]) -> dict[str, object]:
    """Return arguments with what the handle says, as the server's own handle says nothing."""
    own = signature(DECLARED[name].takes).parameters
    if "auto_prune" in own and given.get("auto_prune") is None:
        given["auto_prune"] = on.auto_prune
    if "ttl_s" in own and on.lives_until_us is not None:
        given["ttl_s"] = max(on.lives_until_us / 1e6 - time(), LEAST_TTL_S)
    if "source" in route.given and "source" not in own:  # what is written has words of somebody
        for origin in on.origins:
            given |= {"source": origin.source, "trust": origin.trust.value}
    return given


def _said(name: str, route: Offered, given: dict[str, object]) -> dict[str, object]:
    own = signature(DECLARED[name].takes).parameters
    said = {}
    for argument, value in given.items():
        default = own[argument].default if argument in own else None
        if value is default or (value is None and not route.in_body and default is Parameter.empty):
            continue
        if argument not in route.given:
            raise NotOfferedError(name, f"{argument}= of {name}")
        said[route.given[argument]] = plain = _plain(value, argument)
        if plain == [] and not route.in_body:  # left out it would mean all, and here it means none
            raise NotOfferedError(name, f"an empty {argument}= of {name}")
    return said


def _plain(value: object, what: str) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value / timedelta(hours=1):.9f}h"
    if isinstance(value, Enum):
        return json_copy(value.value, what)
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.asdict(value)
        value = {name: _plain(one, what) for name, one in fields.items()}
    if isinstance(value, list | tuple) and any(isinstance(one, msgspec.Struct) for one in value):
        return [_plain(one, what) for one in value]
    if isinstance(value, set | frozenset):
        value = list(value)
    return json_copy(value, what)


def _in_query(said: dict[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in said.items():
        for each in value if isinstance(value, list) else [value]:
            yield name, each if isinstance(each, str) else msgspec.json.encode(each).decode()


# --- answers and errors


def _error(problem: Problem) -> BaseException:
    name = problem.type.removeprefix(TYPE_PREFIX)
    if name in ("unauthorized", "forbidden"):
        return AccessDeniedError(problem.detail)
    if name in ("content-too-large", "method-not-allowed"):
        return InvalidInputError(problem.detail)
    kind, detail = PROBLEMS.get(name, UnavailableError), problem.detail
    if name == "internal-error":
        detail += f" ({problem.instance})"
    fields = ("kind", "used", "limit", "unit", "tier") if name == "quota-exceeded" else ()
    return error_named(kind, detail, {each: getattr(problem, each) for each in fields})


def _retry_after_s(answer: Answer) -> float:
    try:
        said_s = float(answer.headers.get("Retry-After", "0"))
    except ValueError:  # a date
        return 0.0
    return min(max(said_s, 0.0), RETRY_AFTER_S_MAX)

"""The log as server-sent events: what is there behind a position, and then each event as it comes.

A client that was cut off comes again with `Last-Event-ID`, as browsers do by themselves, and misses
nothing: the id of an event is its position in the log.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Final

import msgspec
from litestar import get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, QueryParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.reports import LogEntry
from memory_actors.base.validation import check_count, check_optional_name
from memory_actors.server.access import AnyRequest, check_may_reach
from memory_actors.server.bodies import UserId, answers, example, example_of

MEDIA_TYPE: Final = "text/event-stream"
DIGITS_MAX: Final = 19  # of a position, which has 64 bits
KEEP_ALIVE_S: Final = 15.0  # a proxy cuts what says nothing for a minute

After = Annotated[
    int, QueryParameter(ge=0, description="Behind this position.", examples=example(0))
]
Follow = Annotated[
    bool, QueryParameter(description="Continue with new events.", examples=example(True))
]
LastEventId = Annotated[
    str | None,
    HeaderParameter(
        name="Last-Event-ID", description="The id of the last event received; wins over `after`.",
        examples=example("17"),
    ),
]  # fmt: skip
ANSWERS: Final = {
    **answers(200, LogEntry, 400, 401, 403),
    200: ResponseSpec(
        LogEntry, generate_examples=False, media_type=MEDIA_TYPE,
        description="Events; the `data` of each is this.", examples=example(example_of(LogEntry)),
    ),
}  # fmt: skip


@get("/events", operation_id="user_events", summary="Events of a user", responses=ANSWERS)
async def of_user(
    request: AnyRequest,
    user_id: UserId,
    after: After = 0,
    follow: Follow = True,
    last_event_id: LastEventId = None,
) -> ServerSentEvent:
    """Stream what has happened to a user's memory, and what happens. A grant does not do for it."""
    check_may_reach(request.auth, user_id)
    return _stream(request, user_id, after, last_event_id, follow=follow)


@get("/events", operation_id="all_events", summary="Events of all users", responses=ANSWERS)
async def told(
    request: AnyRequest,
    after: After = 0,
    follow: Follow = True,
    last_event_id: LastEventId = None,
) -> ServerSentEvent:
    """Stream what has happened to all memories, and what happens."""
    return _stream(request, None, after, last_event_id, follow=follow)


def _stream(
    request: AnyRequest, user_id: str | None, after: int, last_id: str | None, *, follow: bool
) -> ServerSentEvent:
    if last_id is not None:
        if not (last_id.isascii() and last_id.isdigit() and len(last_id) <= DIGITS_MAX):
            raise InvalidInputError("Last-Event-ID must be the id of an event: its position")
        after = int(last_id)
    state = request.app.state
    # Checked here: an error of the stream itself would come after the status.
    user_id, after = check_optional_name(user_id, "user_id"), check_count(after, "after")
    events = state.memory.events(user_id, after=after, follow=follow)
    return ServerSentEvent(_messages(events, state.ending))


async def _messages(
    events: AsyncIterator[LogEntry], ending: asyncio.Event
) -> AsyncIterator[ServerSentEventMessage]:
    """Yield events until there are no more, or the server ends; a comment where none came long."""
    ended = asyncio.create_task(ending.wait())
    coming: asyncio.Task[LogEntry | None] | None = None
    try:
        while not ending.is_set():
            coming = coming or asyncio.ensure_future(anext(events, None))
            await asyncio.wait(
                {coming, ended}, timeout=KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED
            )
            if not coming.done():
                if not ending.is_set():
                    yield ServerSentEventMessage(comment="", data=None)
                continue
            if (entry := coming.result()) is None:
                return
            coming = None
            yield ServerSentEventMessage(
                data=msgspec.json.encode(entry).decode(), event=entry.event, id=entry.position
            )
    finally:
        ended.cancel()
        if coming is not None:
            coming.cancel()
            with suppress(asyncio.CancelledError):
                await coming
        await events.aclose()  # type: ignore[attr-defined]

"""A call that is asked again, since the answer to it may be lost: what was done is not done twice.

Every event that comes of a client's call has the call's name in its meta. The log, which alone
survives an owner, therefore shows which commands of the call were carried out. When the call is
asked again, those are answered from their events, on the states before and after them, and the
reads before them see what there was then: the answer is the one that was lost. New memories get the
ids that they were given then, in their order. From the first command on that left no event, the
call goes on as any other.
"""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from eventlog import Recorded, replay
from eventlog.core.subscription import version_at
from memory_actors.actors.asking import Reply
from memory_actors.base.client_call import CALL
from memory_actors.base.on import On
from memory_actors.history.past_user import PastUser
from memory_actors.kinds.snapshots import fold_start
from memory_actors.kinds.user_state import UserState
from memory_actors.users.handles.scope import Scope, Services
from memory_actors.users.live_user import UserView

PAGE = 1024


class CommandsDone:
    """The commands of a call that were carried out: the reply to each, and the user before."""

    def __init__(self, replies: dict[str, Reply], past: PastUser):
        self.replies = replies
        self.past = past
        events = [one.data for reply in replies.values() for one in reply.events]
        # A section of a context document is made before its first entry, and named after it.
        events.sort(key=lambda event: getattr(event, "heading", None) is not None)
        named = (getattr(event, "memory_id", None) for event in events)
        self.new_ids = deque(dict.fromkeys(one for one in named if one is not None))
        """The ids of memories that are not named in a call: it gives them out once more."""


async def done(services: Services, stream: str, name: str, after: int) -> CommandsDone | None:
    """Return the commands that a repeated call has already carried out, or None.

    `after` is a position of the log from before the call.
    """
    await services.log.flush()  # working memory is acknowledged before it is in the log
    found = await _events(services, stream, name, after)
    if not found:
        return None
    head = await services.log.head(stream)
    first = min(events[0].version for events in found.values())
    state, version = await fold_start(services.log, stream, head.erased_version, first - 1)
    before = None
    replies: dict[str, Reply] = {}
    for command, events in sorted(found.items(), key=lambda one: one[1][0].version):
        was = await _folded(services, stream, state, version, events[0].version - 1)
        before = before or was
        version = events[-1].version
        state = await _folded(services, stream, was, events[0].version - 1, version)
        replies[command] = Reply(events=events, before=was, state=state, repeated=True)
    assert before is not None
    return CommandsDone(replies, PastUser(services, stream, before))


async def _folded(
    services: Services, stream: str, state: UserState, after: int, until: int
) -> UserState:
    folded, _ = await replay(
        services.log, services.decider, stream, state=state, after=after, until=until,
        dropped="mark",
    )  # fmt: skip
    return folded


async def _events(
    services: Services, stream: str, name: str, after: int
) -> dict[str, list[Recorded[object]]]:
    """Return the events of a call behind a position, by the name of their command."""
    found: dict[str, list[Recorded[object]]] = {}
    version, mark = await version_at(services.log, stream, after), f"{name}/".encode()
    while page := await services.log.read_stream(stream, version, PAGE, dropped="mark"):
        for recorded in page:
            if mark in recorded.raw_meta and recorded.meta.get(CALL, "").startswith(f"{name}/"):
                found.setdefault(recorded.meta[CALL], []).append(recorded)
        version = page[-1].version
    return found


class RetriedScope(Scope):
    """A user, for a call that was carried out before, in part or whole."""

    def __init__(self, services: Services, on: On, done: CommandsDone):
        super().__init__(services, on)
        self._done = done

    @asynccontextmanager
    async def live(self) -> AsyncIterator[UserView]:
        """Hold the user as they were before the call, until all that was done is answered."""
        if self._done.replies:
            yield self._done.past
        else:
            async with super().live() as live:
                yield live

    def new_id(self, now_us: int) -> str:
        """Return the id that a memory was given then, or a new one."""
        ids = self._done.new_ids
        return ids.popleft() if ids else super().new_id(now_us)

    def _earlier_reply(self, call: str) -> Reply | None:
        return self._done.replies.pop(call, None)

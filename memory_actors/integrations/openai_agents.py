"""Sessions of the OpenAI Agents SDK, kept as a user's long-term memory.

Each item of a conversation is one long-term memory of the session, so that what was said in one
session is found from all others by `user.retrieve`. Its content is what the item says, its role the
speaker's; the rest of the item stands beside it, in the metadata, as JSON. An item that says
nothing in words (a call of a tool, a picture), or that has more beside its words than metadata can
hold, is kept as its JSON. Each item is returned exactly as it was, value for value.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from eventlog.core.waiting import to_the_end
from memory_actors.base.errors import InvalidInputError, NotFoundError, importing
from memory_actors.base.records import Item, Memory, MemoryType
from memory_actors.base.validation import LONG_BYTES_MAX, check_count, check_name, content_bytes
from memory_actors.integrations.adapting import NEEDS, AnyUser, checked_user, reach
from memory_actors.sharing.system import UserMemory

with importing(NEEDS, "openai-agents"):
    from agents import TResponseInputItem
    from agents.memory import SessionABC, SessionSettings

T = TypeVar("T")
KEPT_AS: Final = "openai_agents"
"""The key of the metadata under which a memory says that it is an item, and of which session."""
ALL: Final = 1 << 40
REST_BYTES_MAX: Final = 8 * 1024  # of 16 KiB of metadata, beside the session's name
PLAIN: Final = ["content", "role"]
"""The keys of an item that is nothing but words and a speaker, in the order in which the SDK makes
it: they need nothing beside them."""
_KINDS: Final = [MemoryType.LONG_TERM]


class MemoryActorsSession(SessionABC):
    """A conversation of one user: `Runner.run(agent, text, session=session)`.

    `user` is `memory.user("…")`, of `MemorySystem` or of `memory_actors.sync.MemorySystem`.
    Programs that call `Runner.run_sync`, or use a session from several loops, need the latter.
    """

    def __init__(
        self,
        session_id: str,
        user: AnyUser,
        *,
        session_settings: SessionSettings | dict[str, object] | None = None,
    ):
        self.session_id = check_name(session_id, "session_id")
        self.session_settings = SessionSettings().resolve(session_settings)
        self._user = checked_user(user)
        self._filters = {f"{KEPT_AS}.session": {"eq": self.session_id}}

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items of the session, oldest first; only the last `limit`, if there is one.

        The default is the limit of the session's settings.
        """
        limit = self.session_settings.limit if limit is None else limit
        most = ALL if limit is None else check_count(max(0, limit), "limit")
        newest = await reach(self._user, lambda user: self._newest(user, most))
        return [item_of(memory) for memory in reversed(newest)]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items to the end of the session, at most 1,000 at a time, all or none.

        :raises InvalidInputError: one of them is not JSON, or larger than a memory may be.
        :raises QuotaExceededError: there is no room for all of them.
        """
        memories = [memory_of(item, self.session_id) for item in items]
        await self._change(lambda user: user.add_many(memories, on_duplicate="keep"))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item of the session and return it, or None if there is none."""
        popped = await self._change(self._pop)
        return None if popped is None else item_of(popped)

    async def clear_session(self) -> None:
        """Remove all items of the session. The log keeps what they were, until the user is erased.

        A summary that compaction made of items is a fact about the user, and stays.
        """
        await self._change(lambda user: user.delete_many(self._filters, memory_types=_KINDS))

    async def _change(self, change: Callable[[UserMemory], Awaitable[T]]) -> T:
        """Make a change, even if the caller is cancelled: the runner takes back what it added."""
        return await to_the_end(reach(self._user, change))

    async def _newest(self, user: UserMemory, most: int) -> list[Memory]:
        return await user.list_memories(_KINDS, filters=self._filters, limit=most)

    async def _pop(self, user: UserMemory) -> Memory | None:
        while newest := await self._newest(user, 1):
            try:
                await user.delete(newest[0].memory_id)
            except NotFoundError:  # somebody else has popped it
                continue
            return newest[0]
        return None


def memory_of(item: Mapping[str, object], session_id: str) -> Item:
    """Return the memory that an item of a session becomes.

    :raises InvalidInputError: it is not JSON, or larger than a memory may be.
    """
    role = item.get("role")
    kept: dict[str, object] = {"session": session_id}
    text, rest = taken_apart(item)
    beside = written(rest)
    if not text or len(beside) > REST_BYTES_MAX:
        text, kept["rest"] = written(item), None
    elif list(item) != PLAIN:
        kept["rest"] = beside
    return Item(
        content=text,
        role=role if isinstance(role, str) and role.strip() else "tool",
        session_id=session_id,
        metadata={KEPT_AS: kept},
    )


def item_of(memory: Memory) -> TResponseInputItem:
    """Return the item that became a memory."""
    rest = memory.metadata[KEPT_AS].get("rest", "")
    if rest is None:
        return json.loads(memory.content)
    if not rest:
        return {"content": memory.content, "role": memory.role}
    item = json.loads(rest)
    holder, key = place_of_text(item)
    holder[key] = memory.content
    return item


def taken_apart(item: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    """Return the text that an item says and the item without it; "" if it says none, or several."""
    copy = {**item}
    if isinstance(content := copy.get("content"), list):
        copy["content"] = [{**part} if isinstance(part, Mapping) else part for part in content]
    holder, key = place_of_text(copy)
    text = holder.get(key)
    try:
        content_bytes(text, LONG_BYTES_MAX)
    except InvalidInputError:
        return "", item
    holder[key] = None
    return str(text), copy


def place_of_text(item: dict[str, object]) -> tuple[dict[str, object], str]:
    """Return the object of an item that has its text, and the key of the text in there."""
    content = item.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        return content[0], "text"
    return item, "output" if "output" in item else "content"


def written(item: Mapping[str, object]) -> str:
    """Return an item as JSON.

    :raises InvalidInputError: it cannot be.
    """
    try:
        return json.dumps(item, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"an item of a session has to be JSON: {error}") from error

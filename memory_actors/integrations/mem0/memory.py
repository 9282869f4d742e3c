"""`AsyncMemory`: mem0's methods, carried out by a memory system of its own."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self
from weakref import WeakValueDictionary

from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.records import Item
from memory_actors.base.records import Memory as Kept
from memory_actors.integrations.mem0 import shapes
from memory_actors.integrations.mem0.shapes import Fields, Told, translated
from memory_actors.interchange.records import in_batches
from memory_actors.interchange.sources.mem0 import SCOPES, owner_of
from memory_actors.sharing.system import MemorySystem, UserMemory

DIRECTORY: Final = "./memory"
TYPES: Final = ["long_term"]
MESSAGES: Final = ["short_term"]
MESSAGES_MAX, BYTES_MAX = 20, 16_000  # as an extractor is asked: fewer than a session holds
SPEAKER: Final = {"role": "role", "actor_id": "name"}
"""The fields that name the speaker: in the payload, and in the message."""
TOP_K: Final = 20
TOP_K_MAX: Final = 10_000
_UNSET: Final = object()

_logger = logging.getLogger(__name__)


class AsyncMemory:
    """mem0's `AsyncMemory`. The store is opened when it is first used.

    `config` is a directory, or a configuration of mem0's: its `vector_store.config.path` says where
    the store is (beside mem0's own, which is left alone), an `llm` of the provider "openai" finds
    facts; whatever else it names is passed over, and logged. `parts` are the options of
    `MemorySystem.open`, such as `embedder` and `extractor`.
    """

    def __init__(self, config: str | Path | Fields | None = None, **parts: object):
        configured = shapes.configured(config) if isinstance(config, Mapping) else {}
        given = config if isinstance(config, str | Path) else DIRECTORY
        self._directory = configured.pop("directory", given)
        self._parts = {**configured, **parts}
        self._memory: MemorySystem | None = None
        self._opening = asyncio.Lock()
        self._inferring: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By user: held while messages are kept and read, as a session holds few of them."""

    @classmethod
    def from_config(cls, config_dict: Fields) -> Self:
        """Return one for a configuration of mem0's."""
        return cls(config_dict)

    async def __aenter__(self) -> Self:
        await self._opened()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the store; what is used afterwards opens it again."""
        async with self._opening:
            memory, self._memory = self._memory, None
            if memory is not None:
                await memory.close()

    def close(self) -> "asyncio.Future[None]":
        """Close the store; it may be awaited."""
        return asyncio.ensure_future(self.aclose())

    # --- write

    async def add(
        self,
        messages: object,
        *,
        user_id: object = None,
        agent_id: object = None,
        run_id: object = None,
        metadata: Fields | None = None,
        timestamp: object = None,
        expiration_date: object = None,
        infer: bool = True,
        memory_type: str | None = None,
        prompt: str | None = None,
    ) -> Told:
        """Remember messages: each as it is (`infer=False`), or the facts in them.

        :raises ValidationError: there is no scope, or they are no messages.
        :raises InvalidInputError: facts are to be inferred, and there is no extractor.
        :raises ExtractorError: the extractor failed: nothing is kept of the messages it was asked
            about, and the facts of those before them are known.
        :raises NotFoundError: messages were deleted or pushed out before they were read.
        :raises QuotaExceededError: there is no room for them; none was added.
        """
        shapes.platform_only(timestamp, "timestamp")
        expires = shapes.day(expiration_date)
        scope = shapes.needed_scopes(user_id=user_id, agent_id=agent_id, run_id=run_id)
        shapes.check_memory_type(memory_type, scope.get("agent_id"))
        said = shapes.spoken(messages)
        kept = shapes.payload(metadata, scope, expires)
        if prompt is not None:
            _logger.warning("add(): prompt is passed over: give the extractor one")
        if infer:
            return {"results": await self._inferred(said, scope, kept)}
        owner = owner_of(scope)
        user = (await self._opened()).user(owner, agent_id=scope.get("agent_id"))
        items = [
            Item(
                content=one["content"],
                role=one["role"],
                session_id=scope.get("run_id"),
                metadata=kept | {name: one[of] for name, of in SPEAKER.items() if one.get(of)},
                memory_id=shapes.new_id(owner),
            )
            for one in said
        ]
        if items:
            await user.add_many(items)
        results = [
            {
                "id": item.memory_id,
                "memory": item.content,
                "event": "ADD",
                "actor_id": one.get("name") or None,
                "role": one["role"],
            }
            for one, item in zip(said, items, strict=True)
        ]
        return {"results": results}

    async def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Fields | None = None,
        expiration_date: object = _UNSET,
        data: str | None = None,
    ) -> dict[str, str]:
        """Replace a memory's text, add to its metadata, or both.

        :raises ValueError: there is no such memory, or nothing to update.
        """
        text = data if text is None else text
        if text is None and metadata is None and expiration_date is _UNSET:
            raise ValueError("At least one of text, metadata, or expiration_date must be provided.")
        said = dict(metadata or {})
        if expiration_date is not _UNSET:
            said["expiration_date"] = shapes.day(expiration_date)
        updated = False
        while not updated:
            user, memory = await self._found(memory_id)
            metadata, as_read = shapes.changed(memory, said), shapes.as_read(memory)
            with suppress(NotFoundError):  # somebody has updated it since it was read
                await user.update(memory_id, content=text, metadata=metadata, filters=as_read)
                updated = True
        return {"message": "Memory updated successfully!"}

    async def delete(self, memory_id: str) -> dict[str, str]:
        """Delete a memory.

        :raises ValueError: there is no such memory.
        """
        user, _ = await self._found(memory_id)
        await user.delete(memory_id)
        return {"message": "Memory deleted successfully!"}

    async def delete_all(
        self, user_id: object = None, agent_id: object = None, run_id: object = None
    ) -> dict[str, str]:
        """Delete all memories of a scope, and the messages that facts were inferred from.

        :raises ValueError: no scope is named: `reset` deletes everything.
        """
        scope = shapes.scopes(user_id=user_id, agent_id=agent_id, run_id=run_id)
        if not scope:
            raise ValueError(
                "At least one filter is required to delete all memories. If you want to delete all "
                "memories, use the `reset()` method."
            )
        wanted = shapes.wanted(scope, show_expired=True)
        async for user in self._users(scope):
            await user.delete_many(wanted, memory_types=TYPES)
            await user.delete_many(translated(scope), memory_types=MESSAGES)
        return {"message": "Memories deleted successfully!"}

    async def reset(self) -> None:
        """Erase every user of the store, for good."""
        memory = await self._opened()
        for user_id in await memory.users():
            await memory.erase(user_id)

    # --- read

    async def get(self, memory_id: str) -> Told | None:
        """Return a memory, or None if there is none."""
        try:
            user, memory = await self._found(memory_id)
        except ValueError:
            return None
        return shapes.item(memory, user.user_id)

    async def get_all(
        self,
        *,
        filters: Fields | None = None,
        top_k: int = TOP_K,
        show_expired: bool = False,
        **more: object,
    ) -> dict[str, list[Told]]:
        """Return memories, the newest first.

        :raises ValueError: the filters name no scope, or cannot be; or `top_k` is no number.
        """
        shapes.no_more(more, "get_all")
        limit = shapes.check_top_k(top_k)
        scoped = shapes.scoped_filters(filters)
        wanted = shapes.wanted(scoped, show_expired=show_expired)
        found: list[tuple[Kept, str]] = []
        async for user in self._users(scoped):
            memories = await user.list_memories(TYPES, filters=wanted, limit=limit)
            found += [(one, user.user_id) for one in memories]
        found.sort(key=lambda one: one[0].occurred_at, reverse=True)
        told = [shapes.item(*one) for one in found[:limit]]
        return {"results": [{k: v for k, v in one.items() if k != "score"} for one in told]}

    async def search(
        self,
        query: str,
        *,
        top_k: int = TOP_K,
        filters: Fields | None = None,
        threshold: float | None = 0.0,
        rerank: bool = False,
        explain: bool = False,
        reference_date: object = None,
        show_expired: bool = False,
        **more: object,
    ) -> dict[str, list[Told]]:
        """Return the memories that best answer a query, the best first, with their scores.

        :raises ValueError: the filters name no scope, or cannot be; or another argument is not what
            it must be.
        """
        del rerank  # what is found is ranked by all signals there are
        shapes.platform_only(reference_date, "reference_date")
        shapes.no_more(more, "search")
        least, limit = shapes.check_threshold(threshold), shapes.check_top_k(top_k)
        if not isinstance(query, str) or not query.strip():
            raise ValueError("Invalid query: must be a non-empty string.")
        asked = query.strip()
        scoped = shapes.scoped_filters(filters)
        wanted = shapes.wanted(scoped, show_expired=show_expired)
        found: list[Told] = []
        if limit:
            async for user in self._users(scoped):
                hits = await user.retrieve(
                    asked, memory_types=TYPES, top_k=min(limit, TOP_K_MAX), filters=wanted,
                    min_score=least, explain=explain,
                )  # fmt: skip
                for hit in hits:
                    details = {"score_details": dict(hit.signals or {})} if explain else {}
                    same = [hit, *[await user.get(one) for one in hit.near_duplicates]]
                    found += [
                        shapes.item(one, user.user_id, score=hit.score) | details for one in same
                    ]
        found.sort(key=lambda one: -one["score"])
        return {"results": found[:limit]}

    async def history(self, memory_id: str) -> list[Told]:
        """Return the history of a memory, also of a deleted one; [] for an unknown id."""
        async for user in self._may_own(memory_id):
            try:
                return shapes.history(memory_id, await user.history(memory_id))
            except NotFoundError:
                continue
        return []

    # --- how

    async def _opened(self) -> MemorySystem:
        async with self._opening:
            if self._memory is None:
                self._memory = await MemorySystem.open(self._directory, **self._parts)
            return self._memory

    async def _users(self, scope: Fields) -> AsyncIterator[UserMemory]:
        memory = await self._opened()
        if "user_id" in scope:
            yield memory.user(owner_of(scope))
            return
        for user_id in await memory.users():
            yield memory.user(user_id)

    async def _may_own(self, memory_id: object) -> AsyncIterator[UserMemory]:
        if not isinstance(memory_id, str) or not memory_id:
            return
        memory = await self._opened()
        for user_id in await memory.users():
            if shapes.may_own(user_id, memory_id):
                yield memory.user(user_id)

    async def _found(self, memory_id: str) -> tuple[UserMemory, Kept]:
        async for user in self._may_own(memory_id):
            try:
                memory = await user.get(memory_id)
            except NotFoundError:
                continue
            if memory.memory_type in TYPES:
                return user, memory
        raise ValueError(
            f"Memory with id {memory_id} not found. Please provide a valid 'memory_id'"
        )

    async def _inferred(
        self, said: list[Told], scope: Mapping[str, str], kept: Fields
    ) -> list[Told]:
        """Keep messages for a while, and remember the facts in them.

        An add reads its own messages, whatever another one has left; so its facts have its scope.
        """
        if self._parts.get("extractor") is None:
            raise InvalidInputError(
                "infer=True needs an extractor: Memory(..., extractor=), a function or an "
                "OpenAIExtractor(); or keep messages as they are with infer=False"
            )
        owner = owner_of(scope)
        # Messages of another scope are not read to understand these.
        named = [f"{name}={scope[name]}" for name in SCOPES[1:] if name in scope]
        user = (await self._opened()).user(
            owner, agent_id=scope.get("agent_id"), session_id="&".join(named) or "mem0"
        )
        results: list[Told] = []
        async with self._inferring.setdefault(owner, asyncio.Lock()):
            for part in in_batches(iter(said), _size, count_max=MESSAGES_MAX, size_max=BYTES_MAX):
                results += await _inferred(user, part, scope, kept)
        return results


async def _inferred(
    user: UserMemory,
    said: Sequence[Fields],
    scope: Mapping[str, str],
    kept: Fields,
) -> list[Told]:
    """Return the facts inferred from messages; if inference fails, the messages are deleted."""
    ids: list[str] = []
    try:
        for one in said:
            receipt = await user.short_term.add_message(
                one["content"], role=one["role"], metadata=scope
            )
            ids.append(receipt.memory_id)
        found = await user.extract(
            message_ids=ids,
            metadata=kept,
            within={name: value for name, value in scope.items() if name != "user_id"},
            batches_max=2 * len(ids),  # enough to read each of them by itself
        )
    except BaseException:
        for memory_id in ids:
            with suppress(NotFoundError):
                await user.delete(memory_id)
        raise
    events = {"added": "ADD", "forgotten": "DELETE"}
    return [
        {"id": fact.memory_id, "memory": fact.content, "event": events[fact.came]}
        for fact in found.facts
        if fact.came in events
    ]


def _size(message: Fields) -> int:
    return len(message["content"].encode("utf-8", "surrogatepass"))

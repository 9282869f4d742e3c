"""LangGraph's four operations on documents: get, search, put, list namespaces.

items.py says what an item is. Reads of a batch see what was there before its puts.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar

from langgraph.store import base

from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.records import JsonObject, MemoryType
from memory_actors.base.validation import QUERY_BYTES_MAX, check_count, check_name, check_text
from memory_actors.integrations.langgraph import items
from memory_actors.integrations.langgraph.items import Filter, Index, documents_filter
from memory_actors.sharing.system import MemorySystem

KINDS: Final = (MemoryType.STRUCTURED,)
ALL: Final = 1 << 40  # more than there are
RANKED_MIN: Final = 64  # hits to ask for where values are filtered behind the ranking
RANKED_MAX: Final = 10_000  # what `retrieve` gives at most
REFRESH_SHARE: Final = 0.01  # of a TTL: what gains less is not written, so reads stay cheap
AT_ONCE: Final = 64  # commands that wait for the same commit, and calls that run side by side

T = TypeVar("T")


@dataclass(eq=False)
class Operations:
    """Carries out operations on an open memory system, on its event loop."""

    _memory: MemorySystem
    _names: items.NamespaceNames
    _index: Index | None
    _clock: Callable[[], int]
    _ttl: Callable[[], base.TTLConfig]

    async def batch(self, given: Sequence[base.Op]) -> list[base.Result]:
        """Carry out operations: reads see what was there before, the last put counts.

        :raises InvalidNamespaceError: of one of them; nothing was done.
        :raises InvalidInputError: a value that no document can hold, or a bad filter; the same.
        """
        self._check(given)
        puts = {(op.namespace, op.key): op for op in given if isinstance(op, base.PutOp)}
        values = {
            at: items.checked_value(op.value) for at, op in puts.items() if op.value is not None
        }
        if self._index is not None:
            index = self._index
            texts = [
                text for at, value in values.items() for text in index.texts(value, puts[at].index)
            ]
            await index.embed(texts)
        results = [await self._read(op) for op in given]
        await self._all(self._put(op, values.get(at)) for at, op in puts.items())
        return results

    async def sweep(self) -> int:
        """Delete what has expired; return how many items were."""
        expired = {"langgraph.expires_us": {"lt": self._clock()}}
        swept = 0
        for user_id in await self._users(()):
            user = self._memory.user(user_id)
            over = items.items_of(
                user_id, await user.list_memories(KINDS, filters=expired, limit=ALL)
            )
            # Each only if it is over still: a put or a read may have renewed it since.
            swept += sum(
                await self._all(
                    self._if_still_so(user.delete, one.memory_id, filters=expired) for one in over
                )
            )
        return swept

    def _check(self, given: Sequence[base.Op]) -> None:
        for op in given:
            base.validate_op_namespace(op)
            if isinstance(op, base.PutOp):
                user_id, collection = self._names.place(op.namespace)
                for name, what in ((user_id, "user"), (collection, "collection"), (op.key, "key")):
                    check_name(name, what)
                if op.value is not None:
                    items.checked_value(op.value)
                    items.checked_metadata(op, self._clock())
            if isinstance(op, base.SearchOp | base.ListNamespacesOp):
                check_count(op.limit, "limit")
                check_count(op.offset, "offset")
            if isinstance(op, base.SearchOp) and op.query is not None:
                check_text(op.query, "query")

    # --- reads

    async def _read(self, op: base.Op) -> base.Result:
        if isinstance(op, base.GetOp):
            found = await self._find(op.namespace, op.key)
            if found is None or (self._omits and found.is_over(self._clock())):
                return None
            if op.refresh_ttl:
                await self._refresh(found)
            return found.item()
        if isinstance(op, base.SearchOp):
            return await self._search(op)
        return await self._list(op) if isinstance(op, base.ListNamespacesOp) else None

    async def _find(self, namespace: Sequence[str], key: str) -> items.StoredItem | None:
        user_id, collection = self._names.place(namespace)
        user = self._memory.user(user_id)
        try:
            document = await user.documents.get(key, collection)
        except NotFoundError:
            return None
        if (document.collection, document.key) != (collection, key):
            return None  # it was found by its memory id
        return items.item_of(user_id, collection, key, document.value, document)

    async def _search(self, op: base.SearchOp) -> list[base.SearchItem]:
        query = op.query or ""
        if query.strip() and self._index is not None:
            index, matching = self._index, await self._matching(op)
            texts = [index.texts(found.value, found.about.get("index")) for found in matching]
            ranked = _best_first(zip(matching, await index.scores(query, texts), strict=True))
        elif query.strip():
            ranked = await self._by_retrieval(op, query)
        else:
            ranked = [(one, None) for one in await self._matching(op, op.offset + op.limit)]
        page = ranked[op.offset : op.offset + op.limit]
        if op.refresh_ttl:
            await self._all(self._refresh(found) for found, _ in page)
        return [found.search_item(score) for found, score in page]

    async def _matching(self, op: base.SearchOp, limit: int = ALL) -> list[items.StoredItem]:
        """Return the items that a search may return, those put last first; `limit` of each user."""
        users = await self._users(op.namespace_prefix)
        if op.filter:
            asked = documents_filter(op.filter)
            each = [await self._with_values(user_id, op, asked) for user_id in users]
        else:
            each = []
            for user_id in users:
                user = self._memory.user(user_id)
                listed = await user.list_memories(KINDS, filters=self._about(op), limit=limit)
                each.append(items.items_of(user_id, listed))
        found = [one for some in each for one in some]
        return sorted(found, key=lambda one: one.updated_at, reverse=True)

    async def _with_values(
        self, user_id: str, op: base.SearchOp, asked: Filter
    ) -> list[items.StoredItem]:
        documents, prefix, now_us = self._memory.user(user_id).documents, op.namespace_prefix, 0
        if self._omits:
            now_us = self._clock()
        found: list[items.StoredItem] = []
        for collection in await documents.collections():
            namespace = items.namespace_of(user_id, collection)
            if namespace is None or namespace[: len(prefix)] != tuple(prefix):
                continue
            for document in await documents.find(collection, asked, limit=ALL):
                one = items.item_of(user_id, collection, document.key, document.value, document)
                if one is not None and not (now_us and one.is_over(now_us)):
                    found.append(one)
        return found

    async def _by_retrieval(
        self, op: base.SearchOp, query: str
    ) -> list[tuple[items.StoredItem, float | None]]:
        """Rank by our own retrieval; what it does not return comes behind what it does."""
        wanted = op.offset + op.limit
        matching = await self._matching(op) if op.filter else []
        among = {one.memory_id for one in matching} if op.filter else None
        hits: list[tuple[items.StoredItem, float | None]] = []
        # Other stores take a query of any length, and a model reads no more than its beginning.
        query = query.strip().encode()[:QUERY_BYTES_MAX].decode(errors="ignore")
        for user_id in await self._users(op.namespace_prefix):
            hits += await self._retrieved(user_id, op, query, among)
        if not op.filter and len(hits) < wanted:
            matching = await self._matching(op, wanted + len(hits))
        scored = {found.memory_id for found, _ in hits}
        others = ((one, None) for one in matching if one.memory_id not in scored)
        return [*_best_first(hits), *others]

    async def _retrieved(
        self, user_id: str, op: base.SearchOp, query: str, among: Set[str] | None
    ) -> list[tuple[items.StoredItem, float | None]]:
        user = self._memory.user(user_id)
        about = {"and": [self._about(op), {"langgraph.index": {"ne": False}}]}
        wanted = min(max(op.offset + op.limit, 1), RANKED_MAX)
        top_k = wanted if among is None else min(max(wanted, RANKED_MIN), RANKED_MAX)
        while True:
            hits = await user.retrieve(
                query, memory_types=KINDS, filters=about, top_k=top_k, compressed=False
            )
            asked = [hit for hit in hits if among is None or hit.memory_id in among]
            if len(asked) >= wanted or len(hits) < top_k or top_k == RANKED_MAX:
                break
            top_k = min(top_k * 4, RANKED_MAX)
        scores = {hit.memory_id: hit.score for hit in asked}
        return [(one, scores[one.memory_id]) for one in items.items_of(user_id, asked)]

    async def _list(self, op: base.ListNamespacesOp) -> list[items.Namespace]:
        conditions = op.match_conditions or ()
        prefixes = [one.path for one in conditions if one.match_type == "prefix"]
        # The user is known where one of the prefixes says it, and not by a wildcard.
        begins = next(
            (path for path in prefixes if "*" not in path and self._names.user_below(path)), ()
        )
        found = [
            namespace
            for user_id in await self._users(begins)
            for namespace in await self._namespaces(user_id)
            if all(_matches(condition, namespace) for condition in conditions)
        ]
        cut = sorted({namespace[: op.max_depth] for namespace in found})
        return cut[op.offset : op.offset + op.limit]

    async def _namespaces(self, user_id: str) -> list[items.Namespace]:
        user = self._memory.user(user_id)
        counts = dict(await user.documents.collections())
        if self._omits:
            over = {"langgraph.expires_us": {"lte": self._clock()}}
            for memory in await user.list_memories(KINDS, filters=over, limit=ALL):
                counts[memory.data["collection"]] -= 1
        places = (items.namespace_of(user_id, name) for name, count in counts.items() if count > 0)
        return [namespace for namespace in places if namespace is not None]

    # --- writes

    async def _put(self, op: base.PutOp, value: JsonObject | None) -> None:
        user_id, collection = self._names.place(op.namespace)
        user = self._memory.user(user_id)
        if value is None:
            found = await self._find(op.namespace, op.key)
            if found is not None:
                await self._if_still_so(user.delete, found.memory_id)
            return
        metadata = items.checked_metadata(op, self._clock())
        await user.documents.put(collection, value, key=op.key, metadata=metadata)

    async def _refresh(self, found: items.StoredItem) -> None:
        """Restart the time to live of an item, if it has one.

        LangGraph puts the store's default into `refresh_ttl` of a read that does not choose.
        """
        ttl, expires_us = found.about.get("ttl"), found.about.get("expires_us")
        if ttl is None or expires_us is None:
            return
        later_us = self._clock() + int(ttl * items.MINUTE_US)
        if later_us - expires_us < ttl * items.MINUTE_US * REFRESH_SHARE:
            return
        user = self._memory.user(found.user_id)
        about = found.about | {"expires_us": later_us}
        metadata = found.metadata | {"langgraph": about}
        # A put since it was read has said anew how long the item lives, and how it is found.
        as_read = {"langgraph": {"eq": found.about}}
        await self._if_still_so(user.update, found.memory_id, metadata=metadata, filters=as_read)

    async def _if_still_so(self, call: Callable[..., Any], *args: object, **kwargs: object) -> bool:
        """Change a document, and say so; what others have changed or deleted is left alone."""
        try:
            await call(*args, **kwargs)
        except NotFoundError:
            return False
        return True

    # --- how

    async def _all(self, changes: Iterator[Coroutine[object, object, T]]) -> list[T]:
        """Make changes, many at once: they wait for the same commit. The first error is raised."""
        made: list[T] = []
        while some := list(islice(changes, AT_ONCE)):
            for outcome in await asyncio.gather(*some, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
                made.append(outcome)
        return made

    async def _users(self, prefix: Sequence[str]) -> list[str]:
        one = self._names.user_below(prefix)
        return [one] if one is not None else list(await self._memory.users())

    @property
    def _omits(self) -> bool:
        return bool(self._ttl().get("omit_expired"))

    def _about(self, op: base.SearchOp) -> Filter:
        labels = enumerate(op.namespace_prefix)
        asked: list[Filter] = [{f"langgraph.namespace.{at}": {"eq": label}} for at, label in labels]
        if not asked:  # a label says it too, and each condition is asked of every document
            asked.append({"langgraph.namespace": {"exists": True}})
        if self._omits:
            asked.append({"not": {"langgraph.expires_us": {"lte": self._clock()}}})
        return {"and": asked}


def _best_first(
    found: Iterable[tuple[items.StoredItem, float | None]],
) -> list[tuple[items.StoredItem, float | None]]:
    return sorted(found, key=lambda one: -1e9 if one[1] is None else one[1], reverse=True)


def _matches(condition: base.MatchCondition, namespace: items.Namespace) -> bool:
    path, length = tuple(condition.path), len(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise InvalidInputError(f"match_type must be prefix or suffix: {condition.match_type!r}")
    if length > len(namespace):
        return False
    begins = condition.match_type == "prefix"
    part = namespace[:length] if begins else namespace[len(namespace) - length :]
    return all(asked in ("*", label) for asked, label in zip(path, part, strict=True))

"""Items of LangGraph as documents.

An item is a document: its value is the item's, its key the item's key. The document's metadata has
the other fields of the item, under `langgraph`:

    namespace   the labels, so that a search filters by a prefix
    ttl         minutes, and expires_us: microseconds since 1970, from the clock of the command
    index       what its put said of searching: false, or fields
    created_us  of an item that was imported: when the store it comes from first had it

The time of the last put is the document's `occurred_at`. A put, a refresh and a deletion are one
command each, with their times in them, so a replay needs no clock and comes to the same.

A namespace is a user and a collection. One label of it names the user: the first, or the one that
the store was told (`user=1` for `("memories", "ada")`). The others, joined by dots, name the
collection, behind the place that the user's label had:

    ("ada", "memories", "work")   user=0        ada         langgraph@0/memories.work
    ("memories", "ada")           user=1        ada         langgraph@1/memories
    ("docs",)                     user=1        langgraph   langgraph/docs
    ("ada", "memories")           user="app"    app         langgraph/ada.memories

A namespace that is too short to have the label, or whose label is blank, belongs to the user
`langgraph`; a store of one user (`user="app"`) has all labels in the collection. No label has a dot
in it or is empty, so a user and a collection say which namespace they are, whatever the store was
told.

With `index={"dims": …, "embed": …, "fields": […]}`, the caller's embeddings rank items. Vectors are
made when a value is put, before it is written, and kept in the memory of the process. Items that
another process put are embedded by the first search that looks at them.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final

import msgspec
import numpy as np
from langgraph.store.base import (
    IndexConfig,
    Item,
    PutOp,
    SearchItem,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
)
from numpy.typing import NDArray

from eventlog.core.records import to_datetime
from memory_actors.base.errors import EmbedderError, InvalidInputError
from memory_actors.base.records import JsonObject
from memory_actors.base.validation import LONG_BYTES_MAX, json_copy, own_metadata
from memory_actors.interchange.sources.langgraph import place_of

Namespace = tuple[str, ...]

_COLLECTION = re.compile(r"langgraph(?:@(\d+))?/(.*)", re.DOTALL)


class NamespaceNames:
    """The rule, for a store whose users are named by a label of the namespaces, or are just one."""

    def __init__(self, user: int | str):
        is_place = isinstance(user, int) and not isinstance(user, bool) and user >= 0
        if not is_place and not (isinstance(user, str) and user):
            raise InvalidInputError(
                "user must be the place of a label, from 0, or the id of the user who has all "
                f"namespaces, not {user!r:.80}"
            )
        self._user = user

    def place(self, namespace: Sequence[str]) -> tuple[str, str]:
        """Return the user and the collection of a namespace."""
        user_id, collection = place_of(namespace, self._user)
        return str(user_id), collection

    def user_below(self, prefix: Sequence[str]) -> str | None:
        """Return the user who has all namespaces that begin so; None: several may."""
        is_open = isinstance(self._user, int) and self._user >= len(prefix)
        return None if is_open else self.place(prefix)[0]


def namespace_of(user_id: str, collection: str) -> Namespace | None:
    """Return the namespace that is a user's collection; None: it is no namespace's."""
    match = _COLLECTION.fullmatch(collection)
    if match is None:
        return None
    at, path = match.groups()
    labels = path.split(".") if path else []
    if at is not None:
        labels.insert(int(at), user_id)
    return tuple(labels)


MINUTE_US: Final = 60_000_000
TTL_MINUTES_MAX: Final = 1e9  # 1,900 years


class StoredItem(msgspec.Struct, frozen=True):
    """A document that is an item."""

    memory_id: str
    user_id: str
    collection: str
    namespace: Namespace
    key: str
    value: JsonObject
    metadata: JsonObject
    created_at: datetime
    updated_at: datetime

    @property
    def about(self) -> JsonObject:
        """The properties of the item beside its value."""
        about: JsonObject = self.metadata.get("langgraph", {})
        return about

    def is_over(self, now_us: int) -> bool:
        """Tell whether its time is over."""
        return bool(self.about.get("expires_us", now_us + 1) <= now_us)

    def item(self) -> Item:
        """Return the item in the form of `get`."""
        return Item(**self._fields())

    def search_item(self, score: float | None) -> SearchItem:
        """Return the item in the form of `search`."""
        return SearchItem(**self._fields(), score=score)

    def _fields(self) -> JsonObject:
        fields = ("namespace", "key", "value", "created_at", "updated_at")
        return {name: getattr(self, name) for name in fields}


def checked_value(value: Mapping[str, object]) -> JsonObject:
    """Return a value as JSON holds it: times, ids and the like as text.

    :raises InvalidInputError: a document cannot hold it: it is not JSON, too deep or too large.
    """
    try:
        _check_keys(value)
        made: JsonObject = json_copy(msgspec.to_builtins(dict(value)), "it")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"the value of an item must be JSON: {error}") from error
    size_bytes = len(msgspec.json.encode(made))
    if size_bytes > LONG_BYTES_MAX:
        raise InvalidInputError(
            f"the value takes {size_bytes:,} bytes (max: {LONG_BYTES_MAX:,}): put it as several"
        )
    return made


def _check_keys(value: object) -> None:
    """Refuse keys that are not text: as text, 1 and "1" would be one key, and a value lost."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"it has the key {key!r:.80}: keys must be strings")
            _check_keys(inner)
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            _check_keys(inner)


def checked_metadata(op: PutOp, now_us: int) -> JsonObject:
    """Return the metadata of the item that is put at a time.

    :raises InvalidInputError: its time to live is none, or they are too large or not JSON.
    """
    about: JsonObject = {"namespace": list(op.namespace)}
    if op.ttl is not None:
        if not isinstance(op.ttl, int | float) or not 0 <= op.ttl <= TTL_MINUTES_MAX:
            raise InvalidInputError(
                f"ttl must be a number of minutes, or None for ever, not {op.ttl!r:.80}"
            )
        about |= {"ttl": op.ttl, "expires_us": now_us + int(op.ttl * MINUTE_US)}
    if op.index is not None:
        about["index"] = op.index
    try:
        return own_metadata({"langgraph": about})
    except InvalidInputError as error:
        raise InvalidInputError(f"the index of an item is part of its metadata: {error}") from error


def item_of(user_id: str, collection: str, key: str, value: Any, memory: Any) -> StoredItem | None:
    """Return an item; None: the document is none, but another's with metadata that looks so."""
    namespace = namespace_of(user_id, collection)
    if namespace is None:
        return None
    created_us = memory.metadata.get("langgraph", {}).get("created_us")
    created_at = memory.created_at if created_us is None else to_datetime(created_us)
    return StoredItem(
        memory_id=memory.memory_id,
        user_id=user_id,
        collection=collection,
        namespace=namespace,
        key=key,
        value=value,
        metadata=memory.metadata,
        created_at=created_at,
        updated_at=max(created_at, memory.occurred_at),
    )


def items_of(user_id: str, memories: Iterable[Any]) -> list[StoredItem]:
    """Return the items among memories that are documents."""
    found = (
        item_of(user_id, one.data["collection"], one.data["key"], one.data["value"], one)
        for one in memories
    )
    return [one for one in found if one is not None]


# --- LangGraph's filters as those of `user.documents.find`: a value and the operators mean the same
# in both. A field that must be null may be missing; an object asks for the fields in it and lets
# others be; numbers that JSON does not have are refused.


Filter = JsonObject

_KEY = re.compile(r"[\w .-]+")
_OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
_INT_MAX = 1 << 63  # beyond which JSON's numbers are those of floats


def documents_filter(asked: Mapping[str, object] | None) -> Filter:
    """Return a filter of documents that matches what LangGraph's matches.

    :raises InvalidInputError: a key that is no field's name, or an unknown operator.
    """
    return {"and": [one for key, value in (asked or {}).items() for one in _field(key, value)]}


def _field(key: str, value: object) -> Iterator[Filter]:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidInputError(
            f"Invalid filter key: {key!r:.80}. Use the name of a field: letters, digits, spaces, "
            "hyphens and underscores, and dots between an object and its field"
        )
    if not isinstance(value, Mapping):
        yield _holds(key, "$eq", value)
    elif any(isinstance(name, str) and name.startswith("$") for name in value):
        yield from (_holds(key, name, operand) for name, operand in value.items())
    else:
        for inner, operand in value.items():
            yield from _field(f"{key}.{inner}", operand)


def _holds(key: str, name: str, operand: object) -> Filter:
    """Return the filter of one condition; the backslash says that the rest is a path."""
    if name not in _OPERATORS:
        raise InvalidInputError(f"Unsupported operator: {name!r:.80}. Use {' '.join(_OPERATORS)}")
    path = f"\\{key}"
    if name in ("$eq", "$ne"):
        same: Filter = {path: {"eq": _as_json(operand)}}
        if operand is None:
            same = {"or": [same, {path: {"exists": False}}]}
        return same if name == "$eq" else {"not": same}
    return {path: {name: _as_json(operand)}}


def _as_json(operand: Any) -> Any:
    """Return a number that JSON can hold in the place of one that is too large for it."""
    is_int = isinstance(operand, int) and not isinstance(operand, bool)
    return float(operand) if is_int and not -_INT_MAX <= operand < _INT_MAX else operand


# --- vectors of the caller's embeddings


CACHE_BYTES_MAX = 256 << 20  # 43,000 vectors of 1,536 dimensions

Vector = NDArray[np.float32]


class Index:
    """The vectors of texts, and the score of a value for a query: of its best text."""

    def __init__(self, config: IndexConfig):
        if not isinstance(config.get("dims"), int) or config.get("embed") is None:
            raise InvalidInputError("index must say `dims` and `embed`")
        self._embeddings = ensure_embeddings(config["embed"])
        self._dims = config["dims"]
        self._fields = [_path(field) for field in config.get("fields") or ["$"]]
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()

    def texts(self, value: JsonObject, index: Any) -> list[str]:
        """Return the texts by which a value is found; `index` is what its put said."""
        if index is False:
            return []
        fields = self._fields if index is None else [_path(field) for field in index]
        return [text for path in fields for text in get_text_at_path(value, path)]

    async def embed(self, texts: Iterable[str]) -> dict[str, Vector]:
        """Return the vectors of texts; those that are not at hand are made, in one batch.

        :raises EmbedderError: it gave another number of vectors, or of dimensions, than it should.
        """
        held = {text: self._vectors.get(_digest(text)) for text in texts}
        new = [text for text, vector in held.items() if vector is None]
        made = await self._embeddings.aembed_documents(new) if new else []
        if len(made) != len(new):
            raise EmbedderError(f"{len(made)} vectors came for {len(new)} texts")
        held.update(zip(new, map(self._checked, made), strict=True))
        vectors = {text: vector for text, vector in held.items() if vector is not None}
        for text, vector in vectors.items():
            self._vectors[_digest(text)] = vector
            self._vectors.move_to_end(_digest(text))
        while len(self._vectors) > CACHE_BYTES_MAX // (4 * self._dims):
            self._vectors.popitem(last=False)
        return vectors

    async def scores(self, query: str, found: Sequence[Sequence[str]]) -> list[float | None]:
        """Return the cosine of each value's best text and a query, or None without texts."""
        vectors = await self.embed([text for texts in found for text in texts])
        asked = self._checked(await self._embeddings.aembed_query(query))
        # Each text once, so that the same text has the same score to the last bit.
        known = {text: float(vector @ asked) for text, vector in vectors.items()}
        return [max((known[text] for text in texts), default=None) for texts in found]

    def _checked(self, vector: Sequence[float]) -> Vector:
        made = np.asarray(vector, dtype=np.float32)
        if made.shape != (self._dims,):
            raise EmbedderError(
                f"the index has {self._dims} dimensions, and a vector of {made.shape} came: say "
                "in `dims` what the embeddings have"
            )
        length = float(np.linalg.norm(made))
        return made / length if length > 0 else made


def _path(field: str) -> Any:
    return field if field == "$" else tokenize_path(field)


def _digest(text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()

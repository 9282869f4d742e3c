"""Search by the caller's embeddings: `index={"dims": …, "embed": …, "fields": […]}`.

The log has the values and which of their fields are indexed; vectors are derived from them. They
are made when a value is put, before it is written, and kept in the memory of the process. Items
that another or an earlier process put are embedded by the first search that looks at them.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from langgraph.store.base import IndexConfig, ensure_embeddings, get_text_at_path, tokenize_path
from numpy.typing import NDArray

from memory_actors.base.errors import EmbedderError, InvalidInputError
from memory_actors.base.records import JsonObject

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

"""A model that gives one vector for each text, joined with the default model's token states.

Late interaction needs the states of tokens, which models behind an API do not give. The default
model goes on giving them, so memories are found by its states and by the vectors of the other
model. Both read each text: it costs what both cost.
"""

from collections.abc import Callable, Sequence
from typing import Any

from memory_actors.search.embedding.default import DefaultEmbedder
from memory_actors.search.embedding.protocol import AnyVectors, Embedded, Embedder, VectorForm
from memory_actors.search.embedding.token_states import Codebook


class JoinedEmbedder:
    """Vectors of one embedder, token states of the default one."""

    def __init__(self, vectors: Embedder, states: DefaultEmbedder):
        self._vectors, self._states = vectors, states
        self._form: VectorForm | None = None
        self.query_prefix: str = getattr(vectors, "query_prefix", "")
        self.parallel: bool = getattr(vectors, "parallel", False)
        for name in ("background_mean", "batch_texts_max"):
            if hasattr(vectors, name):
                setattr(self, name, getattr(vectors, name))

    @property
    def fingerprint(self) -> str:
        """Name both models, and the codebook of the token states."""
        return f"{self._vectors.fingerprint} with states of {self._states.fingerprint}"

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        return self._vectors.dimension

    @property
    def unknown_token_id(self) -> int:
        """The token of what the default model has no word for."""
        return self._states.unknown_token_id

    def codebook(self) -> Codebook:
        """Return the codebook of the default model, which packs the token states."""
        return self._states.codebook()

    def prepare(self) -> None:
        """Load both models."""
        self._states.prepare()
        prepare: Callable[[], Any] | None = getattr(self._vectors, "prepare", None)
        if prepare is not None:
            prepare()

    def embed(self, texts: Sequence[str]) -> AnyVectors:
        """Return the vectors alone."""
        return self._vectors.embed(texts)

    def encode(self, texts: Sequence[str]) -> list[Embedded]:
        """Return the vectors of one model with the token states of the other."""
        if self._form is None:
            self._form = VectorForm(self.dimension)
        vectors = self._form.vectors(self._vectors.embed(texts), len(texts))
        states = self._states.encode([text.removeprefix(self.query_prefix) for text in texts])
        return [one._replace(vector=vector) for one, vector in zip(states, vectors, strict=True)]

"""The embedding models that can be had by name."""

from collections.abc import Callable, Mapping
from typing import Final

from memory_actors.base.errors import InvalidInputError
from memory_actors.search.embedding.default import DefaultEmbedder
from memory_actors.search.embedding.multilingual import MultilingualEmbedder
from memory_actors.search.embedding.protocol import Embedder

DEFAULT: Final = "default"
EMBEDDERS: Final[Mapping[str, Callable[[], Embedder]]] = {
    DEFAULT: DefaultEmbedder,
    "multilingual": MultilingualEmbedder,
}


def embedder_of(chosen: Embedder | str | None) -> Embedder:
    """Return the embedder that has a name, the default one for None, or the one that is given.

    :raises InvalidInputError: no embedder has that name.
    :raises EmbedderError: the package that has its model is not installed.
    """
    if not isinstance(chosen, str | None):
        return chosen
    make = EMBEDDERS.get(chosen or DEFAULT)
    if make is None:
        names = " or ".join(map(repr, EMBEDDERS))
        raise InvalidInputError(f"embedder must be {names}, or one of your own, not {chosen!r:.80}")
    return make()

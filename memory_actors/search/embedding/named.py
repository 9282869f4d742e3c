"""Embedders by name: `default`, `multilingual`, or a scheme and a model, as in `ollama:bge-m3`.

Every one but the default is joined with it (`JoinedEmbedder`).
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, cast
from weakref import WeakValueDictionary

from memory_actors.base.errors import InvalidInputError, ModelInstallError
from memory_actors.base.llm import SCHEMES as SERVED
from memory_actors.search.embedding import local_models, served
from memory_actors.search.embedding.default import DefaultEmbedder, JoinedEmbedder
from memory_actors.search.embedding.multilingual import MultilingualEmbedder
from memory_actors.search.embedding.protocol import Embedder
from memory_actors.search.model.installed import models_dir

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT: Final = "default"
NAMED: Final[Mapping[str, Callable[[], Embedder]]] = {"multilingual": MultilingualEmbedder}
SCHEMES: Final[Mapping[str, Callable[[str], Embedder]]] = {
    "fastembed": local_models.FastEmbedder,
    "onnx": local_models.OnnxFolder,
    "sentence-transformers": local_models.SentenceEmbedder,
}
_PREFIXES: Final = ("openai", "ollama", *SCHEMES)
NAMES: Final = (*map(repr, (DEFAULT, *NAMED)), *(f"'{one}:…'" for one in _PREFIXES), "a URL")
"""The names as people are told them."""

_in_use: "Final[WeakValueDictionary[tuple[object, ...], Embedder]]" = WeakValueDictionary()


def embedder_of(chosen: Embedder | str | None) -> Embedder:
    """Return the embedder that has a name, the default one for None, or the one that is given.

    Stores that are open at once in a process share one of a name: a model takes 20 MB or more.

    :raises InvalidInputError: no embedder has that name, or something that it needs is not said.
    :raises EmbedderError: the package that has its model is not installed.
    """
    if not isinstance(chosen, str | None):
        return chosen
    name = chosen or DEFAULT
    try:
        place: Path | None = models_dir()
    except ModelInstallError:
        place = None
    key = os.getpid(), place, name
    if (found := _in_use.get(key)) is None:
        found = _in_use[key] = maker_of(name)()
    return found


def maker_of(name: str) -> Callable[[], Embedder]:
    """Return the function that makes the embedder of a name. It makes nothing yet.

    :raises InvalidInputError: no embedder has that name.
    """
    scheme, _, model = name.partition(":")
    if name == DEFAULT:
        return DefaultEmbedder
    if name in NAMED:
        return partial(_joined, NAMED[name])
    if scheme in SCHEMES:
        return partial(_joined, partial(SCHEMES[scheme], model))
    if scheme in SERVED:
        return partial(_joined, partial(served.embedder_at, name))
    raise InvalidInputError(
        f"embedder must be {', '.join(NAMES)}, or one of your own, not {name!r:.80}"
    )


def _joined(make: Callable[[], Embedder]) -> Embedder:
    return JoinedEmbedder(make(), cast("DefaultEmbedder", embedder_of(None)))

"""Embedding models in files of the caller's own, of fastembed and of sentence-transformers."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from importlib import util
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from memory_actors.base.errors import EmbedderError, InvalidInputError, MissingExtraError, importing
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.embedding.served import ASKS, readable

TOKENS_MAX: Final = 512
WEIGHTS: Final = {".safetensors", ".bin", ".json", ".txt", ".model"}
"""The files of a model that vectors depend on."""


class OnnxFolder:
    """A sentence model that was exported to ONNX: `model.onnx` and `tokenizer.json` in a folder.

    The vector is the mean of the tokens' states, of 512 tokens at most. Other files of
    sentence-transformers change that, if they are there: by `1_Pooling/config.json` it is the first
    state, and `sentence_bert_config.json` says how many tokens are read.

    :raises InvalidInputError: the files are not there.
    """

    batch_texts_max = 16

    def __init__(self, folder: str):
        self._folder = Path(folder).expanduser()
        found = [self._folder / "model.onnx", self._folder / "onnx" / "model.onnx"]
        self._graph = next((path for path in found if path.is_file()), found[0])
        for path in (self._graph, self._folder / "tokenizer.json"):
            if not path.is_file():
                raise InvalidInputError(
                    f"There is no {path}: an ONNX embedder is a folder with model.onnx and "
                    "tokenizer.json."
                )

    @cached_property
    def fingerprint(self) -> str:
        """Name the files by their content."""
        return f"onnx {_named(self._folder, (self._graph, self._folder / 'tokenizer.json'))}"

    @cached_property
    def dimension(self) -> int:
        """Length of each vector, which the model's file may leave open: then it is run once."""
        size = self._session.get_outputs()[0].shape[-1]
        return size if isinstance(size, int) else self.embed(["A text."]).shape[1]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 `[len(texts), dimension]`, rows of length 1.

        :raises EmbedderError: the model fails.
        """
        said = [readable(text) for text in texts]
        from memory_actors.search.embedding.onnx_minilm import padded_inputs

        ids = [np.array(self._tokenizer.encode(text).ids, np.int64) for text in said]
        given = padded_inputs(ids)
        mask = given["attention_mask"]
        given["token_type_ids"] = np.zeros_like(mask)
        wanted = {one.name: given[one.name] for one in self._session.get_inputs()}
        try:
            states = self._session.run(None, wanted)[0]
        except Exception as error:  # the runtime's errors share no base class
            raise EmbedderError(f"The model at {self._graph} failed: {error}") from error
        if states.ndim == 3:
            states = states[:, 0] if self._is_first else _means(states, mask)
        lengths = np.linalg.norm(states, axis=1, keepdims=True)
        return np.asarray(states / np.maximum(lengths, 1e-12), np.float32)

    @cached_property
    def _is_first(self) -> bool:
        return self._said("1_Pooling", "config.json").get("pooling_mode_cls_token") is True

    def _said(self, *names: str) -> Mapping[str, object]:
        """Return the JSON object in a file beside the model; {} without one."""
        try:
            said = json.loads(self._folder.joinpath(*names).read_bytes())
        except (OSError, ValueError):
            return {}
        return said if isinstance(said, dict) else {}

    @cached_property
    def _tokenizer(self) -> Any:
        from memory_actors.search.embedding.onnx_minilm import opened_tokenizer

        said = self._said("sentence_bert_config.json").get("max_seq_length")
        tokens_max = said if isinstance(said, int) and said > 0 else TOKENS_MAX
        return opened_tokenizer(self._folder / "tokenizer.json", tokens_max)

    @cached_property
    def _session(self) -> Any:
        from memory_actors.search.embedding.onnx_minilm import opened_session

        return opened_session(self._graph)


def _means(states: Vectors, mask: npt.NDArray[np.int64]) -> Vectors:
    weights = mask[:, :, None].astype(np.float32)
    return np.asarray((states * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1))


def _named(folder: Path, files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"{folder.name[:24]} {digest.hexdigest()[:16]}"


def _in_turn(
    texts: Sequence[str],
    as_texts: Callable[[list[str]], Iterable[object]],
    as_queries: Callable[[list[str]], Iterable[object]],
) -> Vectors:
    """Embed texts, and those among them that are marked as questions, each as its model does."""
    rows: list[object] = [None] * len(texts)
    for asks, embed in ((False, as_texts), (True, as_queries)):
        places = [place for place, text in enumerate(texts) if text.startswith(ASKS) == asks]
        said = [readable(texts[place].removeprefix(ASKS)) for place in places]
        for place, row in zip(places, embed(said) if said else (), strict=True):
            rows[place] = row
    return np.asarray(rows, np.float32)


class FastEmbedder:
    """A model that fastembed knows; it fetches the weights when it is first used.

    :raises MissingExtraError: fastembed is not installed.
    """

    query_prefix = ASKS
    batch_texts_max = 16

    def __init__(self, model: str):
        with importing("This embedder needs fastembed", "fastembed"):
            from fastembed import TextEmbedding
        self._name, self._kind = model, TextEmbedding

    @property
    def fingerprint(self) -> str:
        """Name the model."""
        return f"fastembed {self._name}"

    @cached_property
    def dimension(self) -> int:
        """Length of each vector."""
        known = {one["model"].lower(): one["dim"] for one in self._kind.list_supported_models()}
        if self._name.lower() not in known:
            raise InvalidInputError(f"fastembed has no model {self._name!r:.80}")
        return int(known[self._name.lower()])

    def prepare(self) -> None:
        """Load the model, and fetch it if it is not there."""
        _ = self._model

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 `[len(texts), dimension]`."""
        return _in_turn(texts, self._model.passage_embed, self._model.query_embed)

    @cached_property
    def _model(self) -> Any:
        try:
            return self._kind(self._name, threads=1)
        except Exception as error:  # of a hub, a file or the runtime
            raise EmbedderError(
                f"fastembed cannot load {self._name}: {type(error).__name__}: {error}"
            ) from error


class SentenceEmbedder:
    """A model of sentence-transformers: a name, whose weights it fetches, or a folder with them.

    Prompts for queries and documents are used where the model has them.

    :raises MissingExtraError: sentence-transformers is not installed.
    """

    query_prefix = ASKS
    batch_texts_max = 16

    def __init__(self, model: str):
        if util.find_spec("sentence_transformers") is None:
            raise MissingExtraError(
                "This embedder needs sentence-transformers: run "
                "`pip install 'memory-actors[sentence-transformers]'`"
            )
        folder = Path(model).expanduser()
        self._name, self._folder = model, folder if folder.is_dir() else None

    @cached_property
    def fingerprint(self) -> str:
        """Name the model; one in a folder by its files, too."""
        if self._folder is None:
            return f"sentence-transformers {self._name[:70]}"
        files = sorted(one for one in self._folder.rglob("*.*") if one.suffix in WEIGHTS)
        return f"sentence-transformers {_named(self._folder, files)}"

    @property
    def dimension(self) -> int:
        """Length of each vector. It loads the model."""
        return int(self._model.get_embedding_dimension())

    def prepare(self) -> None:
        """Load the model, and fetch it if it is not there."""
        _ = self._model

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 `[len(texts), dimension]`, rows of length 1."""
        model = self._model
        options = {"normalize_embeddings": True, "show_progress_bar": False}
        as_texts, as_queries = model.encode_document, model.encode_query
        return _in_turn(texts, partial(as_texts, **options), partial(as_queries, **options))

    @cached_property
    def _model(self) -> Any:
        from sentence_transformers import SentenceTransformer

        try:
            return SentenceTransformer(str(self._folder or self._name))
        except Exception as error:  # of a hub, a file or torch
            raise EmbedderError(
                f"sentence-transformers cannot load {self._name}: {type(error).__name__}: {error}"
            ) from error

"""The default embedder: all-MiniLM-L6-v2 on ONNX Runtime, on the CPU, offline once installed.

Texts become token ids, are sorted by length, run in small padded batches and come back in the order
they were given. A vector does not depend on the batch its text was in (the graph scales each token
by itself, see `memory_actors.search.model.graph`): alone or among others, cosine 0.99999 or better.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
import numpy.typing as npt
import onnxruntime
from tokenizers import Tokenizer

from eventlog.core.logs import get_logger
from memory_actors.base.errors import EmbedderError, InvalidInputError
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.model.install import install_model
from memory_actors.search.model.installed import (
    GRAPH_FILE,
    TOKENIZER_FILE,
    ModelManifest,
    Precision,
    fingerprint,
    model_path,
    read_manifest,
)
from memory_actors.search.model.onnx_file import without_constants

onnxruntime.disable_telemetry_events()  # of a library that was loaded before `memory_actors`

# A batch spares the runtime's cost of a call, about 0.3 ms: spread over 32 texts it is nothing.
_BATCH_TEXTS_MAX = 32
# Padding included: 14 texts of 35 tokens, or two of full length. The working set of a layer then
# stays in the processor's cache: 256 to 512 are equally fast, 2,048 is a quarter slower on long
# texts and takes 70 MB more.
_BATCH_TOKENS_MAX = 512
# Sorted together: enough to fill batches of like length, and 8 MB of token ids at most.
_WINDOW_TEXTS_MAX = 4096
# 256 tokens of prose are 1,200 characters. Characters after this limit matter only if those tokens
# are endless words or blanks, and would cost time without bound.
_CHARACTERS_MAX = 32_768

# The key under which the runtime finds the file of the constants.
_CONSTANTS_FOLDER = "session.model_external_initializers_file_folder_path"

_PROVIDERS = ["CPUExecutionProvider"]

TokenIds = npt.NDArray[np.int64]

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """The result of one forward pass for one text.

    `pooled` is the text's vector, float32 `[384]`, length 1. `token_ids`, int64 `[t]`, are its word
    pieces, and `token_states`, float32 `[t, 384]`, their states in the last layer, not normalised.
    Both leave out padding and the special tokens [CLS] and [SEP], which stand for no part of the
    text (they do count in the mean that `pooled` is): an empty text has `t == 0`.
    """

    pooled: Vectors
    token_ids: TokenIds
    token_states: Vectors


class OnnxEmbedder:
    """Runs an installed model, in the thread that calls; several may at once.

    `folder` is what `install_model` returned. A call uses one thread: a second gains nothing on
    short texts and takes a core from the application. Raises EmbedderError where the folder holds
    no working model.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._manifest = _manifest(folder)
        with ThreadPoolExecutor(1, "session") as other:  # each takes as long as the other
            session = other.submit(_session, folder / GRAPH_FILE)
            self._tokenizer = opened_tokenizer(folder / TOKENIZER_FILE, self._manifest.tokens_max)
            self._session = session.result()

    @classmethod
    def load(cls, precision: Precision = "int8", cache_dir: Path | None = None) -> Self:
        """Open the model, installing it on first use.

        Raises ModelInstallError, EmbedderError, InvalidInputError.
        """
        folder = model_path(precision, cache_dir)
        if folder is None:
            _log.warning("installing the embedding model", fingerprint=fingerprint(precision))
            folder = install_model(precision=precision, cache_dir=cache_dir, when_due=True)
        return cls(folder)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 `[len(texts), 384]`, rows of length 1. Text past 256 tokens is ignored.

        Raises InvalidInputError where an item is no text, EmbedderError where the model fails.
        """
        _check(texts)
        vectors = np.empty((len(texts), self._manifest.dimension), dtype=np.float32)
        for indexes, batch in self._batches(texts):
            (vectors[indexes],) = self._run(["pooled"], batch)
        return vectors

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Return vectors and token states from one pass. Text past 256 tokens is ignored.

        A text of full length takes 390 KB: encode many texts in portions. Raises InvalidInputError,
        EmbedderError.
        """
        _check(texts)
        encodings: dict[int, Encoding] = {}
        for indexes, batch in self._batches(texts):
            pooled, states = self._run(["pooled", "token_states"], batch)
            rows = map(_encoding, pooled, states, batch)
            encodings.update(zip(indexes, rows, strict=True))
        return [encodings[index] for index in range(len(texts))]

    def ids_of(self, tokens: Sequence[str]) -> TokenIds:
        """Return the ids of those tokens that the vocabulary has, int64 `[n]`."""
        ids = map(self._tokenizer.token_to_id, tokens)
        return np.array([one for one in ids if one is not None], np.int64)

    def _batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], list[TokenIds]]]:
        for start in range(0, len(texts), _WINDOW_TEXTS_MAX):
            window = [self._token_ids(text) for text in texts[start : start + _WINDOW_TEXTS_MAX]]
            for batch in _plan([len(ids) for ids in window]):
                yield [start + index for index in batch], [window[index] for index in batch]

    def _token_ids(self, text: str) -> TokenIds:
        # One by one: the tokenizer's own batches would start a thread on every core.
        try:
            ids = self._tokenizer.encode(text[:_CHARACTERS_MAX]).ids
        except (UnicodeError, TypeError) as error:
            raise InvalidInputError(
                "A text has half a surrogate pair, which no encoding can hold: decode it with "
                'errors="replace" first.'
            ) from error
        return np.array(ids, dtype=np.int64)

    def _run(self, outputs: list[str], batch: list[TokenIds]) -> list[Vectors]:
        try:
            results: list[Vectors] = self._session.run(outputs, padded_inputs(batch))
        except Exception as error:  # the runtime's errors share no base class
            raise EmbedderError(f"The embedding model failed: {error}. Try again.") from error
        if not np.isfinite(results[0]).all():
            raise EmbedderError(
                "The embedding model returned numbers that are not finite. Delete its directory "
                "and try again: it will be installed anew."
            )
        return results


def _check(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise InvalidInputError("Expected a sequence of texts, got one text: wrap it in a list.")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidInputError(f"Item {index} is {type(text).__name__}, not str.")


def _plan(lengths_tokens: list[int]) -> Iterator[list[int]]:
    """Yield indexes in batches within both bounds, shortest first.

    Neighbours in length share a batch, so padding is rare. A batch holds one text at least.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths_tokens)), key=lengths_tokens.__getitem__):
        padded_tokens = (len(batch) + 1) * lengths_tokens[index]
        if batch and (len(batch) == _BATCH_TEXTS_MAX or padded_tokens > _BATCH_TOKENS_MAX):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def padded_inputs(batch: list[TokenIds]) -> dict[str, TokenIds]:
    """Return `input_ids` and `attention_mask`, `[texts, longest]`, padded at the end with 0."""
    shape = len(batch), max(map(len, batch))
    ids, mask = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def _encoding(pooled: Vectors, states: Vectors, ids: TokenIds) -> Encoding:
    # Copies, or one text kept would keep its whole batch in memory.
    inner = slice(1, len(ids) - 1)
    return Encoding(pooled.copy(), ids[inner].copy(), states[inner].copy())


def _manifest(folder: Path) -> ModelManifest:
    try:
        return read_manifest(folder)
    except (OSError, msgspec.MsgspecError) as error:
        raise EmbedderError(
            f"No embedding model at {folder} ({error}). "
            "Call memory_actors.search.model.install.install_model() first."
        ) from error


def opened_tokenizer(path: Path, tokens_max: int) -> Tokenizer:
    """Read a tokenizer that cuts texts and does not pad them.

    :raises EmbedderError: it cannot be read.
    """
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the tokenizer raises plain Exception
        raise EmbedderError(
            f"The tokenizer at {path} cannot be read ({error}). If it is the default model's, "
            "delete its directory and try again."
        ) from error
    tokenizer.no_padding()  # the published file pads to 128 and cuts there
    tokenizer.enable_truncation(tokens_max)
    return tokenizer


def _session(path: Path) -> Any:
    try:
        path = path.resolve()  # the runtime refuses a link to another directory
        options = _options()
        options.add_session_config_entry(_CONSTANTS_FOLDER, str(path.parent))
        return onnxruntime.InferenceSession(without_constants(path), options, providers=_PROVIDERS)
    except Exception as error:  # the runtime's errors share no base class
        raise EmbedderError(
            f"The model at {path} cannot be opened ({error}). Delete its directory and try again."
        ) from error


def opened_session(path: Path) -> object:
    """Open any model from its file, as the default one is opened: one thread, on the CPU.

    :raises EmbedderError: the runtime cannot read it.
    """
    try:
        return onnxruntime.InferenceSession(str(path.resolve()), _options(), providers=_PROVIDERS)
    except Exception as error:  # the runtime's errors share no base class
        raise EmbedderError(f"The model at {path} cannot be opened: {error}") from error


def _options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    # Threads that wait must not burn the application's cores.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Plans are kept for each shape, and batches come in thousands of shapes. The arena stays on:
    # bounded batches bound it (35 MB), and without it long texts take more than twice as long.
    options.enable_mem_pattern = False
    options.log_severity_level = 3  # errors only
    return options

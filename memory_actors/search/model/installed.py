"""The model: its name, its pinned files and their sizes, and where on this machine it is whole.

An installed model is a directory of three files. Its manifest is written last and names the graph's
size and SHA-256, so a copy that was cut short, edited or damaged on the disk counts as absent, and
the next install replaces it.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import msgspec
import platformdirs

from memory_actors.base.errors import InvalidInputError, ModelInstallError

Precision: TypeAlias = Literal["int8", "fp32"]
"""The form of weights and products: int8 is a quarter of the size and twice as fast."""

NAME: Final = "all-MiniLM-L6-v2"
DIMENSION: Final = 384
TOKENS_MAX: Final = 256
"""Texts are cut here, as the model was trained: [CLS] and [SEP] count."""

GRAPH_VERSION: Final = 1
"""Raise it with any change of the graph that changes a vector: caches and indexes then rebuild."""

PRECISIONS: Final[tuple[Precision, ...]] = get_args(Precision)

UNKNOWN_TOKEN_ID: Final = 100
"""[UNK] in the published vocabulary."""
VOCABULARY: Final = 30_522
"""Tokens."""

WEIGHTS_FILE: Final = "model.safetensors"
TOKENIZER_FILE: Final = "tokenizer.json"
GRAPH_FILE: Final = "model.onnx"
MANIFEST_FILE: Final = "manifest.json"
MODEL_DIR_VARIABLE: Final = "MEMORY_ACTORS_MODEL_DIR"
"""Environment variable: the directory that holds the models, instead of the user's cache."""

# The files as their authors published them. Sizes are known exactly, so no source can fill a disk.
WEIGHTS_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
PUBLISHED_FILES: Final = (WEIGHTS_FILE, TOKENIZER_FILE)
PUBLISHED_SHA256: Final = {WEIGHTS_FILE: WEIGHTS_SHA256, TOKENIZER_FILE: TOKENIZER_SHA256}
PUBLISHED_SIZE_BYTES: Final = {WEIGHTS_FILE: 90_868_376, TOKENIZER_FILE: 466_247}


def fingerprint(
    precision: Precision,
    graph_version: int = GRAPH_VERSION,
    weights_sha256: str = WEIGHTS_SHA256,
) -> str:
    """Name the vectors a precision produces, e.g. `all-MiniLM-L6-v2/int8/v1/53aa5117`."""
    return f"{NAME}/{precision}/v{graph_version}/{weights_sha256[:8]}"


class ModelManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The facts in `manifest.json` about the files beside it."""

    name: str
    precision: Precision
    graph_version: int
    dimension: int
    tokens_max: int
    weights_sha256: str
    tokenizer_sha256: str
    onnx_sha256: str
    onnx_size_bytes: int

    @property
    def fingerprint(self) -> str:
        """Name the vectors this model produces."""
        return fingerprint(self.precision, self.graph_version, self.weights_sha256)


def models_dir(cache_dir: Path | None = None) -> Path:
    """Return the directory that holds the models; it may not exist yet.

    The argument goes before the environment variable, and that before the user's cache.

    :raises ModelInstallError: neither is named, and the user has no home.
    """
    chosen = cache_dir or os.environ.get(MODEL_DIR_VARIABLE)
    with suppress(RuntimeError):  # nobody knows where the home is: a container's user has none
        chosen = Path(chosen or Path(platformdirs.user_cache_dir("memory-actors"), "models"))
        return chosen.expanduser()
    raise ModelInstallError(
        "There is no home directory to keep the embedding model in: set "
        f"{MODEL_DIR_VARIABLE} to a directory you may write to, or one that has the models."
    )


def model_dir(precision: Precision, cache_dir: Path | None = None) -> Path:
    """Return where the model of this precision belongs, installed or not."""
    if precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise InvalidInputError(f"No such precision: {precision!r}. Use one of: {known}.")
    return models_dir(cache_dir) / f"{NAME}-{precision}-v{GRAPH_VERSION}"


def model_path(precision: Precision = "int8", cache_dir: Path | None = None) -> Path | None:
    """Return the directory of an installed and intact model, else None.

    Reads the whole model to check its SHA-256: 23 MB take about 20 ms.
    """
    folder = model_dir(precision, cache_dir)
    try:
        manifest = read_manifest(folder)
        intact = manifest == describe(folder, precision)
    except (OSError, ValueError):
        return None
    return folder if intact and manifest.tokenizer_sha256 == TOKENIZER_SHA256 else None


def is_there(precision: Precision, cache_dir: Path | None = None) -> bool:
    """Say whether a model is installed, whole or damaged: whoever loads it checks that."""
    return (model_dir(precision, cache_dir) / MANIFEST_FILE).exists()


def describe(folder: Path, precision: Precision) -> ModelManifest:
    """Return the manifest that fits the files in `folder`, if this version built them."""
    graph = folder / GRAPH_FILE
    return ModelManifest(
        name=NAME,
        precision=precision,
        graph_version=GRAPH_VERSION,
        dimension=DIMENSION,
        tokens_max=TOKENS_MAX,
        weights_sha256=WEIGHTS_SHA256,
        tokenizer_sha256=sha256(folder / TOKENIZER_FILE),
        onnx_sha256=sha256(graph),
        onnx_size_bytes=graph.stat().st_size,
    )


def read_manifest(folder: Path) -> ModelManifest:
    """Read the manifest. Raises OSError or ValueError."""
    return msgspec.json.decode((folder / MANIFEST_FILE).read_bytes(), type=ModelManifest)


def write_manifest(folder: Path, manifest: ModelManifest) -> None:
    """Write the manifest, laid out for people to read."""
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    (folder / MANIFEST_FILE).write_bytes(text + b"\n")


def sha256(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

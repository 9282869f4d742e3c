"""Which model this is: its name, its pinned files and its sizes, in one place."""

from typing import Final, Literal, TypeAlias, get_args

Precision: TypeAlias = Literal["int8", "fp32"]
"""How weights are stored and multiplied: int8 is a quarter of the size and twice as fast."""

NAME: Final = "all-MiniLM-L6-v2"
DIMENSION: Final = 384
TOKENS_MAX: Final = 256
"""Texts are cut here, as the model was trained: [CLS] and [SEP] count."""

GRAPH_VERSION: Final = 1
"""Raise it with any change of the graph that changes a vector: caches and indexes then rebuild."""

PRECISIONS: Final[tuple[Precision, ...]] = get_args(Precision)

UNKNOWN_TOKEN_ID: Final = 100
"""[UNK] in the published vocabulary."""

WEIGHTS_FILE: Final = "model.safetensors"
TOKENIZER_FILE: Final = "tokenizer.json"

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

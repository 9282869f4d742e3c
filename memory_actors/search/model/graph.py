"""The encoder as an ONNX graph, built from its published weights.

Theory. all-MiniLM-L6-v2 is a BERT encoder: six layers, twelve heads, 384 wide. A text of `t` tokens
becomes a `[t, 384]` matrix of embeddings; each layer mixes the tokens (attention), then each token
by itself (a two-layer network), both with a residual and a layer norm behind them. The vector of
the text is the mean of the last layer's token states, scaled to length 1.

Four rewrites make the graph smaller without changing a result:

- token types are always zero, so their one row is folded into the position table;
- texts end at 256 tokens, so the other half of the position table is left out;
- query, key and value are one matrix product, split afterwards;
- attention's 1/sqrt(head width) is folded into the query's weights.

Inputs: `input_ids` and `attention_mask`, int64 `[batch, tokens]`. Outputs: `pooled`, float32
`[batch, 384]`, rows of length 1, and `token_states`, float32 `[batch, tokens, 384]`. A row whose
mask is all zero gives a zero vector: nothing divides by zero.

int8. Weights become int8 with one scale for each output column, activations become uint8 with one
scale for each token, computed on the fly; the products are summed in int32 and scaled back. Stock
dynamic quantisation takes one scale for the whole activation tensor instead, so a text's vector
depends on its batch: the same text alone and in a batch of 32 came out at cosine 0.971, mean 0.991.
With a scale for each token a token never sees its neighbours: 0.99999, and closer to fp32 (mean
0.996 against 0.993) at the same speed.

x86 without VNNI multiplies uint8 by int8 in pairs and sums each pair in 16 bits that saturate.
Unguarded, that put an error of 2 % (worst 6 %) on each product, so the same text would get another
vector on an older machine. Column scales are chosen so that no pair can overflow: every machine
computes the same integers.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from memory_actors.search.model.installed import DIMENSION, TOKENS_MAX, Precision
from memory_actors.search.model.onnx_file import (
    FLOAT,
    INT64,
    Array,
    Attribute,
    OnnxNode,
    Port,
    read_constants,
    write_model,
)

_WORDS = "words"
_LAYERS = 6
_HEADS = 12
_HEAD_WIDTH = DIMENSION // _HEADS
_LAYER_NORM_EPSILON = 1e-12
_OPSET = 20  # the first with Gelu
_IR_VERSION = 10  # what opset 20 needs; a newer one would shut out older runtimes
_MASKED = -1e9  # added to a score, exp() of it is 0; a row of nothing else still stays finite
_TINY = 1e-9  # below any mask sum, vector length or activation that occurs
_INT8_MAX = 127
_UINT8_ZERO = 128  # the code of 0.0 in an activation: codes 1 to 255 stand for -127 to 127

Floats = npt.NDArray[np.float32]
Weights = Mapping[str, Floats]


def build_graph(weights_file: Path, onnx_file: Path, precision: Precision) -> None:
    """Write the graph for the weights in `weights_file` to `onnx_file`.

    Raises OSError, KeyError or ValueError if the files or the weights are not as expected.
    """
    build = _Builder(read_weights(weights_file), precision)
    bias, value = _score_bias(build), _embeddings(build)
    for index in range(_LAYERS):
        output = "token_states" if index == _LAYERS - 1 else ""
        value = _layer(build, f"encoder.layer.{index}", value, bias, output)
    _pooled(build, value)
    ids, mask = (Port(name, INT64, ["batch", "tokens"]) for name in ("input_ids", "attention_mask"))
    pooled = Port("pooled", FLOAT, ["batch", DIMENSION])
    states = Port("token_states", FLOAT, ["batch", "tokens", DIMENSION])
    write_model(
        onnx_file,
        build.nodes,
        build.constants,
        [ids, mask],
        [pooled, states],
        opset=_OPSET,
        ir_version=_IR_VERSION,
    )


def read_weights(file: Path) -> Weights:
    """Return the weights of a file of safetensors: the size of a JSON header, that, and the data.

    Raises OSError, KeyError or ValueError if it is not one of float32 weights.
    """
    data = file.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    weights = {}
    for name, one in header.items():
        if name != "__metadata__" and one["dtype"] == "F32":  # position numbers are of another type
            start, end = one["data_offsets"]
            numbers = np.frombuffer(data[begin + start : begin + end], "<f4")
            weights[name] = numbers.reshape(one["shape"])
    return weights


def word_vectors(onnx_file: Path) -> Floats:
    """Return a graph's word vector of each token, float32 `[vocabulary, 384]`.

    Raises OSError, KeyError or ValueError if it is not one that `build_graph` wrote.
    """
    constants = read_constants(onnx_file)
    if _WORDS in constants:
        return constants[_WORDS]
    vectors: Floats = constants[f"{_WORDS}.codes"] * constants[f"{_WORDS}.scales"]
    return vectors


class _Builder:
    """Collects nodes and constants; each method returns the name of the value it adds."""

    def __init__(self, weights: Weights, precision: Precision) -> None:
        self.weights = weights
        self.precision = precision
        self.nodes: list[OnnxNode] = []
        self.constants: dict[str, Array] = {}

    def op(self, kind: str, *inputs: str, output: str = "", **attributes: Attribute) -> str:
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(OnnxNode(kind, inputs, [output], attributes))
        return output

    def split(self, value: str, parts: int) -> list[str]:
        outputs = [f"Split_{len(self.nodes)}_{part}" for part in range(parts)]
        self.nodes.append(OnnxNode("Split", [value], outputs, {"axis": -1, "num_outputs": parts}))
        return outputs

    def constant(self, name: str, array: Array) -> str:
        self.constants.setdefault(name, np.asarray(array, order="C"))
        return name

    def number(self, value: float) -> str:
        return self.constant(f"float_{value}", np.array(value, dtype=np.float32))

    def ints(self, *values: int) -> str:
        name = "ints_" + "_".join(str(value) for value in values)
        return self.constant(name, np.array(values, dtype=np.int64))

    def lookup(self, name: str, table: Floats, rows: str) -> str:
        """Rows of `table`, which int8 keeps as whole numbers with one scale for each row."""
        if self.precision == "fp32":
            return self.op("Gather", self.constant(name, table), rows)
        codes, scales = _quantise(table, np.abs(table).max(axis=1, keepdims=True))
        found = self.op("Gather", self.constant(f"{name}.codes", codes), rows)
        scale = self.op("Gather", self.constant(f"{name}.scales", scales), rows)
        return self.op("Mul", self.op("Cast", found, to=FLOAT), scale)

    def linear(self, value: str, name: str, matrix: Floats, bias: Floats) -> str:
        if self.precision == "int8":
            product = self._product_int8(value, name, matrix)
        else:
            product = self.op("MatMul", value, self.constant(f"{name}.weight", matrix))
        return self.op("Add", product, self.constant(f"{name}.bias", bias))

    def dense(self, value: str, name: str) -> str:
        return self.linear(value, name, self.weights[f"{name}.weight"].T, self.bias(name))

    def bias(self, name: str) -> Floats:
        return self.weights[f"{name}.bias"]

    def layer_norm(self, value: str, name: str, output: str = "") -> str:
        scale = self.constant(f"{name}.weight", self.weights[f"{name}.weight"])
        bias = self.constant(f"{name}.bias", self.bias(name))
        return self.op(
            "LayerNormalization", value, scale, bias, output=output,
            axis=-1, epsilon=_LAYER_NORM_EPSILON,
        )  # fmt: skip

    def _product_int8(self, value: str, name: str, matrix: Floats) -> str:
        weight_codes, column_scales = _quantise(matrix, _column_limits(matrix))
        codes, token_scales = self._quantise_tokens(value)
        zero = self._zero_point()
        product = self.op(
            "MatMulInteger", codes, self.constant(f"{name}.codes", weight_codes), zero
        )
        product = self.op("Cast", product, to=FLOAT)
        product = self.op("Mul", product, token_scales)
        return self.op("Mul", product, self.constant(f"{name}.scales", column_scales))

    def _quantise_tokens(self, value: str) -> tuple[str, str]:
        """Return uint8 codes of `value` and the scale of each token, `[b, t, 1]`."""
        loudest = self.op("ReduceMax", self.op("Abs", value), self.ints(-1), keepdims=1)
        loudest = self.op("Max", loudest, self.number(_TINY))
        scales = self.op("Mul", loudest, self.number(1 / _INT8_MAX))
        unit = self.op("Div", value, scales)
        codes = self.op("QuantizeLinear", unit, self.number(1.0), self._zero_point())
        return codes, scales

    def _zero_point(self) -> str:
        return self.constant("uint8_zero", np.array(_UINT8_ZERO, dtype=np.uint8))


def _quantise(array: Floats, limits: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return int8 codes and scales: `codes * scales` is near `array`, and `limits` map to 127."""
    scales = (np.maximum(limits, _TINY) / _INT8_MAX).astype(np.float32)
    return np.round(array / scales).astype(np.int8), scales


def _column_limits(matrix: Floats) -> Floats:
    """Return for each column the largest sum of a neighbouring pair's values of one sign.

    Mapping it to 127 bounds a pair of codes by 128 after rounding, and a pair of products by
    255 * 128 = 32,640, which 16 bits hold (see above). It is never below the largest value.
    """
    pairs = matrix.reshape(-1, 2, matrix.shape[1])
    positive = np.maximum(pairs, 0).sum(axis=1).max(axis=0)
    negative = np.maximum(-pairs, 0).sum(axis=1).max(axis=0)
    limits: Floats = np.maximum(positive, negative)
    return limits


def _score_bias(build: _Builder) -> str:
    mask = build.op("Cast", "attention_mask", to=FLOAT)
    padding = build.op("Sub", build.number(1.0), mask)
    bias = build.op("Mul", padding, build.number(_MASKED))
    return build.op("Unsqueeze", bias, build.ints(1, 2))


def _embeddings(build: _Builder) -> str:
    prefix, weights = "embeddings", build.weights
    types = weights[f"{prefix}.token_type_embeddings.weight"][0]
    table = weights[f"{prefix}.position_embeddings.weight"][:TOKENS_MAX] + types
    tokens = build.op("Shape", "input_ids", start=1, end=2)
    positions = build.op("Slice", build.constant("positions", table), build.ints(0), tokens)
    words = build.lookup(_WORDS, weights[f"{prefix}.word_embeddings.weight"], "input_ids")
    return build.layer_norm(build.op("Add", words, positions), f"{prefix}.LayerNorm")


def _layer(build: _Builder, prefix: str, value: str, bias: str, output: str) -> str:
    mixed = build.dense(_attention(build, prefix, value, bias), f"{prefix}.attention.output.dense")
    mixed = build.op("Add", mixed, value)
    mixed = build.layer_norm(mixed, f"{prefix}.attention.output.LayerNorm")
    wide = build.op("Gelu", build.dense(mixed, f"{prefix}.intermediate.dense"))
    narrow = build.op("Add", build.dense(wide, f"{prefix}.output.dense"), mixed)
    return build.layer_norm(narrow, f"{prefix}.output.LayerNorm", output)


def _attention(build: _Builder, prefix: str, value: str, bias: str) -> str:
    joint = build.linear(value, f"{prefix}.qkv", *_query_key_value(build.weights, prefix))
    query, key, content = build.split(joint, 3)
    query = _heads(build, query, [0, 2, 1, 3])
    key = _heads(build, key, [0, 2, 3, 1])
    content = _heads(build, content, [0, 2, 1, 3])
    scores = build.op("Add", build.op("MatMul", query, key), bias)
    mixed = build.op("MatMul", build.op("Softmax", scores, axis=-1), content)
    mixed = build.op("Transpose", mixed, perm=[0, 2, 1, 3])
    return build.op("Reshape", mixed, build.ints(0, 0, DIMENSION))


def _query_key_value(weights: Weights, prefix: str) -> tuple[Floats, Floats]:
    """Return the three projections as one `[384, 1152]` matrix and its bias."""
    scales = {"query": 1 / math.sqrt(_HEAD_WIDTH), "key": 1.0, "value": 1.0}
    parts = {f"{prefix}.attention.self.{name}": scale for name, scale in scales.items()}
    matrices = [weights[f"{name}.weight"].T * scale for name, scale in parts.items()]
    biases = [weights[f"{name}.bias"] * scale for name, scale in parts.items()]
    return np.concatenate(matrices, axis=1), np.concatenate(biases)


def _heads(build: _Builder, value: str, order: list[int]) -> str:
    split = build.op("Reshape", value, build.ints(0, 0, _HEADS, _HEAD_WIDTH))
    return build.op("Transpose", split, perm=order)


def _pooled(build: _Builder, states: str) -> str:
    mask = build.op("Cast", "attention_mask", to=FLOAT)
    mask = build.op("Unsqueeze", mask, build.ints(2))
    total = build.op("ReduceSum", build.op("Mul", states, mask), build.ints(1), keepdims=0)
    count = build.op("ReduceSum", mask, build.ints(1), keepdims=0)
    mean = build.op("Div", total, build.op("Max", count, build.number(_TINY)))
    length = build.op("ReduceL2", mean, build.ints(1), keepdims=1)
    length = build.op("Max", length, build.number(_TINY))
    return build.op("Div", mean, length, output="pooled")

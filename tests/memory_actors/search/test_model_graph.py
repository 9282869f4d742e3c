"""The graph: what it promises to every machine and every runtime."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import load_file

from memory_actors.search.model import graph
from memory_actors.search.model.installed import WEIGHTS_FILE, Precision
from memory_actors.search.model.onnx_file import FLOAT, Port, write_model


@pytest.mark.parametrize("seed", range(3))
def test_neighbouring_int8_weights_cannot_overflow_16_bits(seed: int) -> None:
    """x86 without VNNI adds `uint8 * int8` in neighbouring pairs, in 16 bits that saturate."""
    rng = np.random.default_rng(seed)
    matrix = rng.standard_t(3, size=(384, 64)).astype(np.float32)  # has far outliers
    codes, _ = graph._quantise(matrix, graph._column_limits(matrix))
    pairs = codes.astype(np.int32).reshape(192, 2, 64)
    assert (255 * np.maximum(pairs, 0).sum(axis=1)).max() <= 32_767
    assert (255 * np.minimum(pairs, 0).sum(axis=1)).min() >= -32_768


@pytest.mark.parametrize(("precision", "error_max"), [("fp32", 1e-4), ("int8", 0.5)])
def test_a_linear_map_survives_a_token_of_zeros(
    precision: Precision, error_max: float, tmp_path: Path
) -> None:
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(384, 32)).astype(np.float32)
    bias = rng.normal(size=32).astype(np.float32)
    value = rng.normal(size=(1, 3, 384)).astype(np.float32)
    value[0, 0] *= 1000  # a loud token must not drown its neighbours
    value[0, 1] = 0
    result = _run_linear(tmp_path / "linear.onnx", precision, matrix, bias, value)
    np.testing.assert_allclose(result[0, 1], bias, atol=1e-6)
    np.testing.assert_allclose(result[0, 2], value[0, 2] @ matrix + bias, atol=error_max)


def _run_linear(
    path: Path, precision: Precision, matrix: graph.Floats, bias: graph.Floats, value: graph.Floats
) -> graph.Floats:
    build = graph._Builder({}, precision)
    output = build.linear("value", "linear", matrix, bias)
    ports = [Port("value", FLOAT, ["b", "t", 384]), Port(output, FLOAT, ["b", "t", 32])]
    opset = graph._OPSET
    write_model(
        path, build.nodes, build.constants, ports[:1], ports[1:], opset=opset, ir_version=10
    )
    result: graph.Floats = ReferenceEvaluator(onnx.load(path)).run(None, {"value": value})[0]
    return result


def test_the_built_graph_runs_on_the_oldest_runtime_supported(model_folder: Path) -> None:
    """Version 1.20 of the runtime reads format 10 and operator set 20 of the standard domain."""
    model = onnx.load(str(model_folder / "model.onnx"))
    assert model.ir_version <= 10
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 20)]


def test_the_built_graph_is_one_that_the_checker_of_onnx_accepts(model_folder: Path) -> None:
    onnx.checker.check_model(onnx.load(model_folder / "model.onnx"), full_check=True)


def test_weights_are_read_as_safetensors_wrote_them(published: Path) -> None:
    expected = load_file(published / WEIGHTS_FILE)
    weights = graph.read_weights(published / WEIGHTS_FILE)
    assert weights.keys() == {name for name, one in expected.items() if one.dtype == np.float32}
    assert all(np.array_equal(weights[name], expected[name]) for name in weights)

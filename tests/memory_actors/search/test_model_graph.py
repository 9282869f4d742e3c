"""The graph: what it promises to every machine and every runtime."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import load_file

from memory_actors.search.model import graph
from memory_actors.search.model.installed import WEIGHTS_FILE, Precision
from memory_actors.search.model.onnx_file import FLOAT, Port, read_constants, write_model


@pytest.mark.parametrize("seed", range(3))
def test_neighbouring_int8_weights_cannot_overflow_16_bits(seed: int) -> None:
    """x86 without VNNI adds `uint8 * int8` in neighbouring pairs, in 16 bits that saturate."""
    rng = np.random.default_rng(seed)
    matrix = rng.standard_t(3, size=(384, 64)).astype(np.float32)  # has far outliers
    codes, _ = graph._quantise(matrix, graph._column_limits(matrix))
    pairs = codes.astype(np.int32).reshape(192, 2, 64)
    assert (255 * np.maximum(pairs, 0).sum(axis=1)).max() <= 32_767
    assert (255 * np.minimum(pairs, 0).sum(axis=1)).min() >= -32_768


def test_int8_codes_stand_for_the_weights() -> None:
    matrix = np.random.default_rng(1).normal(size=(384, 64)).astype(np.float32)
    codes, scales = graph._quantise(matrix, graph._column_limits(matrix))
    assert np.abs(codes * scales - matrix).max() <= scales.max() / 2 + 1e-6
    assert np.abs(codes.astype(np.int32)).max() > 80  # most of the range is in use


@pytest.mark.parametrize(("precision", "error_max"), [("fp32", 1e-4), ("int8", 0.5)])
def test_a_linear_map_survives_a_token_of_zeros(
    precision: Precision, error_max: float, tmp_path: Path
) -> None:
    """A linear map multiplies, and a token of zeros is no division by zero."""
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


def test_a_column_of_zeros_is_no_division_by_zero() -> None:
    matrix = np.zeros((4, 2), dtype=np.float32)
    codes, scales = graph._quantise(matrix, graph._column_limits(matrix))
    assert not codes.any()
    assert np.isfinite(scales).all()


def test_constants_keep_their_shape() -> None:
    """A scalar that grows an axis would be no scalar to the runtime."""
    build = graph._Builder({}, "fp32")
    build.number(0.5)
    (constant,) = build.constants.values()
    assert constant.shape == ()


def test_the_built_graph_runs_on_the_oldest_runtime_supported(model_folder: Path) -> None:
    """Version 1.20 of the runtime reads format 10 and operator set 20 of the standard domain."""
    model = onnx.load(str(model_folder / "model.onnx"))
    assert model.ir_version <= 10
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 20)]


def test_the_built_graph_is_one_that_the_checker_of_onnx_accepts(model_folder: Path) -> None:
    onnx.checker.check_model(onnx.load(model_folder / "model.onnx"), full_check=True)


def test_the_constants_of_a_graph_are_read_as_they_were_written(model_folder: Path) -> None:
    path = model_folder / "model.onnx"
    there = {one.name: numpy_helper.to_array(one) for one in onnx.load(path).graph.initializer}
    read = read_constants(path)
    assert read.keys() == there.keys()
    for name, array in read.items():
        assert array.dtype == there[name].dtype
        np.testing.assert_array_equal(array, there[name])


@pytest.mark.parametrize("data", [b"", b"no model at all", b"\x3a\xff\xff\xff\x0f", b"\x3b"])
def test_what_is_no_model_has_no_constants(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="no ONNX file"):
        read_constants(path)


def test_weights_are_read_as_safetensors_wrote_them(published: Path) -> None:
    expected = load_file(published / WEIGHTS_FILE)
    weights = graph.read_weights(published / WEIGHTS_FILE)
    assert weights.keys() == {name for name, one in expected.items() if one.dtype == np.float32}
    assert all(np.array_equal(weights[name], expected[name]) for name in weights)

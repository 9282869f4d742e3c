"""ONNX files, as far as this model needs them: nodes, constants, their names and places.

An ONNX file is a message of Protocol Buffers: fields one behind another, each a number and a value
that is an integer, four bytes, or bytes with their length, which may be a message again. That is
all there is to it, and spares every user a package of 33 MB that builds one file.

The numbers of the fields are those of `onnx.proto`, whose names stand beside them.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Attribute: TypeAlias = float | int | Sequence[int]

FLOAT, INT64 = 1, 7
TYPES: Final[Mapping[int, np.dtype[np.generic]]] = {
    FLOAT: np.dtype("<f4"), 2: np.dtype("u1"), 3: np.dtype("i1"), 6: np.dtype("<i4"),
    INT64: np.dtype("<i8"),
}  # fmt: skip
_NUMBERS: Final = {kind: number for number, kind in TYPES.items()}

_INTEGER, _BYTES, _FOUR_BYTES = 0, 2, 5
_GRAPH, _INITIALIZER = 7, 5
_DIMS, _DATA_TYPE, _NAME, _RAW_DATA = 1, 2, 8, 9
_EXTERNAL_DATA, _DATA_LOCATION, _EXTERNAL = 13, 14, 1

LEFT_BYTES_MIN: Final = 4096
"""Smaller constants stay in the model: each would be a page to map."""


class OnnxNode(NamedTuple):
    """An operator with the names of what goes in and comes out."""

    kind: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    attributes: Mapping[str, Attribute]


class Port(NamedTuple):
    """An input or output of a graph; a dimension is its size, or a name where that is open."""

    name: str
    type: int
    shape: Sequence[str | int]


def write_model(
    path: Path,
    nodes: Iterable[OnnxNode],
    constants: Mapping[str, Array],
    inputs: Iterable[Port],
    outputs: Iterable[Port],
    *,
    opset: int,
    ir_version: int,
) -> None:
    """Write a model of the standard operators. :raises OSError: the file cannot be written."""
    graph = b"".join([
        *(_field(1, _node(node)) for node in nodes),  # node
        _field(2, path.stem),  # name
        *(_field(_INITIALIZER, _tensor(name, array)) for name, array in constants.items()),
        *(_field(11, _port(port)) for port in inputs),  # input
        *(_field(12, _port(port)) for port in outputs),  # output
    ])  # fmt: skip
    operators = _field(8, _field(1, "") + _field(2, opset))  # opset_import: domain, version
    path.write_bytes(_field(1, ir_version) + _field(_GRAPH, graph) + operators)


def read_constants(path: Path) -> dict[str, Array]:
    """Return the constants of a model by name. :raises OSError, ValueError: it cannot be read."""
    try:
        graph = dict(_fields(path.read_bytes()))[_GRAPH]
        tensors = [value for number, value in _fields(graph) if number == _INITIALIZER]
        return dict(map(_array, tensors))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no ONNX file") from error


def without_constants(path: Path) -> bytes:
    """Return a model without its large constants: it says where they are in the file it comes from.

    A runtime maps them then. Read with the model they are copied twice, and words of the vocabulary
    that no text has take memory, too. The file must stay as it is while the model is used.

    :raises OSError, ValueError: it cannot be read.
    """
    file = np.memmap(path, np.uint8, "r")
    try:
        return b"".join(
            _field(number, _pointing(value, file, path.name) if number == _GRAPH else value)
            for number, value in _fields(file.data)
        )
    except (IndexError, TypeError) as error:
        raise ValueError(f"{path} is no ONNX file") from error


# --- messages


def _pointing(graph: memoryview, file: npt.NDArray[np.uint8], name: str) -> bytes:
    """Return a graph whose large constants are places in a file, of which it is a part."""
    parts = []
    for number, value in _fields(graph):
        if number == _INITIALIZER and len(value) >= LEFT_BYTES_MIN:
            value = b"".join(
                _place(field, file, name) if key == _RAW_DATA else _field(key, field)
                for key, field in _fields(value)
            )
        parts.append(_field(number, value))
    return b"".join(parts)


def _place(data: memoryview, file: npt.NDArray[np.uint8], name: str) -> bytes:
    """Return fields that say where in a file some data is: its entries are a key and a value."""
    start = _address(np.frombuffer(data, np.uint8)) - _address(file)
    place = {"location": name, "offset": str(start), "length": str(len(data))}
    entries = [
        _field(_EXTERNAL_DATA, _field(1, key) + _field(2, value)) for key, value in place.items()
    ]
    return b"".join(entries) + _field(_DATA_LOCATION, _EXTERNAL)


def _address(array: npt.NDArray[np.uint8]) -> int:
    return int(array.__array_interface__["data"][0])


def _node(node: OnnxNode) -> bytes:
    attributes = [_attribute(name, value) for name, value in node.attributes.items()]
    return b"".join([
        *(_field(1, name) for name in node.inputs),  # input
        *(_field(2, name) for name in node.outputs),  # output
        _field(4, node.kind),  # op_type
        *(_field(5, attribute) for attribute in attributes),  # attribute
    ])  # fmt: skip


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _field(1, name) + _field(2, value) + _field(20, 1)  # f, type FLOAT
    if isinstance(value, int):
        return _field(1, name) + _field(3, value) + _field(20, 2)  # i, type INT
    ints = b"".join(_field(8, one) for one in value)
    return _field(1, name) + ints + _field(20, 7)  # ints, type INTS


def _tensor(name: str, array: Array) -> bytes:
    return b"".join([
        *(_field(_DIMS, size) for size in array.shape),
        _field(_DATA_TYPE, _NUMBERS[array.dtype]),
        _field(_NAME, name),
        _field(_RAW_DATA, array.tobytes()),
    ])  # fmt: skip


def _array(tensor: bytes) -> tuple[str, Array]:
    shape, found = [], dict[int, Any]()
    for number, value in _fields(tensor):
        if number == _DIMS:
            shape.append(value)
        else:
            found[number] = value
    array = np.frombuffer(found[_RAW_DATA], TYPES[found[_DATA_TYPE]]).reshape(shape)
    return bytes(found[_NAME]).decode(), array


def _port(port: Port) -> bytes:
    sizes = [_field(1 if isinstance(size, int) else 2, size) for size in port.shape]
    shape = b"".join(_field(1, size) for size in sizes)  # dim: dim_value or dim_param
    tensor = _field(1, port.type) + _field(2, shape)  # elem_type, shape
    return _field(1, port.name) + _field(2, _field(1, tensor))  # name, type: tensor_type


# --- fields


def _field(number: int, value: bytes | memoryview | str | float) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3 | _INTEGER) + _varint(value & (1 << 64) - 1)
    if isinstance(value, float):
        return _varint(number << 3 | _FOUR_BYTES) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """Return an integer as groups of seven bits, lowest first; the top bit says that more come."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _fields(data: bytes | memoryview) -> Iterator[tuple[int, Any]]:
    view, place = memoryview(data), 0
    while place < len(view):
        tag, place = _read_varint(view, place)
        number, kind = tag >> 3, tag & 7
        if kind == _INTEGER:
            value, place = _read_varint(view, place)
            yield number, value
            continue
        size = 4
        if kind == _BYTES:
            size, place = _read_varint(view, place)
        elif kind != _FOUR_BYTES:
            raise ValueError(f"a field of kind {kind}")
        if place + size > len(view):
            raise ValueError("a field is cut short")
        yield number, view[place : place + size]
        place += size


def _read_varint(view: memoryview, place: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = view[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place

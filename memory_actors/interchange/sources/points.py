"""Points as qdrant-client stores them, read as plain data.

A stored point is a program for a stack machine, made by Python's `pickle`. The reader does not use
that module: it knows the opcodes that texts, numbers, lists and objects are written with, and
refuses all others. A class is a name of `qdrant_client`; nothing is imported, and nothing is
called.

Memory is bounded before it is taken: a step makes one part at most, a text is no longer than what
is left of the blob, and steps are counted. A dict takes texts as names, so hashing ends. One part
may occur in many places of the result, so code that walks it must count the parts it meets.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

STEPS_MAX: Final = 200_000
CONSTANTS: Final[Mapping[int, Any]] = {ord("N"): None, 0x88: True, 0x89: False}
EMPTY: Final[Mapping[int, Callable[[], Any]]] = {
    ord("}"): dict, ord("]"): list, ord(")"): tuple, 0x8F: list,
}  # fmt: skip
"""A set becomes a list: hashing what is in it might not end."""
NUMBERS: Final[Mapping[int, struct.Struct]] = {
    code: struct.Struct(form)
    for code, form in {
        ord("K"): "<B", ord("M"): "<H", ord("J"): "<i", ord("G"): ">d",
    }.items()
}  # fmt: skip
TEXTS: Final[Mapping[int, int]] = {0x8C: 1, ord("X"): 4, 0x8D: 8}
"""By opcode, the bytes of the length."""
BLOBS: Final[Mapping[int, int]] = {ord("C"): 1, ord("B"): 4, 0x8E: 8}
TUPLES: Final[Mapping[int, int]] = {0x85: 1, 0x86: 2, 0x87: 3}
SKIPPED: Final[Mapping[int, int]] = {0x80: 1, 0x95: 8}
"""The version of the program, and the length of a part of it."""
KEPT: Final[Mapping[int, int]] = {ord("q"): 1, ord("r"): 4, 0x94: 0}
GOT: Final[Mapping[int, int]] = {ord("h"): 1, ord("j"): 4}


class _Object:
    """An object of a class of qdrant-client."""

    def __init__(self) -> None:
        self.state: Any = None


class _Class:
    """A class, which is no more than its name."""

    def __init__(self, module: Any, name: Any):
        if not (isinstance(module, str) and module.startswith("qdrant_client.")):
            raise TypeError(f"{module!r:.60}.{name!r:.60} is no part of a point")


def fields_of(blob: object) -> dict[str, Any]:
    """Return the fields of a stored point.

    :raises ValueError, TypeError, LookupError, OverflowError: it is no point, or too large.
    """
    if not isinstance(blob, bytes):
        raise TypeError("a point must be a blob")
    point = _Machine(blob).run()
    state = point.state if isinstance(point, _Object) else None
    fields = state.get("__dict__", state) if isinstance(state, dict) else None
    if not isinstance(fields, dict) or not isinstance(fields.get("payload"), dict):
        raise TypeError("a point must have a payload")
    return fields


class _Machine:
    """Runs one program. The methods are its opcodes, by table."""

    def __init__(self, program: bytes):
        self._program, self._at = program, 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._kept: dict[int, Any] = {}

    def run(self) -> Any:
        for _ in range(STEPS_MAX):
            code = self._number(1)
            if code == ord("."):
                return self._stack.pop()
            self._step(code)
        raise ValueError("a point takes too many steps")

    def _step(self, code: int) -> None:
        stack = self._stack
        if code in CONSTANTS:
            stack.append(CONSTANTS[code])
        elif code in EMPTY:
            stack.append(EMPTY[code]())
        elif code in NUMBERS:
            stack.append(NUMBERS[code].unpack(self._take(NUMBERS[code].size))[0])
        elif code in TEXTS:
            text = self._take(self._number(TEXTS[code]))
            stack.append(text.decode("utf-8", "surrogatepass"))
        elif code in BLOBS:
            stack.append(self._take(self._number(BLOBS[code])))
        elif code in TUPLES:
            stack.append(tuple(self._popped(len(stack) - TUPLES[code])))
        elif code in SKIPPED:
            self._take(SKIPPED[code])
        elif code in KEPT:
            place = self._number(KEPT[code]) if KEPT[code] else len(self._kept)
            self._kept[place] = stack[-1]
        elif code in GOT:
            stack.append(self._kept[self._number(GOT[code])])
        else:
            self._others[code](self)

    def _take(self, count: int) -> bytes:
        taken = self._program[self._at : self._at + count]
        if len(taken) < count:
            raise ValueError("a point ends early")
        self._at += count
        return taken

    def _number(self, count: int) -> int:
        return int.from_bytes(self._take(count), "little")

    def _line(self) -> str:
        end = self._program.index(b"\n", self._at)
        line = self._take(end - self._at + 1)
        return line[:-1].decode()

    def _popped(self, since: int) -> list[Any]:
        if since < 0:
            raise ValueError("a point takes from an empty stack")
        popped = self._stack[since:]
        del self._stack[since:]
        return popped

    def _mark(self) -> None:
        self._marks.append(len(self._stack))

    def _tuple(self) -> None:
        self._stack.append(tuple(self._popped(self._marks.pop())))

    def _integer(self) -> None:
        self._stack.append(int.from_bytes(self._take(self._number(1)), "little", signed=True))

    def _global(self) -> None:
        self._stack.append(_Class(self._line(), self._line()))

    def _stack_global(self) -> None:
        self._stack.append(_Class(*self._popped(len(self._stack) - 2)))

    def _new(self) -> None:
        kind, _ = self._popped(len(self._stack) - 2)
        if not isinstance(kind, _Class):
            raise TypeError("a point makes an object of no class")
        self._stack.append(_Object())

    def _build(self) -> None:
        made, state = self._popped(len(self._stack) - 2)
        if not isinstance(made, _Object):
            raise TypeError("a point fills what is no object")
        made.state = state
        self._stack.append(made)

    def _extend(self, since: int) -> None:
        items = self._popped(since)
        if not isinstance(into := self._stack[-1], list):
            raise TypeError("a point adds to what is no list")
        into.extend(items)

    def _set(self, since: int) -> None:
        items = self._popped(since)
        if not isinstance(into := self._stack[-1], dict):
            raise TypeError("a point adds names to what is no object")
        if len(items) % 2 or not all(isinstance(name, str) for name in items[::2]):
            raise TypeError("the names of a point must be texts")
        into.update(zip(items[::2], items[1::2], strict=True))

    _others: ClassVar[Mapping[int, Callable[["_Machine"], None]]] = {
        ord("("): _mark,
        ord("t"): _tuple,
        0x8A: _integer,
        ord("c"): _global,
        0x93: _stack_global,
        0x81: _new,
        ord("b"): _build,
        ord("a"): lambda self: self._extend(len(self._stack) - 1),
        ord("e"): lambda self: self._extend(self._marks.pop()),
        0x90: lambda self: self._extend(self._marks.pop()),
        ord("s"): lambda self: self._set(len(self._stack) - 2),
        ord("u"): lambda self: self._set(self._marks.pop()),
    }

"""Points as qdrant-client stores them, read as plain data.

A stored point is a program for a stack machine, made by Python's `pickle`. The reader does not use
that module: it knows the opcodes of texts, numbers, lists and objects, and refuses all others. A
class is a name of `qdrant_client`; nothing is imported, and nothing is called.

A step makes one part at most, a text is no longer than what is left of the blob, and steps are
counted. One part may occur in many places, so code that walks the result must count.
"""

from collections.abc import Callable, Mapping
from io import BytesIO
from pickletools import opcodes
from typing import Any, Final, TypeAlias

OPCODES: Final = {one.code: one for one in opcodes}
STEPS_MAX: Final = 200_000


class _Object:
    def __init__(self) -> None:
        self.state: Any = None


class _Class:
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
    def __init__(self, program: bytes):
        self._program = BytesIO(program)
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.kept: dict[int, Any] = {}

    def run(self) -> object:
        for _ in range(STEPS_MAX):
            opcode = OPCODES[self._program.read(1).decode("latin-1")]
            if opcode.name == "STOP":
                return self.stack.pop()
            step = _STEPS[opcode.name]
            step(self, None if opcode.arg is None else opcode.arg.reader(self._program))
        raise ValueError("a point takes too many steps")

    def push(self, value: object) -> None:
        self.stack.append(value)

    def popped(self, since: int) -> list[object]:
        if since < 0:
            raise ValueError("a point takes from an empty stack")
        popped = self.stack[since:]
        del self.stack[since:]
        return popped

    def last(self, count: int) -> list[object]:
        return self.popped(len(self.stack) - count)

    def marked(self) -> list[object]:
        return self.popped(self.marks.pop())

    def keep(self, place: int | None) -> None:
        self.kept[len(self.kept) if place is None else place] = self.stack[-1]

    def new(self) -> None:
        kind, _ = self.last(2)
        if not isinstance(kind, _Class):
            raise TypeError("a point makes an object of no class")
        self.push(_Object())

    def build(self) -> None:
        made, state = self.last(2)
        if not isinstance(made, _Object):
            raise TypeError("a point fills what is no object")
        made.state = state
        self.push(made)

    def extend(self, items: list[object]) -> None:
        if not isinstance(into := self.stack[-1], list):
            raise TypeError("a point adds to what is no list")
        into.extend(items)

    def set(self, items: list[object]) -> None:
        if not isinstance(into := self.stack[-1], dict):
            raise TypeError("a point adds names to what is no object")
        if len(items) % 2 or not all(isinstance(name, str) for name in items[::2]):
            raise TypeError("the names of a point must be texts")
        into.update(zip(items[::2], items[1::2], strict=True))


_Step: TypeAlias = Callable[[_Machine, Any], object]
_VALUES: Final = (
    "BININT1", "BININT2", "BININT", "LONG1", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE",
    "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8",
)  # fmt: skip
_STEPS: Final[Mapping[str, _Step]] = {
    **dict.fromkeys(_VALUES, _Machine.push),
    **dict.fromkeys(("PROTO", "FRAME"), lambda _machine, _size: None),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT", "MEMOIZE"), _Machine.keep),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda machine, at: machine.push(machine.kept[at])),
    "NONE": _Machine.push,
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_SET": lambda machine, _: machine.push([]),  # hashing what is in it might not end
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "TUPLE1": lambda machine, _: machine.push(tuple(machine.last(1))),
    "TUPLE2": lambda machine, _: machine.push(tuple(machine.last(2))),
    "TUPLE3": lambda machine, _: machine.push(tuple(machine.last(3))),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.marked())),
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "GLOBAL": lambda machine, names: machine.push(_Class(*names.split(" ", 1))),
    "STACK_GLOBAL": lambda machine, _: machine.push(_Class(*machine.last(2))),
    "NEWOBJ": lambda machine, _: machine.new(),
    "BUILD": lambda machine, _: machine.build(),
    "APPEND": lambda machine, _: machine.extend(machine.last(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.marked()),
    "ADDITEMS": lambda machine, _: machine.extend(machine.marked()),
    "SETITEM": lambda machine, _: machine.set(machine.last(2)),
    "SETITEMS": lambda machine, _: machine.set(machine.marked()),
}

"""Packages whose names are imported at first use, so that importing one of them loads nothing else.

The stub of such a package says where its names come from: type checkers read it, and so does the
package itself. `from there import name as name` is how a stub says that a name is public.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn, cast

if TYPE_CHECKING:
    from importlib.abc import ResourceLoader


class LazyPackage(ModuleType):
    """A package that imports a public name when somebody asks for it."""

    __all__: list[str]
    _module_of: dict[str, str]

    def __getattr__(self, name: str) -> object:
        if name not in self._module_of:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value: object
        try:
            with collector_at_rest():
                value = getattr(import_module(self._module_of[name]), name)
        except ImportError as error:
            from eventlog.core.errors import MissingExtra

            if not isinstance(error, MissingExtra):
                raise
            return Missing(name, error)  # `import *`, `help` and `inspect` ask for all names
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute, but let no module hide a public name: the import system would."""
        if not (isinstance(value, ModuleType) and name in self._module_of):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._module_of})


class Missing:
    """Stands for a name whose extra is not installed: using it raises `MissingExtra`."""

    def __init__(self, name: str, error: ImportError):
        self.__name__, self._error = name, error

    def __call__(self, *_: object, **__: object) -> NoReturn:  # noqa: D102
        raise self._error.with_traceback(None)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # a question of `help`, `inspect` or `copy`
            raise AttributeError(name)
        self()

    def __repr__(self) -> str:
        return f"<{self.__name__}: {self._error}>"


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Keep the garbage collector from looking through all that a large import makes.

    It finds nothing there, and took a tenth of the time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def import_lazily(package: str) -> None:
    """Make the package that calls this import its names at first use, from where its stub says."""
    module = sys.modules[package]
    module_of = public_names(package)
    vars(module).update(__all__=sorted(module_of), _module_of=module_of)
    module.__class__ = LazyPackage


def public_names(package: str) -> dict[str, str]:
    """Return the names that the stub of a package makes public, and the module of each.

    The stub has one on a line. This runs at each start of a process, so it is not parsed as Python.
    """
    module = sys.modules[package]
    stub = cast("ResourceLoader", module.__loader__).get_data(f"{module.__file__}i").decode()
    words = (line.split() for line in stub.splitlines() if line.startswith("from "))
    return {name: where for _, where, _, name, *_ in words}

"""The library's loggers. No other file asks structlog for one.

The standard output belongs to the program: what it prints may be read by another one. structlog
prints there until it is configured. So until then lines go to the standard error, as those of the
standard library do; a program that configures structlog has them where it says.

structlog brings rich with it, 5 MB and a tenth of the time that the library takes to import, and
most processes write no line. So it is imported with the first one.
"""

import sys
from collections.abc import Callable
from typing import Any

_configuring: list[Callable[[], None]] = []
"""The function that configures structlog, as long as that is not imported."""


class _Logger:
    """A logger of structlog's, or a plain one where structlog cannot be imported any more.

    A process without a free file descriptor warns of that, and an import would need one.
    """

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, method: str) -> Any:
        try:
            import structlog
        except (ImportError, OSError):
            return self._print
        _configure()
        return getattr(structlog.wrap_logger(_Output(self._name)), method)

    def _print(self, event: str, **values: Any) -> None:
        print(self._name, event, values, file=sys.stderr)


class _Output:
    """The output of a logger, looked up at each line: structlog may be configured late."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, method: str) -> Any:
        import structlog

        if structlog.is_configured():
            return getattr(structlog.get_config()["logger_factory"](self._name), method)
        return getattr(structlog.PrintLogger(sys.stderr), method)


def configure(structlog_configured: Callable[[], None]) -> None:
    """Configure structlog by a function: now if it is imported, else before the first line."""
    _configuring[:] = [structlog_configured]
    if "structlog" in sys.modules:
        _configure()


def _configure() -> None:
    for structlog_configured in _configuring.copy():  # by two threads at once does no harm
        structlog_configured()
    _configuring.clear()


def get_logger(name: str) -> Any:
    """Return a logger of structlog's."""
    return _Logger(name)

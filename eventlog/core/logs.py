"""The library's loggers. No other file asks for one.

If the host has configured structlog, lines are sent to it; else to `logging`, under the same names,
as the host has set that up: its levels, handlers and `logging.disable` hold.

structlog brings rich with it, 5 MB and a tenth of the time that the library takes to import, and
most processes write no line. Only code that configures structlog imports it: a host, or `configure`
with the first line.
"""

import logging
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

_configuring: list[Callable[[], None]] = []
"""The function that configures structlog, as long as that is not imported."""


class _Logger:
    """A logger of structlog's where that is configured, else one of `logging`."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if _configuring:
            _configure()
        structlog = sys.modules.get("structlog")
        if structlog is None or not structlog.is_configured():
            return partial(self._log, method)
        made = structlog.get_config()["logger_factory"](self._name)
        log: Callable[..., Any] = getattr(structlog.wrap_logger(made), method)
        return log

    def _log(self, method: str, event: str, **values: object) -> None:
        said = " ".join(f"{name}={value!r}" for name, value in values.items())
        log = getattr(logging.getLogger(self._name), method)
        log("%s", f"{event} {said}".rstrip())


def configure(structlog_configured: Callable[[], None]) -> None:
    """Configure structlog by a function: now if it is imported, else before the first line."""
    _configuring[:] = [structlog_configured]
    if "structlog" in sys.modules:
        _configure()


def _configure() -> None:
    try:
        for structlog_configured in _configuring.copy():  # by two threads at once does no harm
            structlog_configured()
    except (ImportError, OSError):  # a process without a free file descriptor cannot import it now
        return
    _configuring.clear()


def get_logger(name: str) -> _Logger:
    """Return a logger, whose methods take an event and named values, as those of structlog do."""
    return _Logger(name)

"""The library's loggers. No other file asks structlog for one.

The standard output belongs to the program: what it prints may be read by another one. structlog
prints there until it is configured. So until then lines go to the standard error, as those of the
standard library do; a program that configures structlog has them where it says.
"""

import sys
from typing import Any

import structlog


class _Output:
    """The output of a logger, looked up at each line: structlog may be configured late."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, method: str) -> Any:
        if structlog.is_configured():
            return getattr(structlog.get_config()["logger_factory"](self._name), method)
        return getattr(structlog.PrintLogger(sys.stderr), method)


def get_logger(name: str) -> Any:
    """Return a logger of structlog's."""
    return structlog.wrap_logger(_Output(name))

"""mem0's errors of input, under its names: `ValueError` is the other one that it raises."""

from collections.abc import Mapping
from typing import Any


class MemoryError(Exception):  # noqa: A001 - mem0's own name for it
    """The base of mem0's structured errors."""

    def __init__(
        self,
        message: str,
        error_code: str,
        details: Mapping[str, Any] | None = None,
        suggestion: str | None = None,
    ):
        super().__init__(message)
        self.message = message
        self.error_code = error_code
        self.details = dict(details or {})
        self.suggestion = suggestion
        self.debug_info: dict[str, Any] = {}


class ValidationError(MemoryError):
    """A scope, a type of memory or messages are not what they must be."""

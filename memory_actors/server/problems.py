"""Answers to requests that fail: problem details (RFC 9457).

A caller gets the library's own message where it says what the caller can change. An internal error
is reported in fixed words, with an id; the log has that id and the kind of error, and neither says
what anybody's memory holds.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from uuid import uuid4

from litestar import Response
from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException, ValidationException

from eventlog import DiskFull, KeyGone, LogClosed, MissingCapability
from eventlog.core.logs import get_logger
from memory_actors.base.errors import (
    AccessDeniedError,
    EmbedderError,
    ExtractorError,
    ForgottenError,
    HeldError,
    InvalidInputError,
    KeyFileError,
    MemoryLimitError,
    MissingExtraError,
    NotFoundError,
    QuotaExceededError,
    StorageFullError,
    UnavailableError,
)
from memory_actors.base.privacy import reason
from memory_actors.sharing.declaration import TYPE_PREFIX, Problem

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 1
OF_A_QUOTA: Final = ("kind", "used", "limit", "unit", "tier")

_logger = get_logger("memory_actors.server")


class _Known(NamedTuple):
    error: type[Exception]
    status: int
    name: str
    title: str
    detail: str | None = None
    """None: the message of the error, which is made for callers."""


_KNOWN: Final = (
    _Known(QuotaExceededError, 409, "quota-exceeded", "Quota exceeded"),
    _Known(ForgottenError, 409, "forgotten", "Forgotten"),
    _Known(InvalidInputError, 400, "invalid-input", "Invalid input"),
    _Known(AccessDeniedError, 403, "forbidden", "Forbidden"),
    _Known(NotFoundError, 404, "not-found", "Not found"),
    _Known(HeldError, 409, "held", "Under a legal hold"),
    _Known(
        MemoryLimitError, 503, "memory-limit", "Memory limit reached",
        "The server holds as much memory as it may: writes are refused, reads and deletes work. "
        "Try again later.",
    ),
    _Known(
        StorageFullError, 503, "storage-full", "Storage full",
        "The server's storage is full: writes are refused, reads work. Try again later.",
    ),
    _Known(
        EmbedderError, 503, "embedder", "Embedding model unavailable",
        "The server's embedding model does not answer. Try again later.",
    ),
    _Known(
        ExtractorError, 503, "extractor", "Extractor unavailable",
        "The server's extractor gave no answer that can be used; the messages are new still. Try "
        "again later.",
    ),
    _Known(
        KeyGone, 410, "key-gone", "Gone",
        "The key of this user is gone, so nothing of them can be read: they were erased, or the "
        "server has another file of keys than the one this was written with.",
    ),
    _Known(MissingExtraError, 501, "not-implemented", "Not implemented"),
    _Known(MissingCapability, 501, "not-implemented", "Not implemented"),
    *(
        _Known(
            kind, 503, "unavailable", "Unavailable",
            "The server cannot do this now. A write may have been carried out all the same: read, "
            "then try again.",
        )
        for kind in (UnavailableError, LogClosed, DiskFull, KeyFileError)
    ),
)  # fmt: skip
"""By what the caller does next; the first that fits."""

_NAMES: Final[Mapping[int, str]] = {
    400: "invalid-input", 401: "unauthorized", 403: "forbidden", 404: "not-found",
    405: "method-not-allowed", 408: "request-timeout", 413: "content-too-large",
    429: "too-many-requests", 503: "unavailable",
}  # fmt: skip
_TITLES: Final[Mapping[int, str]] = {400: "Invalid input", 413: "Content too large"}
_NO_BODY: Final = "This address takes a JSON body, and there was none: see /schema for its fields."
_DETAILS: Final[Mapping[int, str]] = {
    404: "There is nothing at this address: see /schema for what there is.",
    405: "This address does not take this method: the header Allow says which it takes.",
    413: "The body is over 1 MiB: send less at a time.",
}


def problem_of(error: Exception) -> Problem:
    """Convert an error to problem details for the caller."""
    if isinstance(error, HTTPException) and error.status_code < 500:
        status = error.status_code
        title = _TITLES.get(status) or HTTPStatus(status).phrase
        detail = _DETAILS.get(status) or _told(error)
        return _problem(status, _NAMES.get(status, "request"), title, detail)
    for known in _KNOWN:
        if isinstance(error, known.error):
            detail = known.detail or str(error)
            is_quota = isinstance(error, QuotaExceededError)
            fields = {name: getattr(error, name) for name in OF_A_QUOTA if is_quota}
            return _problem(known.status, known.name, known.title, detail, **fields)
    return _problem(
        500, "internal-error", "Internal error",
        "The server failed, and it is not the request's fault. Quote the instance to whoever runs "
        "it: the log has it.",
    )  # fmt: skip


def respond(connection: ASGIConnection[Any, Any, Any, Any], error: Exception) -> Response[Problem]:
    """Turn an error into a response, and log it if it is ours."""
    problem = problem_of(error)
    if problem.status >= 500:
        template = connection.scope.get("path_template")
        _logger.warning(
            "request failed", instance=problem.instance, status=problem.status,
            route=template, error=reason(error),
        )  # fmt: skip
    headers = dict(getattr(error, "headers", None) or {})
    if problem.status == 503:
        headers["Retry-After"] = str(RETRY_AFTER_S)
    return Response(problem, status_code=problem.status, media_type=MEDIA_TYPE, headers=headers)


def overloaded() -> Problem:
    """Return the problem for a request when too many are in progress."""
    detail = "Too many requests are in work: try again in a moment."
    return _problem(503, "unavailable", "Unavailable", detail)


def _told(error: HTTPException) -> str:
    """Describe the mistake in a request; for a parameter, name it and say why."""
    if not isinstance(error, ValidationException) or not isinstance(error.extra, list):
        return error.detail
    if any(one.get("key") == "data" for one in error.extra):  # what the routes call the body
        return _NO_BODY
    found = [f"{one.get('key', 'request')}: {one.get('message', 'invalid')}" for one in error.extra]
    return "; ".join(found) or error.detail


def _problem(status: int, name: str, title: str, detail: str, **more: Any) -> Problem:
    instance = f"urn:uuid:{uuid4()}"
    kind = TYPE_PREFIX + name
    return Problem(type=kind, title=title, status=status, detail=detail, instance=instance, **more)

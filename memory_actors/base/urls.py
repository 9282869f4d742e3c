"""Addresses that are given by callers."""

from urllib.parse import urlsplit

from memory_actors.base.errors import InvalidInputError


def checked_host(url: str, wanted: str) -> str:
    """Return the host of an http or https URL; `wanted` says what to give instead.

    :raises InvalidInputError: it is none.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # a bad port raises here
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise InvalidInputError(wanted)
    return host

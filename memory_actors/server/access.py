"""Access: three guards, run before a body is read or an actor is woken.

Every route needs a key unless it says `public`, so a route that says nothing is closed. A path is
matched as it was sent, escapes and all (`admission`), and taken apart here, once: the id that is
checked is the id that is used, whatever slashes, dots or odd letters are in it.
"""

from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import anyio.to_thread
from litestar.connection import ASGIConnection, Request
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler

from eventlog.core.logs import get_logger
from memory_actors.base.api_keys import ApiKey, KeyStore
from memory_actors.base.errors import InvalidInputError, KeyFileError
from memory_actors.base.privacy import reason
from memory_actors.base.validation import check_subjects
from memory_actors.server.admission import take_place
from memory_actors.sharing.system import MemorySystem

Connection = ASGIConnection[Any, Any, Any, Any]
AnyRequest: TypeAlias = Request[Any, Any, Any]

CHALLENGE: Final = 'Bearer realm="memory-actors"'
PUBLIC: Final = {"public": True}
_SCHEME: Final = "bearer "

_logger = get_logger("memory_actors.server")


def read_path(connection: Connection, _handler: BaseRouteHandler) -> None:
    """Take the escapes out of the parts of the path."""
    parts = {name: unescaped(part, name) for name, part in connection.path_params.items()}
    connection.scope["path_params"] = parts


def unescaped(part: str, what: str) -> str:
    """Return a text from its percent-encoded UTF-8.

    :raises InvalidInputError: it is not that.
    """
    try:
        if not part.isascii():
            raise InvalidInputError(f"{what} must be percent-encoded UTF-8")
        return unquote(part, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{what} is not valid UTF-8") from error


async def known_key(connection: Connection, handler: BaseRouteHandler) -> None:
    """Reject requests without a key, public routes aside, and keys whose places are all in use."""
    if handler.opt.get("public"):
        return
    keys: KeyStore = connection.app.state.api_keys
    await keys.refresh()
    headers, key = connection.headers.getall("authorization", []), None
    if len(headers) == 1 and headers[0][: len(_SCHEME)].lower() == _SCHEME:
        key = keys.find(headers[0][len(_SCHEME) :].strip())
    if key is None:
        detail, challenge = "Send an API key: Authorization: Bearer ma_…", CHALLENGE
        if headers:
            detail = "This is not a key of this server: it was mistyped or revoked."
            challenge = f'{CHALLENGE}, error="invalid_token"'
        raise NotAuthorizedException(detail, headers={"WWW-Authenticate": challenge})
    take_place(connection.scope, key)  # type: ignore[arg-type]
    connection.scope["auth"] = key


async def known_scope(connection: Connection, _handler: BaseRouteHandler) -> None:
    """Let a user's key reach that user's memory and the scopes with a grant for it; root any."""
    await check_reach(
        connection.app.state.memory, connection.auth, connection.path_params["user_id"]
    )


def root_only(connection: Connection, _handler: BaseRouteHandler) -> None:
    """Let root keys in, and no others."""
    check_root(connection.auth)


async def check_reach(memory: MemorySystem, key: ApiKey, user_id: str) -> None:
    """See that a key opens a user's memory, or has a grant in it.

    Each operation asks the grants once more: this keeps out who has none before a body is read.

    :raises PermissionDeniedException: it does not, and has none.
    """
    if not key.may_reach(user_id) and await memory.user(user_id, by=key.subjects).right() is None:
        check_may_reach(key, user_id)


def check_may_reach(key: ApiKey, user_id: str) -> None:
    """See that a key opens a user's memory.

    :raises PermissionDeniedException: it is another user's.
    """
    if not key.may_reach(user_id):
        raise PermissionDeniedException("This key is for the memory of another user.")


def check_root(key: ApiKey) -> None:
    """See that a key opens everything.

    :raises PermissionDeniedException: it is a user's.
    """
    if not key.is_root:
        raise PermissionDeniedException("This needs a root key.")


def check_speaker(key: ApiKey, subject: str | None) -> tuple[str, ...]:
    """Return the subjects that a request speaks for: those of its key; of a root key as it says.

    :raises PermissionDeniedException: another key says that it speaks for somebody else.
    """
    said = check_subjects(subject)
    if key.is_root:
        return said
    if not set(said) <= set(key.subjects):
        raise PermissionDeniedException("This key does not speak for that subject.")
    return key.subjects


async def set_tier_once(memory: MemorySystem, keys: KeyStore, key: ApiKey) -> None:
    """Set the user's tier to the key's, by the first request with it; later ones change nothing.

    From then on the tier is the user's own, and `memory-actors tier` or another key may change it.
    """
    if key.tier is None or key.tier_is_set or key.user_id is None:
        return
    await memory.user(key.user_id).set_tier(key.tier)
    try:
        await anyio.to_thread.run_sync(keys.note_tier_is_set, key.id)
    except KeyFileError as error:  # it is set again next time, to the same
        _logger.warning("that a key has set its tier was not noted", error=reason(error))

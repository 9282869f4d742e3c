"""API keys: what one is, and how it is recognised.

A key is `ma_<id>_<secret>`. The id (8 random bytes) is public: it is how a key is found, listed and
revoked. The secret is 32 random bytes, and nobody but its owner keeps it: we keep the SHA-256 of
the whole key. A slow hash (argon2, scrypt) is for passwords, which can be guessed; 256 random bits
cannot, however fast the hash is, and a fast one costs a request microseconds.
"""

import hashlib
import hmac
import re
import secrets
from datetime import datetime
from typing import Final, Literal

import msgspec

from memory_actors.base.records import Tier

ID_BYTES, SECRET_BYTES = 8, 32
_PATTERN: Final = re.compile(r"ma_([0-9a-f]{16})_[0-9a-f]{64}")
_NOBODY: Final = "0" * 64  # compared with when there is no such key: it takes as long


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key, as it is kept."""

    id: str
    sha256: str
    """Hex, of the whole key."""
    scope: Literal["user", "root"]
    """A user's key reaches that user's memory; root reaches every user's, and the admin routes."""
    user_id: str | None = None
    tier: Tier | None = None
    """What the user's tier is set to by the first request with this key."""
    tier_is_set: bool = False
    """Whether that has been done: a key sets the tier once, and never again."""
    created_at: datetime

    @property
    def is_root(self) -> bool:
        """Whether it may do everything."""
        return self.scope == "root"

    def may_reach(self, user_id: str) -> bool:
        """Say whether it opens a user's memory. Ids are compared as they are, never normalised."""
        return self.is_root or (self.user_id is not None and self.user_id == user_id)


def new_key(user_id: str | None, tier: Tier | None, created_at: datetime) -> tuple[str, ApiKey]:
    """Return a new key in clear, to be shown once, and what is kept of it. None: a root key."""
    key_id = secrets.token_hex(ID_BYTES)
    token = f"ma_{key_id}_{secrets.token_hex(SECRET_BYTES)}"
    kept = ApiKey(
        id=key_id,
        sha256=_digest(token),
        scope="root" if user_id is None else "user",
        user_id=user_id,
        tier=tier,
        created_at=created_at,
    )
    return token, kept


def id_in(token: str) -> str | None:
    """Return the id in a key, None if it is not even written like one."""
    match = _PATTERN.fullmatch(token)
    return match[1] if match else None


def matches(token: str, key: ApiKey | None) -> bool:
    """Say whether a token is this key, in a time that says nothing about where they differ."""
    same = hmac.compare_digest(_digest(token), key.sha256 if key is not None else _NOBODY)
    return same and key is not None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()

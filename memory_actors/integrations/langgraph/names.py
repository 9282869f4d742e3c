"""The rule by which a namespace is a user and a collection, and back.

One label of a namespace names the user: the first, or the one that the store was told (`user=1` for
`("memories", "ada")`). The others, joined by dots, name the collection, behind the place that the
user's label had:

    ("ada", "memories", "work")   user=0        ada         langgraph@0/memories.work
    ("memories", "ada")           user=1        ada         langgraph@1/memories
    ("docs",)                     user=1        langgraph   langgraph/docs
    ("ada", "memories")           user="app"    app         langgraph/ada.memories

A namespace that is too short to have the label, or whose label is blank, belongs to the user
`langgraph`; a store of one user (`user="app"`) has all labels in the collection. No label has a dot
in it or is empty, so a user and a collection say which namespace they are, whatever the store was
told.
"""

import re
from collections.abc import Sequence

from memory_actors.base.errors import InvalidInputError

Namespace = tuple[str, ...]

SHARED_USER = "langgraph"
_COLLECTION = re.compile(r"langgraph(?:@(\d+))?/(.*)", re.DOTALL)


class Names:
    """The rule, for a store whose users are named by a label of the namespaces, or are just one."""

    def __init__(self, user: int | str):
        is_place = isinstance(user, int) and not isinstance(user, bool) and user >= 0
        if not is_place and not (isinstance(user, str) and user):
            raise InvalidInputError(
                "user must be the place of a label, from 0, or the id of the user who has all "
                f"namespaces, not {user!r:.80}"
            )
        self._user = user

    def place(self, namespace: Sequence[str]) -> tuple[str, str]:
        """Return the user and the collection of a namespace."""
        at = self._user
        if isinstance(at, int) and self._is_named(namespace):
            others = [*namespace[:at], *namespace[at + 1 :]]
            return namespace[at], f"langgraph@{at}/{'.'.join(others)}"
        user_id = at if isinstance(at, str) else SHARED_USER
        return user_id, f"langgraph/{'.'.join(namespace)}"

    def user_below(self, prefix: Sequence[str]) -> str | None:
        """Return the user who has all namespaces that begin so; None: several may."""
        if isinstance(self._user, str):
            return self._user
        if self._user >= len(prefix):
            return None
        return prefix[self._user] if self._is_named(prefix) else SHARED_USER

    def _is_named(self, namespace: Sequence[str]) -> bool:
        """Tell whether a namespace has the label that names the user."""
        at = self._user
        return isinstance(at, int) and at < len(namespace) and bool(namespace[at].strip())


def namespace_of(user_id: str, collection: str) -> Namespace | None:
    """Return the namespace that is a user's collection; None: it is no namespace's."""
    match = _COLLECTION.fullmatch(collection)
    if match is None:
        return None
    at, path = match.groups()
    labels = path.split(".") if path else []
    if at is not None:
        labels.insert(int(at), user_id)
    return tuple(labels)

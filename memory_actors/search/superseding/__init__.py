"""Superseding: an older fact no longer holds, because a newer one says otherwise.

`ByRules` is the default: the forms of facts, no model. `OpenAISuperseding` asks a language model
(extra `llm`), `CallableSuperseding` a function of yours. The result is recorded as an event: see
kinds/long_term/__init__.py.
"""

from memory_actors.search.superseding.protocol import (
    NEAR_MAX,
    CallableSuperseding,
    OpenAISuperseding,
    Reach,
    Statement,
    Supersedes,
    Superseding,
    Verdict,
)
from memory_actors.search.superseding.rules import ByRules

__all__ = [
    "NEAR_MAX",
    "ByRules",
    "CallableSuperseding",
    "OpenAISuperseding",
    "Reach",
    "Statement",
    "Supersedes",
    "Superseding",
    "Verdict",
    "superseding",
]


def superseding(chosen: "Supersedes | Superseding | bool | None") -> Superseding | None:
    """Return who decides: the rules for None or True, nobody for False, or who was given.

    :raises InvalidInputError: it is none of these.
    """
    if chosen is None or chosen is True:
        return ByRules()
    if chosen is False:
        return None
    if hasattr(chosen, "superseded") and hasattr(chosen, "reach"):
        return chosen
    return CallableSuperseding(chosen)

"""The answer of a language model as proposals. Small models seldom give exactly what was asked for.

Code fences, prose and thoughts around the JSON are skipped. It may be the object that was asked
for, a bare list, one proposal, or one a line. A proposal may lack fields, name them differently, or
have numbers as texts. A text alone is a fact to add. A proposal without a meaning is dropped, and
so is one that repeats an example of the prompt.

An incomplete answer is an error, so that fewer messages are tried. With a single message, the
complete proposals are used.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from memory_actors.base.errors import UnusableProposalsError
from memory_actors.base.json_text import without_halves
from memory_actors.base.llm import ModelAnswer
from memory_actors.extraction.protocol import Action, Conversation, Proposal

ACTIONS: Final[Mapping[str, Action]] = {
    "add": "add", "create": "add", "insert": "add", "new": "add",
    "supersede": "supersede", "update": "supersede", "replace": "supersede",
    "forget": "forget", "delete": "forget", "remove": "forget",
}  # fmt: skip
TEXTS: Final = ("text", "content", "memory", "fact")
"""Fields that have the text of a fact, in the answers of various models."""
TRIES_MAX: Final = 50
"""Brackets that open no JSON: more are in no answer, and each may take a pass over the rest."""

_JSON: Final = json.JSONDecoder(strict=False)  # some write line breaks in a text as they are
_OPENS: Final = re.compile(r"[{\[]")


def proposals_in(answer: ModelAnswer, conversation: Conversation, prompt: str) -> list[Proposal]:
    """Return the proposals in the answer to a prompt.

    :raises UnusableProposalsError: it has none and is no empty list, or it broke off.
    """
    found, is_whole = _found(without_halves(answer.text))
    if found is None:
        raise UnusableProposalsError(
            "the LLM proposed nothing: its answer has no JSON object with a list of proposals; try "
            "another model, or one that follows instructions better"
        )
    if (answer.cut or not is_whole) and (len(conversation.messages) > 1 or not found):
        raise UnusableProposalsError("the LLM was cut off: use a model that says less")
    read = [_proposal(one, conversation) for one in found]
    return [one for one in read if one is not None and f'"{one.text}"' not in prompt]


def _found(text: str) -> tuple[list[Any] | None, bool]:
    """Return the proposals in a text, None without any JSON of them; and False if it breaks off."""
    found: list[Any] | None = None
    end = tries = 0
    while tries < TRIES_MAX and (opening := _OPENS.search(text, end)):
        try:
            value, end = _JSON.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            end, tries = opening.end(), tries + 1
            continue
        listed = _listed(value)
        if listed is None:
            continue
        if not tries and listed is not value and listed != [value]:
            return listed, True  # all of it, in the object that was asked for
        found = [*(found or ()), *listed]
    return found, not tries or "]" in text[end:]


def _listed(value: Any) -> list[Any] | None:
    if isinstance(value, list):
        return value if all(isinstance(one, dict | str) for one in value) else None
    if not isinstance(value, dict):
        return None
    if "proposals" not in value and ("action" in value or _text(value) is not None):
        return [value]
    lists = [one for one in value.values() if isinstance(one, list)]
    return value.get("proposals", lists[0]) if len(lists) == 1 else None


def _proposal(said: Any, conversation: Conversation) -> Proposal | None:
    """Return a proposal with ids for its numbers, or None if it has no meaning."""
    if isinstance(said, str):
        said = {"text": said}
    if not isinstance(said, dict):
        return None
    action = ACTIONS.get(str(said.get("action") or "add").strip().lower())
    number, text, facts = _number(said.get("fact")), _text(said), conversation.facts
    replaces = facts[number - 1].memory_id if 1 <= number <= len(facts) else None
    if action == "supersede" and replaces is None:
        action = "add"  # what it replaces is unknown, but it is a fact
    if action is None or (replaces if action == "forget" else text) is None:
        return None
    named = said.get("messages")
    numbers = {_number(one) for one in (named if isinstance(named, list) else [named])}
    messages = [
        one.memory_id for n, one in enumerate(conversation.messages, start=1) if n in numbers
    ]
    return Proposal(
        action=action,
        text=None if action == "forget" else text,
        replaces=None if action == "add" else replaces,
        message_ids=tuple(messages),
    )


def _text(said: Mapping[str, Any]) -> str | None:
    texts = (said[name].strip() for name in TEXTS if isinstance(said.get(name), str))
    return next((one for one in texts if one and not one.isdecimal()), None)


def _number(said: Any) -> int:
    text = str(said).strip()
    return int(text) if text.isdecimal() and len(text) < 10 else 0

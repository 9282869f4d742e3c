"""An extractor that asks a language model: any OpenAI-compatible endpoint (extra `llm`).

Messages may hold instructions for the model. They are quoted, and the prompt says that no
instruction in them holds. An injection is harder then, but possible. It is bounded, because the
model can name only the facts and messages that it was shown, by number, all of one trust
(`batches.py`).

A server that knows no schemas is asked without, and small models seldom give exactly what was asked
for, so the answer is read tolerantly: code fences, prose and thoughts are skipped; it may be the
object, a bare list, one proposal, or one a line, with other names of fields. A proposal that
repeats an example of the prompt is dropped. An incomplete answer is an error, so that fewer
messages are tried; with a single message, the complete proposals are used.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Unpack

from memory_actors.base import errors
from memory_actors.base import llm as models
from memory_actors.base.json_text import quoted, without_halves
from memory_actors.base.validation import check_maker
from memory_actors.extraction import protocol

ACTIONS: Final[Mapping[str, protocol.Action]] = {
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


def proposals_in(
    answer: models.ModelAnswer, conversation: protocol.Conversation, prompt: str
) -> list[protocol.Proposal]:
    """Return the proposals in the answer to a prompt.

    :raises UnusableProposalsError: it has none and is no empty list, or it broke off.
    """
    found, is_whole = _found(without_halves(answer.text))
    if found is None:
        raise errors.UnusableProposalsError(
            "the LLM proposed nothing: its answer has no JSON object with a list of proposals; try "
            "another model, or one that follows instructions better"
        )
    if (answer.cut or not is_whole) and (len(conversation.messages) > 1 or not found):
        raise errors.UnusableProposalsError("the LLM was cut off: use a model that says less")
    read = [_proposal(one, conversation) for one in found]
    return [one for one in read if one is not None and f'"{one.text}"' not in prompt]


def _found(text: str) -> tuple[list[object] | None, bool]:
    """Return the proposals in a text, None without any JSON of them; and False if it breaks off."""
    found: list[object] | None = None
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


def _listed(value: object) -> list[object] | None:
    if isinstance(value, list):
        return value if all(isinstance(one, dict | str) for one in value) else None
    if not isinstance(value, dict):
        return None
    if "proposals" not in value and ("action" in value or _text(value) is not None):
        return [value]
    lists = [one for one in value.values() if isinstance(one, list)]
    return value.get("proposals", lists[0]) if len(lists) == 1 else None


def _proposal(said: object, conversation: protocol.Conversation) -> protocol.Proposal | None:
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
    return protocol.Proposal(
        action=action,
        text=None if action == "forget" else text,
        replaces=None if action == "add" else replaces,
        message_ids=tuple(messages),
    )


def _text(said: Mapping[str, Any]) -> str | None:
    texts = (said[name].strip() for name in TEXTS if isinstance(said.get(name), str))
    return next((one for one in texts if one and not one.isdecimal()), None)


def _number(said: object) -> int:
    text = str(said).strip()
    return int(text) if text.isdecimal() and len(text) < 10 else 0


PROMPTS: Final = Path(__file__).parent / "prompts"
MESSAGE_CHARACTERS_MAX: Final = 4_000
FACT_CHARACTERS_MAX: Final = 500
TIMEOUT_S: Final = 60.0
"""Of one attempt: a local model writes some 20 tokens a second, and twenty facts take 800."""
TOKENS_MAX: Final = 2_000

_SCHEMA: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {
        "proposals": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["add", "supersede", "forget"]},
                    "text": {"type": ["string", "null"]},
                    "fact": {"type": ["integer", "null"]},
                    "messages": {"type": "array", "items": {"type": "integer"}},
                },
                "required": ["action", "text", "fact", "messages"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["proposals"],
    "additionalProperties": False,
}


class OpenAIExtractor(models.AsksModel):
    """Asks a language model what to remember of messages. Pass it as `extractor=`.

    It is asked once for each batch of messages that `extract` reads. `prompt` is a file with a
    system prompt of your own, in the place of prompts/extract.txt. A `client` of yours stays open
    when the system closes. See `memory_actors.base.llm` for the environment variables.

    :raises MissingExtraError: openai is not installed.
    :raises InvalidInputError: a setting makes no sense, model or key are missing, or the prompt
        cannot be read.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        prompt: str | Path | None = None,
        **connection: Unpack[models.ModelConnection],
    ):
        self._system = _read(PROMPTS / "extract.txt" if prompt is None else Path(prompt))
        connection.setdefault("timeout_s", TIMEOUT_S)
        super().__init__(model, **connection)

    async def extract(self, conversation: protocol.Conversation) -> Sequence[protocol.Proposal]:
        """Return the model's proposals.

        :raises ExtractorError: the model gave no answer.
        :raises UnusableProposalsError: it gave one that is empty or has no proposals.
        """
        try:
            answer = await self._client.answer(
                self._system,
                _question(conversation),
                max_tokens=TOKENS_MAX,
                temperature=0.0,
                schema=_SCHEMA,
            )
        except errors.EmptyAnswerError as error:
            raise errors.UnusableProposalsError(f"nothing was extracted: {error}") from error
        except errors.LLMError as error:
            raise errors.ExtractorError(f"nothing was extracted: {error}") from error
        return proposals_in(answer, conversation, self._system)


@cache
def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInputError(f"the prompt {file} cannot be read: {error}") from error


# --- the question


def _question(conversation: protocol.Conversation) -> str:
    facts = [
        {"fact": n, "day": f"{one.occurred_at:%Y-%m-%d}", "text": one.text[:FACT_CHARACTERS_MAX]}
        for n, one in enumerate(conversation.facts, start=1)
    ]
    parts = {
        "facts": [quoted(one) for one in facts],
        "before": [_message(None, one) for one in conversation.before],
        "messages": [_message(n, one) for n, one in enumerate(conversation.messages, start=1)],
    }
    return "\n\n".join(
        "\n".join([f"<{name}>", *said, f"</{name}>"]) for name, said in parts.items()
    )


def _message(number: int | None, one: protocol.Spoken) -> str:
    said = {} if number is None else {"message": number}
    said_by = {} if one.role is None else {"role": one.role}
    text = one.text[:MESSAGE_CHARACTERS_MAX]
    return quoted({**said, "time": f"{one.said_at:%Y-%m-%d %H:%M}", **said_by, "text": text})


# --- extractors by name. A model that is not OpenAI's is taken for a small one on this machine: it
# gets a short prompt with an example, and more time, because it may have to be loaded first.


KEY_VARIABLE: Final = "MEMORY_ACTORS_LLM_API_KEY"
LOCAL_TIMEOUT_S: Final = 180.0
LOCAL_RETRIES: Final = 1
"""Twice this long, and the longest pause, is less than an extraction waits for an extractor."""


class NamedExtractor(OpenAIExtractor):
    """Asks the model of a name. Its connections are closed with it.

    :raises MissingExtraError: openai is not installed.
    :raises InvalidInputError: it names no model, or OpenAI's key is missing.
    """

    def __init__(self, name: str):
        scheme = name.partition(":")[0]
        if scheme not in models.SCHEMES:
            raise errors.InvalidInputError(
                "extractor must be 'ollama:MODEL', 'openai:MODEL', 'http://HOST/v1#MODEL', a "
                f"function or an Extractor, not {name!r:.80}"
            )
        at = models.model_at(name, KEY_VARIABLE)
        asks = models.OllamaClient if scheme == "ollama" else models.ChatClient
        url = at.base_url.removesuffix("/chat/completions")
        key = at.api_key or models.NO_KEY
        if scheme == "openai":
            super().__init__(client=asks(at.model, base_url=url, api_key=key, timeout_s=TIMEOUT_S))
        else:
            client = asks(
                at.model, base_url=url, api_key=key,
                timeout_s=LOCAL_TIMEOUT_S, retries=LOCAL_RETRIES,
            )  # fmt: skip
            super().__init__(client=client, prompt=PROMPTS / "extract_short.txt")
        self._owns_client = True


def extractor_of(
    chosen: protocol.Extractor | protocol.Extract | str | None,
) -> protocol.Extractor | None:
    """Return the extractor that `extractor=` chooses: a name, a function, an `Extractor` or None.

    :raises InvalidInputError: it is none of these.
    :raises MissingExtraError: openai is not installed, and a model is named.
    """
    if chosen is None:
        return None
    if isinstance(chosen, str):
        return NamedExtractor(chosen)
    if hasattr(chosen, "extract") and hasattr(chosen, "name"):
        check_maker(chosen.name, "an extractor")
        return chosen
    return protocol.CallableExtractor(chosen)

"""An extractor that asks a language model: any OpenAI-compatible endpoint (extra `llm`).

Messages come from people, tools and web pages, so what they say may be meant for the model. They
are quoted (`base/json_text.py`), and the prompt says that no instruction in them holds. Quoting
makes an injection harder, not impossible; what bounds it is that the model can name only the facts
and the messages that it was shown, by number, and that it is shown messages of one trust at a time,
with facts that are no less trusted (`batches.py`).

The model is asked for JSON of a schema. A server that knows no schemas is asked without, so the
answer is read tolerantly (`answers.py`).
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Unpack

from memory_actors.base.errors import (
    EmptyAnswerError,
    ExtractorError,
    InvalidInputError,
    LLMError,
    UnusableProposalsError,
)
from memory_actors.base.json_text import quoted
from memory_actors.base.llm import AsksModel, ModelConnection
from memory_actors.extraction.answers import proposals_in
from memory_actors.extraction.protocol import Conversation, KnownFact, Proposal, Spoken

PROMPTS: Final = Path(__file__).parent / "prompts"
MESSAGE_CHARACTERS_MAX: Final = 4_000
"""The limit for a message in the prompt; longer ones are cut."""
FACT_CHARACTERS_MAX: Final = 500
TIMEOUT_S: Final = 60.0
"""Of one attempt: a local model writes some 20 tokens a second, and twenty facts take 800."""
TOKENS_MAX: Final = 2_000
"""Of the answer: some fifty facts."""

_SCHEMA: Final[Mapping[str, Any]] = {
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


class OpenAIExtractor(AsksModel):
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
        **connection: Unpack[ModelConnection],
    ):
        self._system = _read(PROMPTS / "extract.txt" if prompt is None else Path(prompt))
        connection.setdefault("timeout_s", TIMEOUT_S)
        super().__init__(model, **connection)

    async def extract(self, conversation: Conversation) -> Sequence[Proposal]:
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
        except EmptyAnswerError as error:
            raise UnusableProposalsError(f"nothing was extracted: {error}") from error
        except LLMError as error:
            raise ExtractorError(f"nothing was extracted: {error}") from error
        return proposals_in(answer, conversation, self._system)


@cache
def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"the prompt {file} cannot be read: {error}") from error


# --- the question


def _question(conversation: Conversation) -> str:
    parts = {
        "facts": [_fact(n, one) for n, one in enumerate(conversation.facts, start=1)],
        "before": [_message(None, one) for one in conversation.before],
        "messages": [_message(n, one) for n, one in enumerate(conversation.messages, start=1)],
    }
    return "\n\n".join(
        "\n".join([f"<{name}>", *said, f"</{name}>"]) for name, said in parts.items()
    )


def _fact(number: int, one: KnownFact) -> str:
    text = one.text[:FACT_CHARACTERS_MAX]
    return quoted({"fact": number, "day": f"{one.occurred_at:%Y-%m-%d}", "text": text})


def _message(number: int | None, one: Spoken) -> str:
    said = {} if number is None else {"message": number}
    said_by = {} if one.role is None else {"role": one.role}
    text = one.text[:MESSAGE_CHARACTERS_MAX]
    return quoted({**said, "time": f"{one.said_at:%Y-%m-%d %H:%M}", **said_by, "text": text})

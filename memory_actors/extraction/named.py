"""Extractors by name: `ollama:MODEL`, `openai:MODEL`, `http://HOST/v1#MODEL`; and by `extractor=`.

A model that is not OpenAI's is taken for a small one on this machine: it gets a short prompt with
an example, and more time, because it may have to be loaded first.
"""

from typing import Final

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.llm import NO_KEY, SCHEMES, ChatClient, OllamaClient, model_at
from memory_actors.base.validation import check_maker
from memory_actors.extraction.llm import PROMPTS, TIMEOUT_S, OpenAIExtractor
from memory_actors.extraction.protocol import CallableExtractor, Extract, Extractor

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
        if scheme not in SCHEMES:
            raise InvalidInputError(
                "extractor must be 'ollama:MODEL', 'openai:MODEL', 'http://HOST/v1#MODEL', a "
                f"function or an Extractor, not {name!r:.80}"
            )
        at = model_at(name, KEY_VARIABLE)
        asks = OllamaClient if scheme == "ollama" else ChatClient
        url = at.base_url.removesuffix("/chat/completions")
        key = at.api_key or NO_KEY
        if scheme == "openai":
            super().__init__(client=asks(at.model, base_url=url, api_key=key, timeout_s=TIMEOUT_S))
        else:
            client = asks(
                at.model, base_url=url, api_key=key,
                timeout_s=LOCAL_TIMEOUT_S, retries=LOCAL_RETRIES,
            )  # fmt: skip
            super().__init__(client=client, prompt=PROMPTS / "extract_short.txt")
        self._owns_client = True


def extractor_of(chosen: Extractor | Extract | str | None) -> Extractor | None:
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
    return CallableExtractor(chosen)

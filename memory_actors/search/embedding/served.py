"""Embedding models behind an OpenAI-compatible endpoint: OpenAI, Ollama, or a server of your own.

The client library tries again by itself, with growing pauses, within the deadline that the batch
has. Redirects are not followed: they would carry memories to somebody else. No error quotes a text
or the key.

Environment variables give the rest: see `model_at`, and `MEMORY_ACTORS_EMBEDDER_API_KEY` for a
server of your own that wants a key.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from memory_actors.base.errors import EmbedderError
from memory_actors.base.llm import NO_KEY, model_at, openai_client, quiet
from memory_actors.base.validation import checked_host
from memory_actors.search.embedding.protocol import Vectors

REQUEST_S_MAX: Final = 4.0
RETRIES: Final = 2
CHARACTERS_MAX: Final = 8_000
"""2,000 tokens of English: as many as the smaller of these models read. More is refused by some."""
KEY_VARIABLE: Final = "MEMORY_ACTORS_EMBEDDER_API_KEY"
ASKS: Final = "query: "
"""Marks a question among texts, for models that tell those from what answers."""


class Facts(NamedTuple):
    """The facts about a model: none about one that is not in `MODELS`."""

    dimension: int | None = None
    before_query: str = ""
    before_text: str = ""


MODELS: Final[Mapping[str, Facts]] = {
    "text-embedding-3-small": Facts(1536),
    "text-embedding-3-large": Facts(3072),
    "text-embedding-ada-002": Facts(1536),
    "nomic-embed-text": Facts(768, "search_query: ", "search_document: "),
    "mxbai-embed-large": Facts(1024, "Represent this sentence for searching relevant passages: "),
    "all-minilm": Facts(384),
    "bge-m3": Facts(1024),
}


class ServedEmbedder:
    """Vectors of one model at one endpoint.

    :raises MissingExtraError: openai is not installed.
    :raises InvalidInputError: it is no http(s) URL.
    """

    parallel = True
    query_prefix = ASKS

    def __init__(self, model: str, *, base_url: str, api_key: str | None):
        self.host = checked_host(base_url, "an embedder needs a URL like http://localhost:8080/v1")
        self._model = model
        self._known = MODELS.get(model.removesuffix(":latest"), Facts())
        self._dimension = self._known.dimension
        self._openai = openai_client("this embedder")
        self._client = self._openai.OpenAI(
            api_key=api_key or NO_KEY,
            base_url=base_url,
            max_retries=RETRIES,
            timeout=REQUEST_S_MAX,
            http_client=self._openai.DefaultHttpxClient(follow_redirects=False),
        )

    @property
    def fingerprint(self) -> str:
        """Name the model; the same one at another endpoint gives the same vectors."""
        return f"served {self._model}"

    @property
    def dimension(self) -> int:
        """Length of each vector. The endpoint is asked once, if the model is not a known one.

        :raises EmbedderError: it does not answer.
        """
        if self._dimension is None:
            self._dimension = self.embed(["A text."]).shape[1]
        return self._dimension

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 `[len(texts), dimension]`.

        :raises EmbedderError: the endpoint fails, or gives something else than vectors.
        """
        said = [self._written(text) for text in texts]
        try:
            with quiet():
                made = self._client.embeddings.create(
                    model=self._model, input=said, encoding_format="float"
                )
            rows = sorted(made.data, key=lambda one: one.index)
            return np.array([one.embedding for one in rows], np.float32)
        except self._openai.APIStatusError as error:
            why = f"answered {error.status_code}"
        except self._openai.APITimeoutError:
            why = f"gave no answer within {REQUEST_S_MAX:g} s, {RETRIES + 1} times"
        except self._openai.APIConnectionError as error:
            why = f"cannot be reached ({type(error.__cause__ or error).__name__})"
        except Exception as error:  # a body that is no list of vectors: the client lets it pass
            why = f"sent no vectors ({type(error).__name__})"
        raise EmbedderError(f"The embedding model {self._model} at {self.host} {why}.")

    def _written(self, text: str) -> str:
        asks = text.startswith(ASKS)
        before = self._known.before_query if asks else self._known.before_text
        return f"{before}{readable(text.removeprefix(ASKS))}" or " "  # some refuse an empty text


def readable(text: str) -> str:
    """Return the start of a text, with a question mark for each half of a surrogate pair."""
    return text[:CHARACTERS_MAX].encode(errors="replace").decode()


def embedder_at(name: str) -> ServedEmbedder:
    """Return the embedder of a name, as `ollama:bge-m3` or `http://localhost:8080/v1#MODEL`."""
    at = model_at(name, KEY_VARIABLE)
    base_url = at.base_url.removesuffix("/embeddings")
    return ServedEmbedder(at.model, base_url=base_url, api_key=at.api_key)

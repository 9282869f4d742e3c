"""Chat completions over any OpenAI-compatible endpoint, or Ollama's own: one question, one answer.

Theory. A language model is the slowest and the least reliable thing that this package talks to. The
client library tries again by itself. Its timeout begins anew with each read, so the body has a
deadline of its own, and the whole has one too. The answer is read here and not by the client, which
takes anything for a chat completion: at most 1 MiB, valid JSON, a first choice with text.

Private. No log and no error message contains questions, answers or the key. Errors name the host,
the status and the server's error code. Redirects are not followed: they would carry memories to
somebody else.

Environment variables give the defaults:

- the model: `MEMORY_ACTORS_LLM_MODEL`
- the endpoint: `MEMORY_ACTORS_LLM_BASE_URL`, or `OPENAI_BASE_URL`, or else OpenAI
- the key: `MEMORY_ACTORS_LLM_API_KEY`, or `OPENAI_API_KEY`; an endpoint that is named may need none

The only importer of openai (extra `llm`).
"""

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Final, NamedTuple, Self, TypedDict, Unpack

import anyio
import msgspec

from memory_actors.base.errors import (
    EmptyAnswerError,
    InvalidInputError,
    LLMError,
    importing,
)
from memory_actors.base.records import JsonObject
from memory_actors.base.validation import MAKER_CHARACTERS_MAX, checked_host

ANSWER_BYTES_MAX: Final = 1 << 20
"""A thousand tokens are 5 KB; thoughts may be a hundred times as long."""
PAUSE_S_MAX: Final = 120.0
"""The longest pause that the client makes before another attempt."""
OPENAI_URL: Final = "https://api.openai.com/v1"
OLLAMA_URL: Final = "http://127.0.0.1:11434"
SCHEMES: Final = ("openai", "ollama", "http", "https")
"""The beginnings of names that `model_at` reads."""
CONTEXT_TOKENS_MIN: Final = 8_192
"""Asked of Ollama, whose default is 4,096: it drops the beginning of a longer question silently."""

_PASSING: Final = frozenset({408, 409, 429})
_INSTEAD: Final[Mapping[str, str | None]] = {
    "max_tokens": "max_completion_tokens",
    "temperature": None,
    "response_format": None,
}
"""The name of a parameter for some newer models; None: they want it left out."""
_MALFORMED: Final = frozenset({400, 422})
_UNSUPPORTED: Final = frozenset({"unsupported_parameter", "unsupported_value"})
_THOUGHTS: Final = re.compile(r"\s*<think>.*?(?:</think>|\Z)", re.DOTALL)
_CODE: Final = re.compile(r"[a-z][a-z0-9_.\-]{0,63}")
NO_KEY: Final = "none"  # the client insists on one


class ModelAt(NamedTuple):
    """A model and its endpoint."""

    model: str
    base_url: str
    api_key: str | None


def model_at(name: str, key_variable: str) -> ModelAt:
    """Return the model of a name: `openai:MODEL`, `ollama:MODEL` or `http://HOST/v1#MODEL`.

    `OPENAI_API_KEY` and `OPENAI_BASE_URL` are OpenAI's, `OLLAMA_HOST` is Ollama's. The key of
    another endpoint is in `key_variable`; OpenAI's own is never sent there.

    :raises InvalidInputError: it names no model, or OpenAI's key is missing.
    """
    scheme, _, model = name.partition(":")
    if scheme in ("http", "https"):
        url, _, model = name.partition("#")
        return ModelAt(model or "default", url.rstrip("/"), _env(key_variable))
    if not model:
        raise InvalidInputError(f"which model? Name it after the colon: '{scheme}:MODEL'")
    if scheme == "ollama":
        host = _env("OLLAMA_HOST") or OLLAMA_URL
        url = host if "://" in host else f"http://{host}"
        return ModelAt(model, f"{url.rstrip('/')}/v1", None)
    key, own_url = _env("OPENAI_API_KEY"), _env("OPENAI_BASE_URL")
    if key is None and own_url is None:
        raise InvalidInputError("OpenAI needs a key: set OPENAI_API_KEY")
    return ModelAt(model, own_url or OPENAI_URL, key)


class ModelAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a model."""

    text: str
    """Not empty, no space around it."""
    cut: bool
    """It ran into `max_tokens` and ends anywhere."""


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]


class _OllamaAnswer(msgspec.Struct):
    message: _Message
    done_reason: str | None = None


class ChatClient:
    """Asks one model at one endpoint. Used on one event loop.

    An answer takes at most `(retries + 1) * timeout_s` and the pauses between: with the
    defaults 5.5 minutes, if the server asks for the longest pause each time.

    :raises MissingExtraError: openai is not installed.
    :raises InvalidInputError: no model, no key for OpenAI, no http(s) URL, or a senseless number.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 30.0,
        retries: int = 2,
    ):
        if not (timeout_s > 0 and retries >= 0):
            raise InvalidInputError("an LLM needs timeout_s > 0 and retries >= 0")
        url = base_url or _env("MEMORY_ACTORS_LLM_BASE_URL", "OPENAI_BASE_URL")
        named = model or _env("MEMORY_ACTORS_LLM_MODEL")
        if not named:
            raise InvalidInputError("which LLM? Pass model=, or set MEMORY_ACTORS_LLM_MODEL")
        self.model = named
        self.host = checked_host(
            url or OPENAI_URL, "an LLM needs a base URL like http://localhost:11434/v1"
        )
        self._timeout_s = timeout_s
        self._deadline_s = (retries + 1) * timeout_s + retries * PAUSE_S_MAX
        self._unsupported: set[str] = set()
        self._openai = openai_client("an LLM")
        self._client = self._openai.AsyncOpenAI(
            api_key=_checked_key(api_key, needed=not url),
            base_url=url or OPENAI_URL,
            max_retries=retries,
            timeout=timeout_s,
            http_client=self._openai.DefaultAsyncHttpxClient(follow_redirects=False),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. The client cannot ask any more."""
        await self._client.close()

    async def answer(
        self,
        system: str,
        user: str,
        *,
        max_tokens: int,
        temperature: float,
        schema: Mapping[str, object] | None = None,
    ) -> ModelAnswer:
        """Return the answer, and whether it was cut off at `max_tokens`.

        It is asked to be JSON of a `schema`, if there is one and the model knows such things; the
        answer may be anything all the same.

        :raises LLMError: there is none. Only `__context__` has the server's message.
        """
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        limits: dict[str, object] = {"max_tokens": max_tokens, "temperature": temperature}
        if schema is not None:
            wanted = {"name": "answer", "strict": True, "schema": schema}
            limits["response_format"] = {"type": "json_schema", "json_schema": wanted}
        try:
            with anyio.fail_after(self._deadline_s), quiet():
                return self._read(await self._ask(messages, limits))
        except LLMError:
            raise
        except self._openai.APIStatusError as error:
            raise self._refusal(error) from None  # its text may quote what was asked
        except (TimeoutError, self._openai.APITimeoutError) as error:
            raise self._failure(error, f"no answer within {self._timeout_s:g} s") from error
        except self._openai.APIConnectionError as error:
            why = type(error.__cause__ or error).__name__
            raise self._failure(error, f"no connection ({why})") from error
        except Exception as error:  # of httpx or httpx2, whichever the client brings: it broke
            raise self._failure(error, f"the connection broke ({type(error).__name__})") from error

    async def _ask(self, messages: list[dict[str, str]], limits: dict[str, object]) -> bytes:
        """Return the body of the answer; learn which parameters the model does not take."""
        while True:
            try:
                names = {one: _INSTEAD[one] if one in self._unsupported else one for one in limits}
                taken = {name: limits[one] for one, name in names.items() if name is not None}
                return await self._post(messages, taken)
            except self._openai.APIStatusError as error:
                name = _code(error.param).partition(".")[0]  # or the part of it that is not known
                if not error.code and error.status_code in _MALFORMED:  # as local servers say it
                    name = "response_format"
                known = name not in limits or name in self._unsupported
                if known or (error.code and _code(error.code) not in _UNSUPPORTED):
                    raise
                self._unsupported.add(name)

    async def _post(self, messages: list[dict[str, str]], limits: dict[str, object]) -> bytes:
        asking = self._client.chat.completions.with_streaming_response
        async with asking.create(model=self.model, messages=messages, **limits) as response:
            return await self._body(response)

    async def _body(self, response: Any) -> bytes:
        body = bytearray()
        with anyio.fail_after(self._timeout_s):
            async for chunk in response.iter_bytes():
                body += chunk
                if len(body) > ANSWER_BYTES_MAX:
                    raise LLMError(f"the LLM at {self.host} sent more than 1 MiB: check the URL")
        return bytes(body)

    def _failure(self, error: Any, what: str) -> LLMError:
        """Return an error for a failure that another attempt might not have."""
        counted = isinstance(error, self._openai.APIError)
        again = int(error.request.headers.get("x-stainless-retry-count", 0)) if counted else 0
        often = f" {again + 1} times, at last" if again else ""
        return LLMError(
            f"the LLM at {self.host} failed{often}: {what}; check that it is up, or try again later"
        )

    def _refusal(self, error: Any) -> LLMError:
        """Return an error for an answer that is no success: by status and code only."""
        code = _code(error.code)
        what = f"HTTP {error.status_code}" + (f", {code}" if code else "")
        if error.status_code in _PASSING or error.status_code >= 500:
            return self._failure(error, what)
        return LLMError(
            f"the LLM at {self.host} refused ({what}): check key, base URL and model {self.model}"
        )

    def _read(self, body: bytes) -> ModelAnswer:
        try:
            choice = self._first_choice(body)
            said = choice.message.content or ""
            said.encode()  # lone surrogates can be sent, but not kept
        except (ValueError, IndexError, RecursionError):
            raise LLMError(
                f"the LLM at {self.host} answered with no chat completion: "
                "check the base URL, it mostly ends in /v1"
            ) from None
        thoughts = _THOUGHTS.match(said)
        text = said[thoughts.end() if thoughts else 0 :].strip()
        if not text:
            why = _code(choice.finish_reason) or "no reason given"
            raise EmptyAnswerError(
                f"the LLM at {self.host} answered with an empty text ({why}): "
                "try another model; if it is 'length', one that thinks less"
            )
        return ModelAnswer(text=text, cut=choice.finish_reason == "length")

    def _first_choice(self, body: bytes) -> _Choice:
        return msgspec.json.decode(body, type=_Completion).choices[0]


class OllamaClient(ChatClient):
    """Asks Ollama by its own protocol, which alone takes the size of the context.

    A model that can think is told not to: its thoughts would use up the tokens of the answer.
    """

    async def _post(self, messages: list[dict[str, str]], limits: JsonObject) -> bytes:
        tokens = limits["max_tokens"]
        needed = tokens + sum(len(one["content"].encode()) for one in messages) // 3
        context = max(CONTEXT_TOKENS_MIN, 1 << (needed - 1).bit_length())
        options = {"num_predict": tokens, "num_ctx": context, "temperature": limits["temperature"]}
        body: JsonObject = {"stream": False, "think": False, "options": options}
        if "response_format" in limits:
            body["format"] = limits["response_format"]["json_schema"]["schema"]
        response = await self._client.post(
            str(self._client.base_url).removesuffix("v1/") + "api/chat",
            cast_to=object,
            body={"model": self.model, "messages": messages, **body},
            options={"headers": {"X-Stainless-Raw-Response": "stream"}},
        )
        try:
            return await self._body(response)
        finally:
            await response.close()

    def _first_choice(self, body: bytes) -> _Choice:
        answer = msgspec.json.decode(body, type=_OllamaAnswer)
        return _Choice(message=answer.message, finish_reason=answer.done_reason)


class Endpoint(TypedDict, total=False):
    """The settings of a `ChatClient`."""

    base_url: str | None
    api_key: str | None
    timeout_s: float
    retries: int


class ModelConnection(Endpoint, total=False):
    """The settings of a connection to a model."""

    client: ChatClient | None
    """Yours, instead: then the rest, and the model, are its own."""


class AsksModel:
    """Asks a model: through a client of its own, or through yours, which stays open.

    :raises MissingExtraError: openai is not installed.
    :raises InvalidInputError: a setting makes no sense, or model or key are missing.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        client: ChatClient | None = None,
        **endpoint: Unpack[Endpoint],
    ):
        self._owns_client = client is None
        self._client = client or ChatClient(model, **endpoint)

    @property
    def name(self) -> str:
        """`llm:` and the model."""
        printable = "".join(one for one in self._client.model if one.isprintable())
        return f"llm:{printable}"[:MAKER_CHARACTERS_MAX]

    async def aclose(self) -> None:
        """Close the connections, unless the client is yours."""
        if self._owns_client:
            await self._client.aclose()


# --- settings, and what servers say


def _env(*names: str) -> str | None:
    """Return the first of some environment variables that is set to anything."""
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)


def _checked_key(api_key: str | None, *, needed: bool) -> str:
    key = (api_key or "").strip() or _env("MEMORY_ACTORS_LLM_API_KEY", "OPENAI_API_KEY")
    if key is None and needed:
        raise InvalidInputError(
            "OpenAI needs a key: set OPENAI_API_KEY, or base_url= to a server that needs none"
        )
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise InvalidInputError("the API key has characters that no key has: copy it again")
    return key or NO_KEY


def _code(value: object) -> str:
    """Return a server's code for an error, or "" if it is longer than a short identifier."""
    return value if isinstance(value, str) and _CODE.fullmatch(value) else ""


# --- the client library

_asking: ContextVar[bool] = ContextVar("memory_actors_llm_asking", default=False)


def _says_little(record: logging.LogRecord) -> bool:
    return not _asking.get() or record.levelno >= logging.WARNING


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the client's own log lines to warnings: clients before 3 log the question at DEBUG."""
    token = _asking.set(True)
    try:
        yield
    finally:
        _asking.reset(token)


def openai_client(needs: str) -> ModuleType:
    """Return the client library.

    :raises MissingExtraError: it is not installed; `needs` says what needs it.
    """
    with importing(f"{needs} needs openai", "llm"):
        import openai
    logging.getLogger("openai._base_client").addFilter(_says_little)
    return openai

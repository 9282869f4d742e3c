"""Chat completions over any OpenAI-compatible endpoint: a question in two parts, one answer.

Theory. A language model is the slowest and the least reliable thing that this package talks to, so
each attempt has a deadline of its own that covers all of it: connecting, waiting, and a body that
comes a byte at a time (the client's own timeout begins anew with each read). What may pass is tried
again: no answer in time, a connection that fails or breaks, 408, 409, 429, 5xx. Before the next
attempt it waits `backoff_s`, then twice that, and so on, less up to half of it by chance, so that
many callers do not come back together; or as long as `Retry-After` says, up to a minute. Everything
else fails at once.

The answer is read here and not by the client, which takes anything for a chat completion: at most
1 MiB, valid JSON, a first choice with text. The thoughts that some local models put in front of it
(`<think>`) are dropped. Models that refuse `max_tokens` or `temperature` are asked without.

Private. What is asked and answered, and the key, stand in no log and in no error's message: that
names the host, the status and the server's error code. Redirects are not followed: they would carry
memories to somebody else.

Where it asks, unless told:

- the model: `MEMORY_ACTORS_LLM_MODEL`
- the endpoint: `MEMORY_ACTORS_LLM_BASE_URL`, or `OPENAI_BASE_URL`, or else OpenAI
- the key: `MEMORY_ACTORS_LLM_API_KEY`, or `OPENAI_API_KEY`; an endpoint that is named may need none

The only importer of openai (extra `llm`).
"""

import logging
import math
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from random import SystemRandom
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypedDict

import anyio
import msgspec

from memory_actors.base.errors import InvalidInputError, LLMError, MissingExtraError
from memory_actors.base.validation import checked_host

ANSWER_BYTES_MAX: Final = 1 << 20
"""A thousand tokens are 5 KB; thoughts may be a hundred times as long."""
PAUSE_S_MAX: Final = 60.0
"""A server that asks for a longer pause is asked again another time."""
OPENAI_URL: Final = "https://api.openai.com/v1"

_PASSING: Final = frozenset({408, 409, 429})
_FINAL_CODES: Final = frozenset({"insufficient_quota"})
"""Sent with a 429 that no waiting helps against."""
_INSTEAD: Final = MappingProxyType({"max_tokens": "max_completion_tokens", "temperature": None})
"""What some newer models want in place of a parameter; None: they want it left out."""
_UNSUPPORTED: Final = frozenset({"unsupported_parameter", "unsupported_value"})
_THOUGHTS: Final = re.compile(r"\s*<think>.*?(?:</think>|\Z)", re.DOTALL)
_CODE: Final = re.compile(r"[a-z][a-z0-9_.\-]{0,63}")
_NO_KEY: Final = "none"  # the client insists on one
_CHANCE: Final = SystemRandom()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a model said."""

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


class _MayPassError(Exception):
    """An attempt failed in a way that another may not."""

    def __init__(self, what: str, pause_s: float | None = None):
        super().__init__(what)
        self.pause_s = pause_s
        """What the server asks for."""


class ChatClient:
    """Asks one model at one endpoint. Used on one event loop.

    An answer takes at most `(retries + 1) * timeout_s` and the pauses between: with the
    defaults 3.5 minutes, if the server asks for the longest pause each time.

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
        backoff_s: float = 0.5,
    ):
        if not (timeout_s > 0 and retries >= 0 and backoff_s >= 0):
            raise InvalidInputError("an LLM needs timeout_s > 0, retries >= 0, backoff_s >= 0")
        url = base_url or _env("MEMORY_ACTORS_LLM_BASE_URL", "OPENAI_BASE_URL")
        self.model = _checked_model(model or _env("MEMORY_ACTORS_LLM_MODEL"))
        self.host = checked_host(
            url or OPENAI_URL, "an LLM needs a base URL like http://localhost:11434/v1"
        )
        self._timeout_s = timeout_s
        self._retries = retries
        self._backoff_s = backoff_s
        self._unsupported: set[str] = set()
        self._openai = _openai()
        self._client = self._openai.AsyncOpenAI(
            api_key=_checked_key(api_key, needed=not url),
            base_url=url or OPENAI_URL,
            max_retries=0,
            timeout=timeout_s,
            http_client=self._openai.DefaultAsyncHttpxClient(follow_redirects=False),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. The client cannot ask any more."""
        await self._client.close()

    async def answer(
        self, system: str, user: str, *, max_tokens: int, temperature: float
    ) -> Answer:
        """Return the answer, and whether it was cut off at `max_tokens`.

        :raises LLMError: there is none. What the server said of it is in `__context__` only.
        """
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        limits = {"max_tokens": max_tokens, "temperature": temperature}
        attempt = 0
        while True:
            try:
                return await self._attempt(messages, limits)
            except _MayPassError as failure:
                pause_s = self._pause_s(attempt, failure)
            attempt += 1
            await anyio.sleep(pause_s)

    def _pause_s(self, attempt: int, failure: _MayPassError) -> float:
        """Return how long to wait after an attempt; raise if there is to be no other."""
        if attempt == self._retries:
            often = f" {attempt + 1} times, at last" if attempt else ""
            raise LLMError(
                f"the LLM at {self.host} failed{often}: {failure}; "
                "check that it is up, or try again later"
            )
        asked_s = failure.pause_s or 0.0
        if asked_s > PAUSE_S_MAX:
            raise LLMError(
                f"the LLM at {self.host} is busy ({failure}): ask again in {asked_s:.0f} s"
            )
        own_s: float = min(self._backoff_s * 2.0**attempt, PAUSE_S_MAX)
        return max(asked_s, own_s * _CHANCE.uniform(0.5, 1.0))

    async def _attempt(self, messages: list[dict[str, str]], limits: dict[str, Any]) -> Answer:
        try:
            with anyio.fail_after(self._timeout_s), _quiet():
                return self._read(await self._ask(messages, limits))
        except LLMError:
            raise
        except TimeoutError as error:
            raise _MayPassError(f"no answer within {self._timeout_s:g} s") from error
        except self._openai.APIStatusError as error:
            raise self._refusal(error) from None  # its text may quote what was asked
        except self._openai.APIConnectionError as error:
            why = type(error.__cause__ or error).__name__
            raise _MayPassError(f"no connection ({why})") from error
        except Exception as error:  # of httpx or httpx2, whichever the client brings: it broke
            raise _MayPassError(f"the connection broke ({type(error).__name__})") from error

    async def _ask(self, messages: list[dict[str, str]], limits: dict[str, Any]) -> bytes:
        """Return the body of the answer; learn which parameters the model does not take."""
        while True:
            try:
                return await self._post(messages, self._supported(limits))
            except self._openai.APIStatusError as error:
                name = _code(error.param)
                known = name not in _INSTEAD or name in self._unsupported
                if known or _code(error.code) not in _UNSUPPORTED:
                    raise
                self._unsupported.add(name)

    def _supported(self, limits: dict[str, Any]) -> dict[str, Any]:
        named = {
            _INSTEAD[name] if name in self._unsupported else name: value
            for name, value in limits.items()
        }
        return {name: value for name, value in named.items() if name is not None}

    async def _post(self, messages: list[dict[str, str]], limits: dict[str, Any]) -> bytes:
        asking = self._client.chat.completions.with_streaming_response
        body = bytearray()
        async with asking.create(model=self.model, messages=messages, **limits) as response:
            async for chunk in response.iter_bytes():
                body += chunk
                if len(body) > ANSWER_BYTES_MAX:
                    raise LLMError(f"the LLM at {self.host} sent more than 1 MiB: check the URL")
        return bytes(body)

    def _refusal(self, error: Any) -> Exception:
        """Return what to raise for an answer that is no success: by status and code only."""
        code = _code(error.code)
        what = f"HTTP {error.status_code}" + (f", {code}" if code else "")
        passing = error.status_code in _PASSING or error.status_code >= 500
        if passing and code not in _FINAL_CODES:
            return _MayPassError(what, _asked_pause_s(error.response.headers.get("retry-after")))
        return LLMError(
            f"the LLM at {self.host} refused ({what}): check key, base URL and model {self.model}"
        )

    def _read(self, body: bytes) -> Answer:
        try:
            choice = msgspec.json.decode(body, type=_Completion).choices[0]
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
            raise LLMError(
                f"the LLM at {self.host} answered with an empty text ({why}): "
                "try another model; if it is 'length', one that thinks less"
            )
        return Answer(text=text, cut=choice.finish_reason == "length")


class Connection(TypedDict, total=False):
    """How a model is reached. See `ChatClient`."""

    base_url: str | None
    api_key: str | None
    timeout_s: float
    retries: int
    client: ChatClient | None
    """Yours, instead: then the rest, and the model, are its own."""


class AsksModel:
    """What asks a model: through a client of its own, or through yours, which stays open.

    :raises MissingExtraError: openai is not installed.
    :raises InvalidInputError: a setting makes no sense, or model or key are missing.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 30.0,
        retries: int = 2,
        client: ChatClient | None = None,
    ):
        self._owns_client = client is None
        self._client = client or ChatClient(
            model, base_url=base_url, api_key=api_key, timeout_s=timeout_s, retries=retries
        )

    async def aclose(self) -> None:
        """Close the connections, unless the client is yours."""
        if self._owns_client:
            await self._client.aclose()


# --- settings, and what servers say


def _env(*names: str) -> str | None:
    """Return the first of some environment variables that is set to anything."""
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)


def _checked_model(model: str | None) -> str:
    if not model:
        raise InvalidInputError("which LLM? Pass model=, or set MEMORY_ACTORS_LLM_MODEL")
    return model


def _checked_key(api_key: str | None, *, needed: bool) -> str:
    key = (api_key or "").strip() or _env("MEMORY_ACTORS_LLM_API_KEY", "OPENAI_API_KEY")
    if key is None and needed:
        raise InvalidInputError(
            "OpenAI needs a key: set OPENAI_API_KEY, or base_url= to a server that needs none"
        )
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise InvalidInputError("the API key has characters that no key has: copy it again")
    return key or _NO_KEY


def _code(value: object) -> str:
    """Return what a server calls something, or "" if that is more than a short identifier."""
    return value if isinstance(value, str) and _CODE.fullmatch(value) else ""


def _asked_pause_s(retry_after: str | None) -> float | None:
    """Return the seconds of a Retry-After header, given as such or as a date; None for none."""
    if retry_after is None:
        return None
    try:
        pause_s = float(retry_after)
    except ValueError:
        try:
            pause_s = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except ValueError:
            return None
    return max(pause_s, 0.0) if math.isfinite(pause_s) else None


# --- the client library

_asking: ContextVar[bool] = ContextVar("memory_actors_llm_asking", default=False)


def _says_little(record: logging.LogRecord) -> bool:
    return not _asking.get() or record.levelno >= logging.WARNING


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the client's own log lines to warnings: clients before 3 log the question at DEBUG."""
    token = _asking.set(True)
    try:
        yield
    finally:
        _asking.reset(token)


def _openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise MissingExtraError(
            "an LLM needs openai: run `pip install 'memory-actors[llm]'`"
        ) from error
    logging.getLogger("openai._base_client").addFilter(_says_little)
    return openai

"""The client of language models, against a real server on loopback."""

import logging
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate
from typing import Any

import anyio
import pytest

from memory_actors import InvalidInputError, LLMError, MissingExtraError
from memory_actors.base.llm import ChatClient

pytest.importorskip("openai", reason="openai is not installed: pip install 'memory-actors[llm]'")
pytestmark = pytest.mark.anyio

Server = Any
"""Of `conftest`."""
KEY = "sk-SECRET-KEY"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)


@asynccontextmanager
async def chat(server: Server, **more: Any) -> AsyncIterator[ChatClient]:
    given = {"model": "tiny", "base_url": server.url, "api_key": KEY, **more}
    async with ChatClient(**given) as client:
        yield client


async def ask(server: Server, **more: Any) -> str:
    async with chat(server, **more) as client:
        answer = await client.answer("Be brief.", "Why?", max_tokens=800, temperature=0.3)
        return answer.text


async def test_a_question_is_asked_in_two_parts_with_its_limits(server: Server) -> None:
    assert await ask(server) == "A summary."
    assert server.bodies == [
        {
            "model": "tiny",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Why?"},
            ],
            "max_tokens": 800,
            "temperature": 0.3,
        }
    ]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "script",
    [
        [("fails", 500)],
        [("fails", 503), ("fails", 408)],
        [("fails", 429, {}, ("retry-after", "0.01"))],
        [("fails", 429, {}, ("retry-after", "nonsense"))],
        [("fails", 429, {}, ("retry-after", formatdate(0, usegmt=True)))],
        [("closes",)],
        [("hangs",)],
        [("hangs",), ("fails", 500)],
    ],
)
async def test_what_may_pass_is_tried_again(server: Server, script: list[Any]) -> None:
    server.script = list(script)
    assert await ask(server, timeout_s=0.6) == "A summary."
    assert len(server.bodies) == len(script) + 1
    assert all(body == server.bodies[0] for body in server.bodies)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (("fails", 500), "HTTP 500"),
        (("fails", 429, {"code": "rate_limit_exceeded"}), "HTTP 429, rate_limit_exceeded"),
        (("closes",), "no connection"),
        (("hangs",), "no answer within 0.15 s"),
    ],
)
async def test_it_gives_up_after_the_last_attempt(server: Server, step: Any, said: str) -> None:
    server.script = [step] * 9
    timeout_s = 0.15 if "no answer" in said else 10.0
    with pytest.raises(LLMError, match=f"127.0.0.1 failed 3 times, at last: {said}"):
        await ask(server, timeout_s=timeout_s)
    assert len(server.bodies) == 3


@pytest.mark.parametrize(
    ("step", "said"), [("breaks", "the connection broke"), ("trickles", "no answer within 0.15 s")]
)
async def test_an_unfinished_answer_is_a_failure(server: Server, step: str, said: str) -> None:
    """An answer that breaks off, or never ends, is a failure."""
    server.script = [(step,)]
    timeout_s = 0.15 if "no answer" in said else 10.0
    with pytest.raises(LLMError, match=f"127.0.0.1 failed: {said}"):
        await ask(server, timeout_s=timeout_s)


@pytest.mark.parametrize(
    "step",
    [
        ("fails", 400, {"code": "context_length_exceeded", "message": "Why?"}),
        ("fails", 401, {"code": "invalid_api_key"}),
        ("fails", 404),
        ("fails", 400, {"param": [], "code": {}}),
        ("fails", 400, {"param": "max_tokens", "code": ["Why?"]}),
        ("fails", 302, {}, ("location", "http://127.0.0.1:1/")),
        ("fails", 429, {}, ("retry-after", "3600")),
        ("sends", b""),
        ("sends", b"not JSON"),
        ("sends", b"<html><body>It works!</body></html>"),
        ("sends", b"{}"),
        ("sends", b"[]"),
        ("sends", b"[" * 100_000),
        ("sends", b'{"choices": []}'),
        ("sends", b'{"choices": [{"message": {"content": 7}}]}'),
        ("sends", b'{"choices": [{"message": {"content": "\\ud800 and more"}}]}'),
        ("sends", b'{"choices": [{"message": {"content": "\xff"}}]}'),
        ("sends", b'{"error": {"message": "no"}}'),
        ("says", None),
        ("says", ""),
        ("says", "  \n "),
        ("says", "<think>What now?</think>\n"),
        ("says", "<think>What now", "length"),
        ("floods",),
    ],
)
async def test_what_cannot_pass_is_not_tried_again(server: Server, step: Any) -> None:
    server.script = [step]
    with pytest.raises(LLMError, match=r"the LLM at 127\.0\.0\.1 ") as why:
        await ask(server, timeout_s=5)
    assert len(server.bodies) == 1
    assert "Why?" not in str(why.value)
    assert KEY not in str(why.value)


async def test_a_retry_after_is_waited_for(server: Server) -> None:
    server.script = [("fails", 429, {}, ("retry-after", "0.3"))]
    began = time.monotonic()
    await ask(server)
    assert 0.3 <= time.monotonic() - began < 2


async def test_cancelling_stops_at_once(server: Server) -> None:
    server.script = [("hangs",)]
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(ask, server)
            while not server.bodies:
                await anyio.sleep(0.01)
            scope.cancel()
    assert scope.cancelled_caught
    assert len(server.bodies) == 1


async def test_parameters_that_a_model_refuses_are_left_out(server: Server) -> None:
    """Reasoning models want another name for one parameter, and refuse the other."""

    def refuses(param: str, code: str) -> Any:
        return ("fails", 400, {"param": param, "code": code, "message": "no"})

    server.script = [
        refuses("max_tokens", "unsupported_parameter"),
        refuses("temperature", "unsupported_value"),
    ]
    async with chat(server, retries=0) as client:
        for _ in range(2):
            await client.answer("", "", max_tokens=800, temperature=0.3)
    asked = [{*body} - {"model", "messages"} for body in server.bodies]
    assert asked == [
        {"max_tokens", "temperature"},
        {"max_completion_tokens", "temperature"},
        {"max_completion_tokens"},
        {"max_completion_tokens"},
    ]


async def test_neither_content_nor_key_is_logged(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.script = [("fails", 500, {"message": "PRIVATE"}), ("says", "SECRET ANSWER")]
    async with chat(server) as client:
        await client.answer("SECRET SYSTEM", "SECRET QUESTION", max_tokens=1, temperature=0)
    assert "SECRET" not in caplog.text
    assert "PRIVATE" not in caplog.text


async def test_the_environment_says_where_to_ask(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_ACTORS_LLM_MODEL", "from-env")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("MEMORY_ACTORS_LLM_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "general")
    for key in ("general", "ours"):
        async with ChatClient() as client:
            await client.answer("", "", max_tokens=1, temperature=0)
        assert server.headers[-1]["authorization"] == f"Bearer {key}"
        monkeypatch.setenv("MEMORY_ACTORS_LLM_API_KEY", "ours")
    assert server.bodies[0]["model"] == "from-env"


@pytest.mark.parametrize(
    "bad",
    [
        {"model": None}, {"base_url": None}, {"base_url": "ftp://x/"}, {"base_url": "localhost"},
        {"base_url": "http://[x"}, {"timeout_s": 0}, {"retries": -1},
        {"api_key": "k\u00e9y"}, {"api_key": "two words"},
    ],
)  # fmt: skip
def test_a_client_that_cannot_work_is_refused(server: Server, bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        ChatClient(**{"model": "m", "base_url": "http://x/v1", **bad})


def test_a_missing_openai_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtraError, match=r"memory-actors\[llm\]"):
        ChatClient("m", base_url="http://x/v1")

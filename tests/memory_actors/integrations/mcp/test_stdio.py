"""`memory-actors mcp`: the real program in processes of its own, several on one directory."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
ROOT = Path(__file__).parents[4]
PROGRAM = """
import sys
from bench.hashed import HashedEmbedder
from memory_actors.cli import App, main
main(obj=App(embedder=HashedEmbedder()), prog_name="memory-actors")
"""
START_S_MAX = 60


def server(data: Path, *more: str) -> StdioServerParameters:
    arguments = ["-c", PROGRAM, "--data", str(data), "--user", "ada", "mcp", *more]
    return StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT)


async def remember(client: Client, content: str) -> None:
    done = await client.call_tool("remember", {"content": content})
    assert not done.is_error, done.content


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_what_one_process_remembers_the_next_recalls(tmp_path: Path, mode: str) -> None:
    async with Client(server(tmp_path), mode=mode) as client:
        assert client.server_info.name == "memory-actors"
        assert "long-term memory" in (client.instructions or "")
        await remember(client, "Ann likes tea")
    async with Client(server(tmp_path), mode=mode) as client:
        found = (await client.call_tool("recall", {"query": "tea"})).structured_content
        assert [one["content"] for one in found["memories"]] == ["Ann likes tea"]


# --- as bytes

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "a test", "version": "1"},
}


class Raw:
    """A server, and what is on its pipes."""

    def __init__(self, process: subprocess.Popen[bytes]):
        self.process = process
        self._number = 0

    def ask(self, method: str, params: Any) -> Any:
        self._number += 1
        self.say({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self.hear(self._number)

    def say(self, message: Any) -> None:
        self.write(json.dumps(message).encode())

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def hear(self, number: int | str | None = None) -> Any:
        """Return the answer to a request; each line before it must be JSON-RPC, too."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            if message.get("id") == number:
                return message
        raise AssertionError("the server ended")


@contextmanager
def running(data: Path, *more: str) -> Iterator[Raw]:
    given = server(data, *more)
    with subprocess.Popen(
        [given.command, *given.args], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            yield Raw(process)
        finally:
            process.kill()


JUNK = (
    b"",
    b"hello",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b"[" * 5_000,
    b'{"id": ' + b"9" * 5_000 + b"}",
    b'{"jsonrpc": "2.0"}',
    b'{"jsonrpc": "1.0", "id": 1}',
    b'{"jsonrpc": "2.0", "method": "tools/call"}',
    b'{"jsonrpc": "2.0", "id": 9, "method": "ping", "params": {"lone surrogate": "\\ud800"}}',
)
BAD = (
    ("tools/call", {}),
    ("tools/call", {"name": 7}),
    ("tools/call", {"name": "remember", "arguments": []}),
    ("tools/call", {"name": "x" * 100_000}),
    ("resources/read", {"uri": "file:///etc/passwd"}),
    ("no/such/method", {}),
)


def test_junk_is_answered_or_ignored_and_the_server_goes_on(tmp_path: Path) -> None:
    with running(tmp_path) as raw:
        raw.ask("initialize", INITIALIZE)
        raw.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        for line in JUNK:
            raw.write(line)
        for method, params in BAD:
            assert raw.ask(method, params)["error"]["code"] < 0, method
        given = {"name": "remember", "arguments": {"content": "Ann likes tea"}}
        assert not raw.ask("tools/call", given)["result"]["isError"]


def test_every_request_is_answered_also_with_half_a_pair_or_a_mark(tmp_path: Path) -> None:
    """Programs that cut texts by UTF-16 units leave halves; some begin with a byte order mark."""
    call = b'{"jsonrpc": "2.0", "id": %d, "method": "tools/call", "params": {"name": "remember", '
    call += b'"arguments": {"content": "%s"}}}'
    with running(tmp_path) as raw:
        raw.ask("initialize", INITIALIZE)
        said = [
            (b"cut \\ud83d", "cut \ufffd"), (b"\\udE00 cut", "\ufffd cut"),
            (b"\\ud83d\\ude00 whole", "\U0001f600 whole"), (b"a \\\\ud83d path", "a \\ud83d path"),
            (b"\xff", "\ufffd"),
        ]  # fmt: skip
        for number, (text, _) in enumerate(said, start=10):
            raw.write(b"\xef\xbb\xbf" * (number % 2) + call % (number, text))
            assert not raw.hear(number)["result"]["isError"]
        listed = raw.ask("tools/call", {"name": "list_memories", "arguments": {}})
        found = {one["content"] for one in listed["result"]["structuredContent"]["memories"]}
        assert found == {text for _, text in said}
        raw.write(b'{"jsonrpc": "1.0", "id": 20, "method": "ping"}')
        assert raw.hear(20)["error"]["code"] == -32600
        raw.write(b'{"jsonrpc": "2.0", "id": 21, ')
        assert raw.hear(21)["error"]["code"] == -32700
        nested = b"[" * 5_000 + b"]" * 5_000
        raw.write(b'{"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": %s}' % nested)
        assert raw.hear("x")["error"]["code"] < 0
        raw.write(b"no message")
        assert raw.hear(None)["error"]["code"] == -32700


def test_a_request_is_answered_however_its_id_and_arguments_are_written(tmp_path: Path) -> None:
    """Some clients hold all numbers as doubles; others send the arguments as JSON text."""
    call = b'{"jsonrpc": "2.0", "id": %b, "method": "tools/call", "params": '
    call += b'{"name": "recall", "arguments": %b}}'
    with running(tmp_path) as raw:
        raw.ask("initialize", INITIALIZE)
        for written, number in ((b"30.0", 30), (b"3.1e1", 31), (b'"\\ud83d"', "\ufffd")):
            raw.write(b'{"jsonrpc": "2.0", "id": %b, "method": "ping"}' % written)
            assert raw.hear(number)["result"] == {}
        for written in (b"null", b"true", b"1.5", b"[]"):
            raw.write(b'{"jsonrpc": "2.0", "id": %b, "method": "ping"}' % written)
            assert raw.hear(None)["error"]["code"] == -32600
        for number, given in enumerate(
            [b'"{\\"query\\": \\"tea\\"}"', b'{"query": "tea"}'], start=40
        ):
            raw.write(call % (b"%d.0" % number, given))
            assert not raw.hear(number)["result"]["isError"]
        for number, given in enumerate([b'""', b'"null"', b"null", b'"[1]"', b'"tea"'], start=50):
            raw.write(call % (b"%d" % number, given))
            answer = raw.hear(number)
            assert "error" in answer or answer["result"]["isError"]


def test_the_program_and_the_server_load_nothing_of_it() -> None:
    code = (
        "import sys, memory_actors.cli, memory_actors.server; from memory_actors import *; "
        "assert not {'mcp', 'mcp_types', 'starlette', 'pydantic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_it_ends_when_its_client_does(tmp_path: Path) -> None:
    with running(tmp_path) as raw:
        raw.ask("initialize", INITIALIZE)
        assert raw.process.stdin is not None
        raw.process.stdin.close()
        assert raw.process.wait(timeout=START_S_MAX) == 0

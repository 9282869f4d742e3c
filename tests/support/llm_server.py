"""A server on loopback that speaks, or fails to speak, like a language model's."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from support.fakes import FakeEmbedder


class Server:
    """The requests of a server, and its script: a method of `Handler` and its arguments.

    It answers properly when the script has ended.
    """

    def __init__(self) -> None:
        self.script: list[tuple[Any, ...]] = []
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.done = threading.Event()
        self.url = ""
        self.refused: str | None = None
        """A text that it embeds in no batch."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    state: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.state.headers.append({name.lower(): value for name, value in self.headers.items()})
        self.state.bodies.append(json.loads(body))
        self.close_connection = True
        usual = ("embeds",) if self.path.endswith("/embeddings") else ("says", "A summary.")
        name, *given = self.state.script.pop(0) if self.state.script else usual
        getattr(self, name)(*given)

    def says(self, text: str | None, finish_reason: str = "stop") -> None:
        """Answer properly."""
        message = {"role": "assistant", "content": text}
        if self.path == "/api/chat":  # Ollama's own protocol
            done = {"message": message, "done": True, "done_reason": finish_reason}
            return self.sends(json.dumps(done).encode())
        choice = {"index": 0, "message": message, "finish_reason": finish_reason}
        return self.sends(json.dumps({"object": "chat.completion", "choices": [choice]}).encode())

    def embeds(self, dimension: int = 384) -> None:
        """Answer with a vector for each text, last one first: an index says which is whose."""
        texts = self.state.bodies[-1]["input"]
        if self.state.refused in texts:
            self.fails(400)
            return
        vectors = FakeEmbedder(dimension=dimension).embed(texts).tolist()
        data = [{"index": n, "embedding": one} for n, one in reversed([*enumerate(vectors)])]
        self.sends(json.dumps({"object": "list", "data": data}).encode())

    def sends(self, body: bytes) -> None:
        """Answer 200 with anything."""
        self.reply(200, body)

    def fails(
        self, code: int, error: dict[str, str] | None = None, header: tuple[str, str] | None = None
    ) -> None:
        """Answer with a status."""
        self.reply(code, json.dumps({"error": error or {}}).encode(), header=header)

    def hangs(self) -> None:
        """Never answer."""
        self.state.done.wait(30)

    def trickles(self) -> None:
        """Send a byte now and then: no single read ever takes long."""
        self.reply(200, b"", length=100_000)
        while not self.state.done.wait(0.02):
            if not self.writes(b" "):
                return

    def floods(self) -> None:
        """Send more than anybody reads."""
        self.reply(200, b"", length=1 << 40)
        while not self.state.done.is_set() and self.writes(b" " * 65_536):
            pass

    def closes(self) -> None:
        """Close the connection without a word."""

    def breaks(self) -> None:
        """Close the connection in the middle of the body."""
        self.reply(200, b'{"choices": [{"mess', length=4_000)

    def writes(self, data: bytes) -> bool:
        try:
            self.wfile.write(data)
        except OSError:
            return False
        return True

    def reply(
        self,
        code: int,
        body: bytes,
        *,
        length: int | None = None,
        header: tuple[str, str] | None = None,
    ) -> None:
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body) if length is None else length))
        if header is not None:
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


class Http(ThreadingHTTPServer):
    """Takes many connections at once."""

    request_queue_size = 64


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serve on loopback, with no setting from the environment of whoever runs the tests."""
    for name in ("API_KEY", "BASE_URL", "ORG_ID", "PROJECT_ID"):
        monkeypatch.delenv(f"OPENAI_{name}", raising=False)
    for name in ("API_KEY", "BASE_URL", "MODEL"):
        monkeypatch.delenv(f"MEMORY_ACTORS_LLM_{name}", raising=False)
    state = Server()
    handler = type("Bound", (Handler,), {"state": state})
    with Http(("127.0.0.1", 0), handler) as http:
        state.url = f"http://127.0.0.1:{http.server_port}/v1"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield state
        state.done.set()
        http.shutdown()
        thread.join()

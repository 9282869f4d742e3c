"""A language model that always says the same, behind the two protocols that coding agents speak."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LanguageModel:
    """A model with one fixed answer, which records its questions."""

    def __init__(self, says: str):
        self.says = says
        self.asked: list[str] = []
        self.url = ""


@contextmanager
def language_model(says: str) -> Iterator[LanguageModel]:
    """Serve a model on a port of this machine."""
    model = LanguageModel(says)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            model.asked.append(body)
            events = anthropic(says) if "/messages" in self.path else openai(says)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for event in events:
                kind = f"event: {event['type']}\n" if "type" in event else ""
                self.wfile.write(f"{kind}data: {json.dumps(event)}\n\n".encode())
            if "/messages" not in self.path:
                self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def openai(says: str) -> list[dict[str, Any]]:
    """Return the chunks of a chat completion."""
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    whole = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas: list[tuple[dict[str, str], str | None]] = [
        ({"role": "assistant", "content": says}, None),
        ({}, "stop"),
    ]
    return [
        {**whole, "usage": usage, "choices": [{"index": 0, "delta": one, "finish_reason": end}]}
        for one, end in deltas
    ]


def anthropic(says: str) -> list[dict[str, Any]]:
    """Return the events of a message."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    delta = {"type": "text_delta", "text": says}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]

"""The messages of clients as bytes: repaired where the meaning is clear, else answered.

Some programs cut texts within surrogate pairs, begin with a byte order mark, hold all numbers as
doubles (`"id": 1.0`), or send the arguments of a call as JSON text.
"""

import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from io import TextIOWrapper
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from memory_actors.base.json_text import decoded, without_halves

BYTE_ORDER_MARK: Final = "\ufeff"
REQUEST_ID: Final = re.compile(r'"id"\s*:\s*(-?\d{1,18}\b|"(?:[^"\\]|\\.){0,200}")')


class StdinMessages:
    """The messages on stdin, repaired; a line that is none is answered with an error."""

    answers: Any = None

    async def __aiter__(self) -> AsyncIterator[str]:
        stdin = TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
        async for line in anyio.wrap_file(stdin):
            message = repaired(line)
            if message.strip():
                refused = refusal(message)
                if refused is None:
                    yield message
                else:
                    await self.answers.send(SessionMessage(refused))


def repaired(text: str) -> str:
    """Return a message without what other JSON writers add or break."""
    text = without_halves(text.lstrip(BYTE_ORDER_MARK))
    said = decoded(text)
    if not isinstance(said, dict):
        return text
    better: dict[str, object] = {}
    params = said.get("params")
    if isinstance(said.get("id"), float) and said["id"].is_integer():
        better["id"] = int(said["id"])
    if isinstance(params, dict) and isinstance(params.get("arguments"), str):
        given = decoded(params["arguments"] or "null")
        if isinstance(given, dict) or params["arguments"].strip() in ("", "null"):
            better["params"] = {**params, "arguments": given}
    return json.dumps(said | better) if better else text


def refusal(text: str) -> types.JSONRPCError | None:
    """Return the answer to a text that is no message of the protocol, or None."""
    try:
        message = types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError as error:
        return _refused(text, f"{error!s:.200}")
    # Without an id that can be answered, the validation takes a request for a notification.
    if isinstance(message, types.JSONRPCNotification) and "id" in json.loads(text):
        return _refused(text, "the id of a request is a text or a whole number")
    return None


def _refused(text: str, why: str) -> types.JSONRPCError:
    code, its_id = types.PARSE_ERROR, None
    found = REQUEST_ID.search(text)  # also where the rest cannot be read
    with suppress(ValueError, RecursionError):
        its_id = json.loads(found[1]) if found else None
        said = json.loads(text)
        code, its_id = types.INVALID_REQUEST, said.get("id") if isinstance(said, dict) else None
    told = types.ErrorData(code=code, message=f"This is no message of MCP: {why}")
    known = its_id if isinstance(its_id, str | int) and not isinstance(its_id, bool) else None
    return types.JSONRPCError(jsonrpc="2.0", id=known, error=told)

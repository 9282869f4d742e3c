"""A user's memory as plain functions, for whatever takes functions as tools of a model.

`memory_tools(user)` gives `remember`, `recall`, `update_memory` and `delete_memory`. Their names,
types and docstrings are what a framework tells the model; parameters are described in Google's
style, which all frameworks read. Each returns a text for the model, also where it was refused.
"""

import inspect
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from memory_actors import sync
from memory_actors.base.errors import InvalidInputError, NotFoundError, QuotaExceededError
from memory_actors.base.package import doc_of
from memory_actors.base.records import Hit, Trust
from memory_actors.integrations.adapting import AnyUser, checked_user
from memory_actors.sharing.system import UserMemory

Tool = Callable[..., Any]
TOP_K: Final = 5


def memory_tools(user: AnyUser) -> list[Tool]:
    """Return the functions `remember`, `recall`, `update_memory` and `delete_memory` of a user.

    They are async for a user of `MemorySystem`, and not for one of `memory_actors.sync`, whose
    functions may be called from any thread. Their writes have the handle's source:
    `memory_tools(user.from_source("support agent", "untrusted"))`.
    """
    return [_bound(tool, checked_user(user)) for tool in TOOLS]


async def remember(user: UserMemory, content: str) -> str:
    """Store one fact about the user or their work, for later conversations.

    Use it when the user tells you something that will matter later (a preference, a decision, a
    name, a date) or asks you to remember it. Store a fact that has changed as a new one: the old
    one is marked as superseded by itself.

    Args:
        content: One fact in words that make sense alone: names and dates, no 'he' or 'today'.
    """
    receipt = await user.add(content)
    done = {"seen": "Known already", "pending": "Waits for a review"}
    return f"{done.get(receipt.operation, 'Remembered')}: memory_id {receipt.memory_id}"


async def recall(user: UserMemory, query: str, top_k: int = TOP_K) -> str:
    """Find the memories that best answer a question, by meaning and by words.

    Use it when the user refers to something from before, or an answer may depend on who they are
    and what they like. Ask before you say that you do not know.

    Args:
        query: What you want to know, in words: a question or a topic.
        top_k: How many memories at most.
    """
    hits = await user.retrieve(query, top_k=top_k)
    if not hits:
        return f"No memory of {user.user_id} answers {query!r}."
    return "\n".join(map(_line, hits))


async def update_memory(user: UserMemory, memory_id: str, content: str) -> str:
    """Replace what a memory says.

    Use it when a memory was wrong from the start. If it was right and things changed, use remember.

    Args:
        memory_id: The memory_id that recall or remember returned.
        content: What it shall say instead.
    """
    await user.update(memory_id, content=content)
    return f"Updated: memory_id {memory_id}"


async def delete_memory(user: UserMemory, memory_id: str) -> str:
    """Delete a memory.

    Use it when the user asks you to forget something. Find its memory_id with recall first.

    Args:
        memory_id: The memory_id that recall or remember returned.
    """
    await user.delete(memory_id)
    return f"Deleted: memory_id {memory_id}"


TOOLS: Final = (remember, recall, update_memory, delete_memory)


def _bound(function: Callable[..., Awaitable[str]], user: AnyUser) -> Tool:
    def blocking(*args: object, **kwargs: object) -> str:
        return sync.on_loop(user, partial(_answered, function, args=args, kwargs=kwargs))

    async def awaited(*args: object, **kwargs: object) -> str:
        return await _answered(function, user, args=args, kwargs=kwargs)

    tool: Any = blocking if isinstance(user, sync.UserMemory) else awaited
    signature = inspect.signature(function)
    _, *parameters = signature.parameters.values()
    tool.__signature__ = signature.replace(parameters=parameters)
    tool.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": str}
    tool.__name__ = tool.__qualname__ = function.__name__
    tool.__doc__ = doc_of(function)
    bound: Tool = tool
    return bound


async def _answered(
    function: Callable[..., Awaitable[str]], user: object, *, args: Any, kwargs: Any
) -> str:
    """Call a function and return its answer; what a model can change, it reads."""
    try:
        return await function(user, *args, **kwargs)
    except (InvalidInputError, NotFoundError, QuotaExceededError) as error:
        return f"Error: {error}"


def _line(hit: Hit) -> str:
    """Return a memory as a line of JSON: no content can be read as another memory."""
    said: dict[str, object] = {"memory_id": hit.memory_id, "content": hit.content}
    said["occurred_at"] = hit.occurred_at.isoformat(timespec="seconds")
    if hit.superseded_by is not None:
        said["superseded_by"] = hit.superseded_by
    if hit.trust is Trust.UNTRUSTED:
        said["trust"] = hit.trust
    return json.dumps(said, ensure_ascii=False)

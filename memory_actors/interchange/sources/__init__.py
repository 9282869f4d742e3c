"""The programs that memories come from: a reader each, and this list."""

from collections.abc import Mapping
from typing import Final

from memory_actors.interchange.sources import (
    chats,
    chroma,
    claude_mem,
    langgraph,
    letta,
    markdown,
    mcp_memory,
    mem0,
    zep,
)
from memory_actors.interchange.sources.port import Read

SOURCES: Final[Mapping[str, Read]] = {
    "mem0": mem0.read,
    "zep": zep.read,
    "letta": letta.read,
    "langgraph": langgraph.read,
    "chroma": chroma.read,
    "mcp-memory": mcp_memory.read,
    "chatgpt": chats.read_chatgpt,
    "claude": chats.read_claude,
    "claude-mem": claude_mem.read,
    "mempalace": chroma.read_mempalace,
    "basic-memory": markdown.read_basic_memory,
    "memory-md": markdown.read_memory_md,
}
"""The reader of each program's files. To add one, write a module and name it here."""
OF_MARKDOWN: Final = ("basic-memory", "memory-md")
"""The programs as whose any text reads."""

__all__ = ["OF_MARKDOWN", "SOURCES", "Read"]

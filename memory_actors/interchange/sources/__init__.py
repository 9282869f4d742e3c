"""The programs that memories come from: a module each, and this list."""

from collections.abc import Mapping
from typing import Final

from memory_actors.interchange.sources import (
    basic_memory,
    chatgpt,
    chroma,
    claude,
    claude_mem,
    langgraph,
    letta,
    mcp_memory,
    mem0,
    memory_md,
    mempalace,
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
    "chatgpt": chatgpt.read,
    "claude": claude.read,
    "claude-mem": claude_mem.read,
    "mempalace": mempalace.read,
    "basic-memory": basic_memory.read,
    "memory-md": memory_md.read,
}
"""The reader of each program's files. A new one is a module, and its name here."""
OF_MARKDOWN: Final = ("basic-memory", "memory-md")
"""The programs as whose any text reads."""

__all__ = ["OF_MARKDOWN", "SOURCES", "Read"]

"""The programs that memories come from: a module each, and this list."""

from collections.abc import Mapping
from typing import Final

from memory_actors.interchange.sources import (
    basic_memory,
    chatgpt,
    chroma,
    claude,
    langgraph,
    letta,
    mcp_memory,
    mem0,
    memory_md,
    zep,
)
from memory_actors.interchange.sources.found import ImportSource

SOURCES: Final[Mapping[str, ImportSource]] = {
        module.SOURCE.name: module.SOURCE
        for module in (
            mem0, zep, letta, langgraph, chroma, mcp_memory, chatgpt, claude, basic_memory,
            memory_md,
        )
    }  # fmt: skip
"""Every source by its name. A new one is a module with a `SOURCE`, and its name here."""

__all__ = ["SOURCES", "ImportSource"]

"""The programs that memories go to: a module each, and this list."""

from types import MappingProxyType
from typing import Final

from memory_actors.interchange.targets import chroma, mcp_memory, mem0, parquet
from memory_actors.interchange.targets.target import Target

TARGETS: Final = MappingProxyType(
    {module.TARGET.name: module.TARGET for module in (mem0, mcp_memory, chroma, parquet)}
)
"""Every target by its name."""

__all__ = ["TARGETS", "Target"]

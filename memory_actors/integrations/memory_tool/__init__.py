"""The file-style memory tool that models know, on top of a user's context documents."""

from memory_actors.integrations.memory_tool.paths import MemoryToolError
from memory_actors.integrations.memory_tool.tool import MemoryTool

__all__ = ["MemoryTool", "MemoryToolError"]

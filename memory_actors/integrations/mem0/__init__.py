"""mem0's classes over this memory: `from memory_actors.integrations.mem0 import Memory`.

mem0 itself is not needed. docs/integrations/mem0.md says how its scopes become users and sessions,
and lists each difference.
"""

from memory_actors.integrations.mem0.blocking import Memory
from memory_actors.integrations.mem0.memory import AsyncMemory
from memory_actors.integrations.mem0.shapes import MemoryError, ValidationError  # noqa: A004

__all__ = ["AsyncMemory", "Memory", "MemoryError", "ValidationError"]

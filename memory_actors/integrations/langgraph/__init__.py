"""A store for LangGraph. See docs/integrations/langgraph.md."""

from memory_actors.base.errors import importing
from memory_actors.integrations.adapting import NEEDS

with importing(NEEDS, "langgraph"):
    from memory_actors.integrations.langgraph.store import MemoryActorsStore

__all__ = ["MemoryActorsStore"]

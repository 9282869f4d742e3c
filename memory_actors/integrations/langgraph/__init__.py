"""A store for LangGraph. See docs/integrations/langgraph.md."""

from memory_actors.integrations.adapting import missing

try:
    from memory_actors.integrations.langgraph.store import MemoryActorsStore
except ImportError as error:
    raise missing("langgraph", error) from error

__all__ = ["MemoryActorsStore"]

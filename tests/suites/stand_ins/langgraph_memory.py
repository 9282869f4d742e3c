"""Stands in for `langgraph.store.memory`: its store in a directory that goes with it."""

import weakref
from contextlib import ExitStack
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

from memory_actors import sync
from memory_actors.integrations.langgraph import MemoryActorsStore
from memory_actors.search.embedding.default import DefaultEmbedder
from suites.stand_ins import replace


@cache
def embedder() -> DefaultEmbedder:
    """Return the one model for all stores of the process; it is loaded, as tests measure time."""
    made = DefaultEmbedder()
    made.embed(["a text"])
    return made


class InMemoryStore(MemoryActorsStore):
    """Ours, in the place of LangGraph's own that forgets."""

    def __init__(self, *, index: Any = None):
        held = ExitStack()
        directory = held.enter_context(TemporaryDirectory())
        memory = held.enter_context(sync.MemorySystem.open(directory, embedder=embedder()))
        weakref.finalize(self, held.close)
        super().__init__(memory, index=index)


def install() -> None:
    """Put it there."""
    replace("langgraph.store.memory", InMemoryStore=InMemoryStore)

"""Other systems that remember for an agent, each behind one small adapter, and ours behind another.

An adapter uses its system as that system's own documentation does, with its defaults, and plugs our
vectors into the system's own place for an embedder: only the store and the ranking differ. The
modules are imported in a child process only, so a peer that is missing or broken costs its row.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import NamedTuple

from bench.peer_stores.base import Embed, Memory, Peer, Unavailable

__all__ = ["PEERS", "Embed", "Memory", "Peer", "Spec", "Unavailable", "load", "missing", "versions"]


class Spec(NamedTuple):
    """The place of an adapter, and its needs."""

    adapter: str
    """`module:class`, in this package."""
    modules: tuple[str, ...]
    """Modules that must be importable."""
    distributions: tuple[str, ...]
    """Packages whose versions are told: names on PyPI, of which some may be alternatives."""


PEERS = {
    "memory-actors": Spec("ours:Ours", ("memory_actors",), ("memory-actors",)),
    "chroma": Spec("chroma:Chroma", ("chromadb",), ("chromadb",)),
    "mem0": Spec("mem0:Mem0", ("mem0", "qdrant_client"), ("mem0ai", "qdrant-client")),
    "mem0+bm25": Spec(
        "mem0:Mem0WithKeywords",
        ("mem0", "qdrant_client", "fastembed"),
        ("mem0ai", "qdrant-client", "fastembed"),
    ),
    "langgraph": Spec(
        "langgraph:LangGraph", ("langgraph.store.sqlite",), ("langgraph-checkpoint-sqlite",)
    ),
    "lancedb": Spec("lancedb:LanceDB", ("lancedb",), ("lancedb",)),
    "mempalace": Spec("mempalace:MemPalace", ("mempalace",), ("mempalace",)),
    "txtai": Spec("txtai:Txtai", ("txtai", "faiss"), ("txtai_minimal", "txtai", "faiss-cpu")),
    "rank_bm25": Spec("rank_bm25:RankBM25", ("rank_bm25",), ("rank-bm25",)),
}


def missing(spec: Spec) -> str | None:
    """Return why a peer cannot even be tried, or None."""
    absent = [module for module in spec.modules if not _found(module)]
    if not absent:
        return None
    return f"not installed: {', '.join(absent)} (pip install 'memory-actors[peers]')"


def load(name: str) -> Peer:
    """Return the adapter of a peer, not opened yet; this imports the peer."""
    module, _, cls = PEERS[name].adapter.partition(":")
    peer: Peer = getattr(import_module(f"{__name__}.{module}"), cls)()
    return peer


def versions(name: str) -> str:
    """Return the installed versions of what a peer is made of."""
    installed = [f"{one} {found}" for one in PEERS[name].distributions if (found := _version(one))]
    return ", ".join(installed) or "from source"


def _found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of its parent
        return False


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None

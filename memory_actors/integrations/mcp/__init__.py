"""MCP: a user's memory as tools for Claude, Cursor, VS Code and whoever else speaks the protocol.

`memory-actors mcp` serves it over stdio; `memory-actors serve` over HTTP, at /mcp, by API key. The
extra `mcp` brings what it needs. See docs/integrations/mcp.md.
"""

from collections.abc import Sequence
from importlib.util import find_spec

from memory_actors.base.errors import MissingExtraError
from memory_actors.sharing.system import MemorySystem

__all__ = ["TOOL_SETS", "check_installed", "serve_stdio"]

TOOL_SETS = ("memory", "graph", "files")
"""The sets of tools that there are; the first is the default."""


async def serve_stdio(
    memory: MemorySystem, user_id: str, tool_sets: Sequence[str] = TOOL_SETS[:1]
) -> None:
    """Serve a user's memory over stdin and stdout, until stdin ends.

    :raises MissingExtraError: the package `mcp` is not installed.
    :raises InvalidInputError: there is no such set of tools.
    """
    check_installed()
    from memory_actors.integrations.mcp.serving import serve_stdio as run

    await run(memory, user_id, tool_sets)


def check_installed() -> None:
    """See that the extra is there, without loading it.

    :raises MissingExtraError: it is not.
    """
    if find_spec("mcp") is None:
        raise MissingExtraError("MCP needs mcp: run `pip install 'memory-actors[mcp]'`")

"""MCP: a user's memory as tools for Claude, Cursor, VS Code and whoever else speaks the protocol.

`memory-actors mcp` serves it over stdio; `memory-actors serve` over HTTP, at /mcp, by API key. The
extra `mcp` brings what it needs. See docs/integrations/mcp.md.
"""

from importlib.util import find_spec

from memory_actors.base.errors import MissingExtraError

__all__ = ["TOOL_SETS", "check_installed"]

TOOL_SETS = ("memory", "graph", "files", "review")
"""The sets of tools that there are; the first is the default."""


def check_installed() -> None:
    """See that the extra is there, without loading it, or raise `MissingExtraError`."""
    if find_spec("mcp") is None:
        raise MissingExtraError("MCP needs mcp: run `pip install 'memory-actors[mcp]'`")

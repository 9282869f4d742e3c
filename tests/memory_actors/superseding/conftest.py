"""A language model's server on loopback."""

from support.llm_server import server

__all__ = ["server"]

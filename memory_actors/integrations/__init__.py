"""Memory behind the interfaces of others: SDKs of agents, MCP, coding agents, files."""

"""Memory behind the interfaces of others: the memory tool, context documents as files."""

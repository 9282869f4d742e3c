"""The event store in PostgreSQL, for many processes on many machines: see store.py."""

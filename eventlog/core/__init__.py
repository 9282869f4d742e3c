"""The event store as a port, without a database: capabilities, records, frames, deciders."""

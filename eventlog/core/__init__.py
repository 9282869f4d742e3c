"""The event store as a port, without a database: records, frames, deciders, a store in memory."""

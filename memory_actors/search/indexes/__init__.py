"""Indexes: derived from a user's state, kept in memory, made again when they do not load."""

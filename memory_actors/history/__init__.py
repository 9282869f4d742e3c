"""Answers for an audit, from the log: past states, changes between them, and reasons."""

"""Encryption, the file of its keys, and heads that may be signed."""

"""The kinds of memory. See kind.py for what they have in common."""

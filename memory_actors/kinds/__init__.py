"""The kinds of memory, one file each. See kind.py for what they have in common."""

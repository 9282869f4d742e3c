"""What callers hold: `MemorySystem`, the handles of users, and how the parts are wired."""

"""`MemorySystem` and `UserMemory`, the list of their operations, and the wiring of the parts."""

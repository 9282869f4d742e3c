"""One memory, many processes: the first opens the store, and the others are its clients."""

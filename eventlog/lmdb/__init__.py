"""The log on LMDB: the environment, its tables, the writer thread, reads."""

"""Maintenance of a log: archiving, backup, copies, verification, repair."""

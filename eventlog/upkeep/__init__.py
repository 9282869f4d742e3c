"""A log kept in order: archiving, backup, verification, repair, increments."""

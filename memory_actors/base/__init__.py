"""The base of all rooms: records, errors, settings, limits, checks of input."""

"""The base of all packages: records, errors, settings, limits, checks of input."""

"""Measurements: `python -m bench`. Nothing here is imported by the packages."""

"""Measurements: `python -m bench`. The packages import nothing from here."""

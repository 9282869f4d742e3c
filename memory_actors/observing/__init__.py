"""Observing a running system: alerts, metrics, and the memory of the process."""

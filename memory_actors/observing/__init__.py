"""Who is told what goes on: alerts, metrics, and the memory of the process."""

"""`python -m memory_actors.cli`: the same program as `memory-actors`."""

from memory_actors.cli import main

main(prog_name="memory-actors")

"""Records the demo as docs/pictures/demo.svg, as a terminal shows it.

python scripts/record_demo.py
"""

import os
import subprocess
import sys
from pathlib import Path

from rich.text import Text

from memory_actors.cli.plotting import picture

FILE = Path(__file__).parents[1] / "docs" / "pictures" / "demo.svg"
COLUMNS = 100


def main() -> None:
    """Run the demo and draw what it says."""
    command = [sys.executable, "-m", "memory_actors.cli", "demo"]
    terminal = {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    where = {**os.environ, **terminal}
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=where)  # noqa: S603
    shown = [Text("$ ./scripts/demo", style="bold"), Text.from_ansi(said.stdout)]
    FILE.write_text(picture("memory-actors demo", shown, COLUMNS) + "\n")


if __name__ == "__main__":
    main()

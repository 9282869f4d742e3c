"""Records the demo as docs/pictures/demo.svg, as a terminal shows it.

python scripts/record_demo.py
"""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

FILE = Path(__file__).parents[1] / "docs" / "pictures" / "demo.svg"
COLUMNS = 100
FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def main() -> None:
    """Run the demo and draw what it says."""
    command = [sys.executable, "-m", "memory_actors.cli", "demo"]
    terminal = {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    where = {**os.environ, **terminal}
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=where)  # noqa: S603
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False
    )
    for shown in (Text("$ ./scripts/demo", style="bold"), Text.from_ansi(said.stdout)):
        console.print(shown)
    svg = console.export_svg(title="memory-actors demo", unique_id="picture")
    FILE.write_text(FONT.sub("", svg) + "\n")  # in the reader's own font: none is fetched


if __name__ == "__main__":
    main()

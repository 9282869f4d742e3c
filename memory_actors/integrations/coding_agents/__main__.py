"""A hook, started by the path of this file: `python -S -E -P …/coding_agents HOST --data PLACE`.

Without the directories of installed packages, Python starts in half of the time. A hook that needs
one of them adds them (`hook.py`).
"""

import sys
from os.path import abspath, dirname

if __name__ == "__main__":
    sys.path.append(dirname(dirname(dirname(dirname(abspath(__file__))))))
    from memory_actors.integrations.coding_agents.hook import main

    sys.exit(main(sys.argv[1:]))

"""A hook, started by the path of this file: `python -S -E -P PATH HOST --data PLACE`.

Without the directories of installed packages, Python starts in half of the time. A hook that needs
one of them adds them (`hook.py`). Collecting garbage and taking all modules apart at the end took
a fifth.
"""

import gc
import os
import sys

if __name__ == "__main__":
    gc.disable()
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(here))))
    from memory_actors.integrations.coding_agents.hook import main

    os._exit(main(sys.argv[1:]))

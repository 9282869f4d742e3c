"""What takes the place of the modules that the owners' tests import.

Each module here has a function `install()`, which is called before any code of the tests runs.
"""

import sys
from types import ModuleType
from typing import Any


def replace(name: str, **attributes: Any) -> ModuleType:
    """Put a module with these attributes in the place of another, of the same name."""
    module = ModuleType(name, "Stands in for the owner's.")
    vars(module).update(attributes)
    sys.modules[name] = module
    return module

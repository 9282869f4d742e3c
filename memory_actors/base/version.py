"""The version of the package that is installed."""

import importlib.metadata


def version() -> str:
    """Return the version; "0" where the package runs from a source tree."""
    try:
        return importlib.metadata.version("memory-actors")
    except importlib.metadata.PackageNotFoundError:
        return "0"

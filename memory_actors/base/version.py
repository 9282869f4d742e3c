"""The version of the package that is installed."""


def version() -> str:
    """Return the version; "0" where the package runs from a source tree."""
    from importlib import metadata  # with email, zipfile and csv: 10 ms

    try:
        return metadata.version("memory-actors")
    except metadata.PackageNotFoundError:
        return "0"

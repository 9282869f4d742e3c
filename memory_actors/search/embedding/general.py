"""General text: sentences of many kinds, about nothing in particular.

Their mean vector says what all sentence vectors of a model have in common, which is what centring
takes away (see `memory_actors/search/indexes/centring.py`).
"""

from importlib.resources import files


def general_texts() -> list[str]:
    """Return some 400 short sentences."""
    text = files("memory_actors.search.embedding").joinpath("general_text.txt").read_text("utf-8")
    return [line for line in text.splitlines() if line.strip()]

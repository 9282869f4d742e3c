"""Where `--tools graph` is meant to differ from the reference memory server, each with its reason.

Each case is a sequence of calls, and what the last of them answers on either side: the test of this
file runs both servers. docs/integrations/mcp.md tells the same to people, row for row.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

Call = tuple[str, dict[str, Any]]
REFUSED: Final = None
"""An error: there is no structured content."""


class Difference(NamedTuple):
    """An intended difference."""

    name: str
    what: str
    reason: str
    calls: Sequence[Call]
    theirs: Any
    ours: Any


def _entity(name: str, kind: str = "person", *observations: str) -> dict[str, Any]:
    return {"name": name, "entityType": kind, "observations": list(observations)}


def _link(source: str, relation: str, target: str) -> dict[str, str]:
    return {"from": source, "to": target, "relationType": relation}


ANN, ANNE = _entity("Ann", "person", "likes tea"), _entity("Ann", "person", "likes coffee")
KNOWS = _link("Ann", "knows", "Bob")
TWICE: Final = (
    "If one call names an entity, relation or observation twice, it is stored once, as with two "
    "calls."
)
DOUBLES: Final = (
    "The reference checks only earlier calls, and keeps duplicates that no later call can separate."
)
READ: Final[Call] = ("read_graph", {})

DIFFERENCES: Final = (
    Difference(
        "twice in one call",
        TWICE,
        DOUBLES,
        [("create_entities", {"entities": [ANN, ANNE]}), READ],
        {"entities": [ANN, ANNE], "relations": []},
        {"entities": [ANN], "relations": []},
    ),
    Difference(
        "one relation twice in one call",
        TWICE,
        DOUBLES,
        [("create_relations", {"relations": [KNOWS, KNOWS]})],
        {"relations": [KNOWS, KNOWS]},
        {"relations": [KNOWS]},
    ),
    Difference(
        "one observation twice in one call",
        TWICE,
        DOUBLES,
        [("create_entities", {"entities": [_entity("Ann", "person", "tall", "tall")]})],
        {"entities": [_entity("Ann", "person", "tall", "tall")]},
        {"entities": [_entity("Ann", "person", "tall")]},
    ),
    Difference(
        "another spelling of a name",
        "Entities whose names and types differ only in case, width or white space are one entity.",
        "Memory Actors identifies an entity by its normalised name and type. Another type is "
        "another entity on both sides.",
        [
            ("create_entities", {"entities": [ANN]}),
            ("create_entities", {"entities": [_entity("ANN")]}),
        ],
        {"entities": [_entity("ANN")]},
        {"entities": []},
    ),
    Difference(
        "a name in another spelling",
        "Without an exact match, a name finds the entity with another spelling; the answer has the "
        "stored name.",
        "Both spellings are one entity, so both must reach it.",
        [
            ("create_entities", {"entities": [ANN]}),
            ("add_observations", {"observations": [{"entityName": "ANN", "contents": ["tall"]}]}),
        ],
        REFUSED,
        {"results": [{"entityName": "Ann", "addedObservations": ["tall"]}]},
    ),
    Difference(
        "another spelling of a relation",
        "Relations between the same entities are one if their types differ only in case or in "
        "spaces for underscores.",
        "`works at` and `works_at` are one fact, which a search would return twice.",
        [
            ("create_relations", {"relations": [_link("Ann", "works_at", "Acme")]}),
            ("create_relations", {"relations": [_link("Ann", "Works At", "Acme")]}),
        ],
        {"relations": [_link("Ann", "Works At", "Acme")]},
        {"relations": []},
    ),
    Difference(
        "the name before an observation",
        "An observation that starts with the entity's name and a colon equals the one without.",
        "Observations are indexed as `name: observation`, so both would be the same passage.",
        [
            ("create_entities", {"entities": [ANN]}),
            (
                "add_observations",
                {"observations": [{"entityName": "Ann", "contents": ["Ann: likes tea"]}]},
            ),
            READ,
        ],
        {"entities": [_entity("Ann", "person", "likes tea", "Ann: likes tea")], "relations": []},
        {"entities": [ANN], "relations": []},
    ),
    Difference(
        "blank texts",
        "A call with a blank name, type or observation, a name or type over 512 bytes, or an "
        "observation over 256 KiB is refused.",
        "Nobody can search for a blank text, and all sizes are limited.",
        [("create_entities", {"entities": [_entity("", "person")]})],
        {"entities": [_entity("", "person")]},
        REFUSED,
    ),
    Difference(
        "a type of ours",
        "An entity of the type `(mentioned)` is not shown.",
        "It marks a name that relations use and that has no entity yet.",
        [("create_entities", {"entities": [_entity("Ann", "(mentioned)")]}), READ],
        {"entities": [_entity("Ann", "(mentioned)")], "relations": []},
        {"entities": [], "relations": []},
    ),
)  # fmt: skip

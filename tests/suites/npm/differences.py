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
    "An entity, a relation or an observation that one call names twice is kept once, as it is when "
    "two calls name it."
)
DOUBLES: Final = (
    "The reference compares with what was there before the call only, and so keeps doubles that no "
    "later call can tell apart."
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
        "Entities whose names and types differ only in case, width or white space are one: the "
        "second is not created.",
        "An entity of Memory Actors is its name and type, however they are written, for all who "
        "write to it. Of another type, it is another entity on both sides.",
        [
            ("create_entities", {"entities": [ANN]}),
            ("create_entities", {"entities": [_entity("ANN")]}),
        ],
        {"entities": [_entity("ANN")]},
        {"entities": []},
    ),
    Difference(
        "a name in another spelling",
        "A name that is observed, related, opened or deleted is that of the entity in another "
        "spelling, if none has just this one; the answer has the entity's own name.",
        "What cannot be created beside an entity, as it is the same, must be reached by its name.",
        [
            ("create_entities", {"entities": [ANN]}),
            ("add_observations", {"observations": [{"entityName": "ANN", "contents": ["tall"]}]}),
        ],
        REFUSED,
        {"results": [{"entityName": "Ann", "addedObservations": ["tall"]}]},
    ),
    Difference(
        "another spelling of a relation",
        "Relations of the same two entities whose types differ only in case, or in blanks for "
        "underscores, are one.",
        "`works at` and `works_at` are the same fact, and would be found twice.",
        [
            ("create_relations", {"relations": [_link("Ann", "works_at", "Acme")]}),
            ("create_relations", {"relations": [_link("Ann", "Works At", "Acme")]}),
        ],
        {"relations": [_link("Ann", "Works At", "Acme")]},
        {"relations": []},
    ),
    Difference(
        "the name before an observation",
        "An observation with the entity's name and a colon before it is the one without.",
        "An observation is found as `name: observation`, so both would be the same passage.",
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
        "A name, a type or an observation that is empty or blank is refused, as is a name or a "
        "type over 512 bytes and an observation over 256 KiB; the whole call is.",
        "Nothing can be found by a blank text, and everything in a memory has a limit.",
        [("create_entities", {"entities": [_entity("", "person")]})],
        {"entities": [_entity("", "person")]},
        REFUSED,
    ),
    Difference(
        "a type of ours",
        "An entity of the type `(mentioned)` is not shown.",
        "It stands for a name that relations have, and that is no entity yet.",
        [("create_entities", {"entities": [_entity("Ann", "(mentioned)")]}), READ],
        {"entities": [_entity("Ann", "(mentioned)")], "relations": []},
        {"entities": [], "relations": []},
    ),
)  # fmt: skip

"""Commands that carry the event they propose, made of the fields of both."""

from typing import Any, TypeVar

import msgspec

from memory_actors.kinds.commands import Command
from memory_actors.kinds.context.commands import ImportBlock
from memory_actors.kinds.context.events import ArchivedEntry
from memory_actors.kinds.entity import AddEntity, Relate
from memory_actors.kinds.structured import PutDocument

DECIDED: dict[Any, dict[str, Any]] = {
    AddEntity: {"size_bytes": 0},
    Relate: {"source": "", "target": ""},
}
C = TypeVar("C", bound=Command)


def proposing(command: type[C], **fields: Any) -> C:
    """Return a command; the fields that it does not have are those of its event.

    Fields that the decider sets may be left out, and a document keeps its metadata or its pin if
    that is None.
    """
    own = {name: fields.pop(name) for name in command.__struct_fields__ if name in fields}
    (name, event), *_ = (
        (one.name, one.type)
        for one in msgspec.structs.fields(command)
        if isinstance(one.type, type) and "memory_id" in getattr(one.type, "__struct_fields__", ())
    )
    if command is PutDocument:
        own["keeps"] = tuple(one for one in ("metadata", "pinned") if fields.get(one, 0) is None)
        fields = {one: value for one, value in fields.items() if one not in own["keeps"]}
    if command is ImportBlock:
        digest, section = fields.pop("digest", b""), fields.pop("section", None)
        entry = ArchivedEntry(memory_id=fields["memory_id"], digest=digest, section=section)
        fields["archived"] = entry if fields.pop("archived", False) else None
    return command(**own, **{name: event(**DECIDED.get(command, {}) | fields)})

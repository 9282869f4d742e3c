"""Every public operation, read from the method that declares it.

A method's signature, types and docstring are the one declaration of an operation. Other
presentations of an operation (HTTP, a model's tools, the fault matrix, the reference) take its
names, fields and words from here. They add only their own part: how a result is shown, say.

    OPERATIONS["documents.put"].parameters      its parameters, with types and defaults
    OPERATIONS["documents.put"].arguments       a struct of them, to be read from JSON
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property
from types import GenericAlias, NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from memory_actors.api.system import MemorySystem
from memory_actors.api.user import HANDLES, UserMemory
from memory_actors.base.context_documents import ContextReceipt
from memory_actors.base.package import doc_of
from memory_actors.base.records import Hit, Hits, Receipt
from memory_actors.base.reports import (
    CompactionReport,
    EraseReceipt,
    Extraction,
    Forgotten,
    ForgottenFact,
    Hold,
    Purged,
    PurgeReport,
    Retained,
    Undone,
)

OWNERS: Final[Mapping[str, type]] = {
    "": UserMemory,
    **{name: handle for name, handle in HANDLES.items() if not name.startswith("_")},
    "system": MemorySystem,
}
"""The classes that have operations, by the first part of their names."""

RECEIPTS: Final = (
    Receipt, ContextReceipt, Purged, PurgeReport, EraseReceipt, CompactionReport, Extraction,
    Undone, Forgotten, ForgottenFact, Hold, Retained,
)  # fmt: skip
WITHOUT_RECEIPT: Final = {"grant", "revoke", "set_tier", "context.rename_all", "context.delete_all"}
"""The writes that return nothing."""

READS_RECEIPTS: Final = {"extractions", "forgotten", "holds"}
"""The reads that return what writes have returned."""


SAYS: Final[Mapping[str, str]] = {
    "agent_id": "Only what this agent wrote.",
    "as_of": "As it was then. Default: now.",
    "at": "When it ended. Default: now.",
    "auto_archive": "Let the stalest entries make room if there is none.",
    "auto_prune": "Make room if there is none: the oldest go.",
    "batches_max": "How often the extractor is asked at most.",
    "compressed": "Whether summaries of compressed memories follow.",
    "contains": "Only contents with this text, in any case.",
    "content": "One fact in words that make sense alone: names and dates, no 'he' or 'today'.",
    "depth": "How many steps away.",
    "diversity": "How far results that repeat better ones give way.",
    "dry_run": "Change nothing: say what would be.",
    "ended": "Also what is no longer true.",
    "entity_ref": "The name or the id of a person, thing or place.",
    "error": "What went wrong. Such steps are kept longest.",
    "everywhere": "Whether all that says the same goes, too.",
    "exclude_ids": "Not this memory.",
    "exclude_session": "Nothing of this session.",
    "exclusive": (
        "Whether the source has one such relationship at a time, so that this one ends the others. "
        "Default: yes for lives_in, works_at and the like."
    ),
    "explain": "Say what each signal adds to a score.",
    "fact": "The same as a sentence, to be found by.",
    "filters": (
        'Only with this metadata: {"topic": "travel"}, or with operators: {"price": {"lt": 20}}.'
    ),
    "key": "The key of a value or a document, or the name of an entity.",
    "limit": "How many at most.",
    "memory_id": "The id that another call returned.",
    "memory_ids": "The ids that another call returned.",
    "memory_types": "Only these kinds. Default: all.",
    "metadata": 'Labels to filter by later, e.g. {"topic": "travel"}.',
    "min_score": "Leave out what scores less.",
    "min_trust": "Leave out what somebody less trusted had a say in.",
    "observation": "What the agent saw.",
    "occurred_at": "When it was true. Default: now.",
    "offset": "How many to skip.",
    "on_duplicate": "What becomes of a fact that is there already. Default: count.",
    "order": "The best first, or kind by kind. Default: kind if several types are named.",
    "outcome": "What it led to.",
    "pinned": "Never let it make room for newer memories.",
    "query": "A question or a topic, in words.",
    "reason": "Why: it is kept, so leave the fact itself out.",
    "reference_time": "What `last week` in a query is relative to. Default: now.",
    "relation": "How it relates to the second: a verb such as works_at.",
    "role": "Who said it.",
    "session_id": "The session it belongs to.",
    "similar": "Refuse facts of this cosine, too: it keeps the embedding.",
    "since": "Only what was true from then on.",
    "source": "The name of the first person, thing or place.",
    "sources": "Only what came from there and nowhere else.",
    "target": "The name of the second.",
    "top_k": "How many at most.",
    "ttl_s": "Seconds after which it expires. Default: never.",
    "until": "Only what was true up to then.",
    "valid_from": "Since when it is true. Default: now.",
    "valid_to": "When it stopped being true.",
}
"""Descriptions by the name of the parameter, for options, tools of models and queries."""


class Parameter(NamedTuple):
    """A parameter of an operation."""

    name: str
    type: object
    default: object
    """`inspect.Parameter.empty`: it has to be given."""
    kind: inspect._ParameterKind
    """The way it is given: by its place, by its name, or any number of times."""

    @property
    def is_required(self) -> bool:
        """True if it has to be given."""
        return self.default is inspect.Parameter.empty and self.kind is not self.kind.VAR_POSITIONAL


class Operation:
    """A public method that is awaited, or iterated."""

    def __init__(self, name: str, method: Callable[..., object]):
        self.name = name
        """A name such as `documents.put`; those of the system begin with `system.`."""
        self.method = method
        """The function; its first argument is the object that it is called on."""
        self.doc = doc_of(method)

    def __repr__(self) -> str:
        return f"Operation({self.name})"

    @cached_property
    def _hints(self) -> dict[str, object]:
        return get_type_hints(self.method)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters in order, `self` left out."""
        named = inspect.signature(self.method).parameters.values()
        return tuple(
            Parameter(one.name, self._hints[one.name], one.default, one.kind)
            for one in named
            if one.name != "self"
        )

    @property
    def returns(self) -> object:
        """The type of its result, as JSON has it."""
        return in_answers(self._hints["return"])

    def call(self, target: object, given: Mapping[str, object], document: str | None = None) -> Any:
        """Call the method of a user's memory, or of the system, with arguments by their names.

        `document` is the context document that it is about; None: all of them, or the usual one.
        """
        named, places = dict(given), list[object]()
        kinds = [one.kind for one in self.parameters]
        if inspect.Parameter.VAR_POSITIONAL in kinds:
            *before, several = self.parameters[: kinds.index(inspect.Parameter.VAR_POSITIONAL) + 1]
            places = [named.pop(one.name) for one in before if one.name in named]
            places += named.pop(several.name, ())  # type: ignore[arg-type]  # a sequence
        return member_of(target, self.name, document)(*places, **named)

    @property
    def summary(self) -> str:
        """The first paragraph of its docstring, on one line."""
        return " ".join(self.doc.partition("\n\n")[0].split())

    @property
    def of_system(self) -> bool:
        """True if it is about the memories of all users."""
        return self.name.startswith("system.")

    @property
    def writes(self) -> bool:
        """True if it changes a memory: then it returns a receipt, but for a few."""
        returned = get_args(self.returns) or (self.returns,)
        if self.name in READS_RECEIPTS:
            return False
        return self.name in WITHOUT_RECEIPT or any(one in RECEIPTS for one in returned)

    @cached_property
    def arguments(self) -> type[msgspec.Struct]:
        """A struct of its arguments as JSON has them; those that JSON cannot say are left out."""
        name = self.name.title().replace(".", "").replace("_", "")
        return struct_of(name, self.parameters)


def member_of(target: Any, name: str, document: str | None = None) -> Any:
    """Return the member of a user's memory, or of the system, that an operation names."""
    *owners, member = name.removeprefix("system.").split(".")
    for owner in owners:
        target = getattr(target, owner)
    if owners == ["context"] and document is not None:
        target = target.document(document)
    return getattr(target, member)


def struct_of(
    name: str,
    parameters: Sequence[Parameter],
    instead: Mapping[str, object] | None = None,
    doc: str | None = None,
    rename: Mapping[str, str] | None = None,
) -> type[msgspec.Struct]:
    """Return a struct of the values of parameters; `instead` says other types by name.

    `rename` gives the names that JSON has for some of them.

    A field that is not known is refused: a misspelt one would otherwise be left out in silence.
    """
    fields: list[tuple[str, object] | tuple[str, object, object]] = []
    for parameter in parameters:
        kind = (instead or {}).get(parameter.name) or in_json(parameter.type)
        if parameter.kind is parameter.kind.VAR_POSITIONAL:
            fields.append((parameter.name, GenericAlias(list, kind), []))
        elif kind is not None:
            field = (parameter.name, kind)
            fields.append(field if parameter.is_required else (*field, _default(parameter)))
    made = msgspec.defstruct(
        name, fields,
        frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, rename=rename,
    )  # fmt: skip
    made.__doc__ = doc
    return made


def _default(parameter: Parameter) -> object:
    default = parameter.default
    if isinstance(default, Enum):
        return default.value
    return [] if default == () else default


def in_answers(returned: object) -> object:
    """Return the type that a result has when it is read from JSON."""
    return list[Hit] if returned is Hits else returned


def in_json(kind: object) -> object:
    """Return the type that JSON has for values of a type; or None if JSON has no such type.

    A time is ISO 8601 or a number of seconds, an enumeration its string, a sequence a list.
    """
    if kind in (str, int, float, bool, NoneType) or get_origin(kind) is Literal:
        return kind
    if kind in (object, Any):
        return Any  # msgspec has no schema for `object`
    if get_origin(kind) in (Union, UnionType):
        return _union(kind)
    if get_origin(kind) is Sequence:
        (item,) = map(in_json, get_args(kind))
        return None if item is None else GenericAlias(list, item)
    if get_origin(kind) is Mapping:
        return GenericAlias(dict, (str, in_json(get_args(kind)[1])))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return str
    return None


def _union(kind: object) -> object:
    """Return the union of those members that JSON has; of a path or a date it has the string."""
    known = [member for member in map(in_json, get_args(kind)) if member not in (None, NoneType)]
    optional = [NoneType] if NoneType in get_args(kind) else []
    return Union[(*known, *optional)] if known else None


def _operations() -> Iterator[Operation]:
    for prefix, owner in OWNERS.items():
        for name, method in inspect.getmembers(owner):
            if not (inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)):
                continue
            if name == "__call__":
                yield Operation(prefix, method)
            elif not name.startswith("_"):
                yield Operation(f"{prefix}.{name}" if prefix else name, method)


OPERATIONS: Final[Mapping[str, Operation]] = {one.name: one for one in _operations()}
"""All operations, by name."""

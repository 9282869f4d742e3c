"""Commands that mirror a public operation: arguments and options come from its signature.

    @mirrors("entities.end", entity)
    def end(receipt: Receipt) -> None:
        "Say that the relationship ID is over. It stays, as a thing of the past."
        say(f"Ended: {receipt.memory_id}")

A parameter that has to be given is an argument. Any other one is an option, if `WORDS` has a flag
and a help for it, or if it is a field of a memory; type and default are those of the signature. The
decorated function shows the result to people, and may ask for `app` and for arguments by their
names; its docstring is the help. An operation of the whole system has `--user` for its user.

    delete = mirrors("delete")(done("Deleted"))

`done` shows receipts, `listed` a table; name and help of the command are the operation's then.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from functools import partial
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin

import click

from memory_actors.api.operations import OPERATIONS, Operation, Parameter
from memory_actors.base.package import doc_of
from memory_actors.base.records import Item, Receipt
from memory_actors.cli import options
from memory_actors.cli.options import App, Count
from memory_actors.cli.output import local, print_result, print_table, say, table, text
from memory_actors.cli.running import chosen_user, ensure_model, whole_id, with_system, with_user

Decorator: TypeAlias = Callable[[Any], Any]
Work: TypeAlias = Callable[..., Awaitable[Any]] | None

WORDS: Final[Mapping[str, tuple[str, str]]] = {
        "agent_id": ("--agent", "Only what this agent wrote."),
        "as_of": ("--as-of", "As it was then.  [default: now]"),
        "at": ("--at", "When it ended.  [default: now]"),
        "auto_archive": ("--auto-archive", "Let the stalest entries make room if there is none."),
        "auto_prune": ("--prune", "Make room if there is none: the oldest go."),
        "batches_max": ("--batches", "How often the extractor is asked at most."),
        "compressed": (
            "--summaries/--no-summaries", "Whether summaries of compressed memories follow.",
        ),
        "contains": ("--contains", "Only contents with this text, in any case."),
        "depth": ("--depth", "How many steps away."),
        "diversity": ("--diversity", "How far results that repeat better ones give way."),
        "dry_run": ("--dry-run", "Change nothing: say what would be."),
        "ended": ("--ended", "What was ever true, not only what is."),
        "error": ("--error", "What went wrong. Such steps are kept longest."),
        "everywhere": ("--everywhere/--only-there", "Whether all that says the same goes, too."),
        "exclude_ids": ("--exclude", "Not this memory."),
        "exclude_session": ("--exclude-session", "Nothing of this session."),
        "exclusive": (
            "--exclusive/--no-exclusive",
            (
                "Whether SOURCE has one such relationship at a time, so that this one ends the "
                "others.  [default: yes for lives_in, works_at and the like]"
            ),
        ),
        "explain": ("--explain", "Say what each signal adds to a score."),
        "fact": ("--fact", "The same in words, to be found by."),
        "key": ("--key", "The key of a value or a document, or the name of an entity."),
        "limit": ("--limit", ""),
        "min_score": ("--min-score", "Leave out what scores less."),
        "min_trust": ("--min-trust", "Leave out what somebody less trusted had a say in."),
        "observation": ("--observation", "What the agent saw."),
        "occurred_at": ("--at", "When it was true.  [default: now]"),
        "offset": ("--offset", ""),
        "on_duplicate": (
            "--on-duplicate", "What becomes of a fact that is there already.  [default: count]",
        ),
        "order": (
            "--order",
            "The best first, or kind by kind.  [default: kind if several types are named]",
        ),
        "outcome": ("--outcome", "What it led to."),
        "pinned": ("--pin", "Never let it be pruned."),
        "reason": ("--reason", "Why: it is kept, so leave the fact itself out."),
        "reference_time": (
            "--reference-time", "What `last week` in QUERY is relative to.  [default: now]",
        ),
        "role": ("--role", "Who said it."),
        "session_id": ("--session", "The session it belongs to."),
        "similar": ("--similar", "Refuse facts of this cosine, too: it keeps the embedding."),
        "since": ("--since", "Only what was true from then on."),
        "sources": ("--from", "Only what came from there and nowhere else; may be repeated."),
        "top_k": ("--top-k", ""),
        "ttl_s": ("--ttl", "Seconds after which it expires.  [default: never]"),
        "until": ("--until", "Only what was true up to then."),
        "valid_from": ("--from", "Since when it is true.  [default: now]"),
        "valid_to": ("--to", "When it ended.  [default: it goes on]"),
    }  # fmt: skip
"""The option of a parameter, wherever it has no other, and its help."""
OF_A_MEMORY: Final = frozenset(Item.__struct_fields__) - {"memory_id"}
USER: Final = "user_id"
"""The parameter of an operation of the system that `--user` gives."""
METAVARS: Final[Mapping[str, str]] = {
    "sources": "SOURCE",
    "exclude_ids": "ID",
    "exclude_session": "ID",
    "agent_id": "ID",
    "ttl_s": "SECONDS",
}
AS_JSON: Final[Mapping[str, Any]] = {"metadata": options.metadata, "memory_types": options.types}
"""The options whose values are more than their types tell."""


def mirrors(
    operation: str,
    group: click.Group | None = None,
    name: str | None = None,
    *,
    new: bool = False,
    embeds: bool = False,
    help: str | None = None,  # noqa: A002 - click's own word
    more: Sequence[Decorator] = (),
    as_json: Callable[..., object] = lambda result: result,
    work: Work = None,
    check: Callable[[App, Mapping[str, object]], None] | None = None,
    **instead: Decorator | None,
) -> Callable[[Callable[..., None]], click.Command]:
    """Return a decorator that makes a command of a function which shows a result.

    `new` says that the command may make the store, `embeds` that it needs the model; `help` is in
    place of the docstring. `instead` has other options for some parameters, by their names (None
    leaves one out), `more` has options that are no parameters: `agent` and `document` say on whose
    behalf, and in which document. `as_json` makes what is printed as JSON of a result, `work` does
    something in place of the operation alone, `check` comes before the store is opened.
    """
    mirrored = OPERATIONS[operation]
    said_by = [options.said_by] if embeds and mirrored.writes else []
    asks = [options.reads] if operation in ("retrieve", "context") else []
    speaks = [] if mirrored.of_system else [options.speaks_for]
    offered = [*_parameters(mirrored, instead), *more, *said_by, *asks, *speaks]
    has_user = not mirrored.of_system or USER in (one.name for one in mirrored.parameters)
    shared = options.OF_NEW if new else options.OF_USER if has_user else options.OF_STORE

    def decorate(to_people: Callable[..., None]) -> click.Command:
        def run(app: App, /, **given: Any) -> None:
            if check is not None:
                check(app, given)
            if embeds:
                ensure_model(app)
            called = partial(_called, app, mirrored, work, given)
            if mirrored.of_system:
                result = with_system(app, called)
            else:
                result = with_user(app, called, create=new, agent=given.get("agent"))
            shown, told = (
                partial(one, **_named(one, {"app": app, **given}, behind=1))
                for one in (to_people, as_json)
            )
            print_result(app, result, shown, told)

        for option in reversed(offered):
            option(run)
        own_name, doc = to_people.__name__, doc_of(to_people)
        if not doc:
            own_name, doc = operation.rpartition(".")[2].replace("_", "-"), mirrored.summary
        made = options.command(name or own_name, group, shared=shared, help=help or doc)
        return made(run)

    return decorate


def done(what: str) -> Callable[..., None]:
    """Return a function that prints what was done to the memory of a receipt, or to how many."""

    def show(result: Receipt | Sequence[Receipt]) -> None:
        say(f"{what}: {result.memory_id if isinstance(result, Receipt) else f'{len(result):,}'}")

    return show


def listed(nothing: str | None = None, /, **columns: str) -> Callable[..., None]:
    """Return a function that prints a table of records: a column for each of some of their fields.

    The items of a field that is a collection are below each other.
    """

    def show(found: Sequence[object]) -> None:
        made = table(*(name.replace("_", " ") for name in columns))
        for one in found:
            made.add_row(*(text(_shown(getattr(one, field))) for field in columns.values()))
        print_table(made, nothing)

    return show


def _shown(value: object) -> object:
    if isinstance(value, datetime):
        return local(value)
    return "\n".join(value) if isinstance(value, list | tuple) else value


async def _called(
    app: App, operation: Operation, work: Work, given: dict[str, Any], target: Any
) -> object:
    """Call an operation; ids may be given by their beginnings, and are whole ones then."""
    named: dict[str, object] = {}
    for parameter in operation.parameters:
        name = parameter.name
        if name == USER and operation.of_system:
            required = parameter.is_required
            given[name] = await chosen_user(app, target) if required else app.user
        if name not in given:
            continue
        given[name] = named[name] = await _value(target, parameter, given[name])
    if work is not None:
        return await work(target, **{**named, **_named(work, given)})
    return await operation.call(target, named, given.get("document"))


def _named(
    function: Callable[..., object], known: Mapping[str, object], behind: int = 0
) -> dict[str, object]:
    """Return the known arguments that a function's signature names after the first `behind`."""
    asked = list(inspect.signature(function).parameters)[behind:]
    return {name: known[name] for name in asked if name in known}


async def _value(target: Any, parameter: Parameter, value: Any) -> object:
    if value == () and parameter.default is None:  # an option that was never given
        return None
    if _is_id(parameter):
        return await whole_id(target, value)
    if parameter.name.endswith("_ids") and parameter.name not in WORDS:
        return [await whole_id(target, one) for one in value]
    return value


def _is_id(parameter: Parameter) -> bool:
    return parameter.is_required and parameter.name.endswith("_id") and parameter.name != USER


# --- from a parameter to an option


def _parameters(
    operation: Operation, instead: Mapping[str, Decorator | None]
) -> Iterator[Decorator]:
    """Yield an argument or an option for each parameter that is offered."""
    for parameter in operation.parameters:
        name = parameter.name
        if name == USER:
            continue
        if name in instead:
            chosen = instead[name]
            if chosen is not None:
                yield chosen
        elif parameter.is_required:
            metavar = "ID" if _is_id(parameter) and name != "memory_id" else None
            yield click.argument(name, metavar=metavar)
        elif parameter.kind is parameter.kind.VAR_POSITIONAL:
            yield click.argument(name, nargs=-1, required=True, metavar="ID...")
        elif name in AS_JSON:
            yield AS_JSON[name]
        elif name in WORDS or name in OF_A_MEMORY:
            yield option_of(parameter, flag_of(name), WORDS.get(name, ("", ""))[1])


def flag_of(name: str) -> str:
    """Return the flag of a parameter that is an option."""
    return WORDS[name][0] if name in WORDS else f"--{name.replace('_', '-')}"


def option_of(parameter: Parameter, flag: str, said: str) -> Decorator:
    """Return an option with the type and the default of a parameter."""
    name, default = parameter.name, parameter.default
    members = [one for one in get_args(parameter.type) if one is not NoneType]
    is_union = get_origin(parameter.type) in (Union, UnionType)
    kinds = members if is_union else [parameter.type]
    if date in kinds:
        return options.a_time(flag, name, help=said)
    if bool in kinds:
        two = "/" in flag
        return click.option(
            flag, name, is_flag=True, default=default if two else False, help=said,
            show_default=two and default is not None,
        )  # fmt: skip
    return click.option(
        flag, name, type=_type(kinds[0], default), default=default, help=said or None,
        multiple=get_origin(kinds[0]) is Sequence, show_default=default not in (None, ()),
        metavar=METAVARS.get(name),
    )  # fmt: skip


def _type(kind: object, default: object) -> object:
    if kind is int:
        return Count(min=0 if default == 0 else 1)
    if kind is float:
        return click.FloatRange(0, min_open=True) if default is None else click.FloatRange(0, 1)
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return click.Choice([member.value for member in kind])
    return None

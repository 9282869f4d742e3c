"""Options that every command takes, before its name or behind it, and values that need parsing."""

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from click.core import ParameterSource

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.key_files import default_key_file, known_key_file
from memory_actors.base.package import doc_of
from memory_actors.base.records import MemoryType, Trust
from memory_actors.extraction.protocol import Extract, Extractor
from memory_actors.search.embedding.named import DEFAULT, maker_of
from memory_actors.search.embedding.protocol import Embedder
from memory_actors.sharing.address import place_of, server_url, shown

DATA_VARIABLE = "MEMORY_ACTORS_DATA"
KEYS_VARIABLE = "MEMORY_ACTORS_KEY_FILE"
EMBEDDER_VARIABLE = "MEMORY_ACTORS_EMBEDDER"
REDACT_VARIABLE = "MEMORY_ACTORS_REDACT"
REVIEW_VARIABLE = "MEMORY_ACTORS_REVIEW"
HOST_VARIABLE = "MEMORY_ACTORS_NODE_HOST"
PORT_VARIABLE = "MEMORY_ACTORS_NODE_PORT"
DEFAULT_DATA = "./memory"
DEFAULT_USER = "default"
PORT_MAX = 65535


@dataclass(slots=True)
class App:
    """The values of the shared options. Start the program with one to give it another embedder."""

    data: str | Path | None = None
    user: str | None = None
    json: bool = False
    debug: bool = False
    encrypt_new: bool = False
    keys: Path | None = None
    source: str | None = None
    """The origin of all that is written."""
    trust: str | None = None
    by: str | None = None
    """The subject that speaks; None: who may run this may do everything."""
    reads: tuple[str, ...] = ()
    """The scopes that a search asks, too."""
    embedder: Embedder | str | None = None
    """One's own, or the name of one; None: what the environment says, or the store's own."""
    redact: str | None = None
    node_host: str | None = None
    node_port: int | None = None
    extractor: Extractor | Extract | str | None = None
    """Finds facts in messages, where the store is open nowhere else."""

    @property
    def is_server(self) -> bool:
        """True if the store is that of a server."""
        return server_url(self.store) is not None

    def refuse_server(self) -> None:
        """Refuse the URL of a server, for what is done beside the store.

        :raises InvalidInputError: the store is that of a server.
        """
        if self.is_server:
            raise InvalidInputError(f"{self.shown} is a server: run this where its store is")

    @property
    def store(self) -> str | Path:
        """The data directory, or a URL: the option, the environment's, or ./memory."""
        given = os.environ.get(DATA_VARIABLE) or DEFAULT_DATA if self.data is None else self.data
        return place_of(given)

    @property
    def url(self) -> str | None:
        """The URL of a store in a database or of a server; None: it is in a directory."""
        return None if isinstance(self.store, Path) else self.store

    @property
    def shown(self) -> str:
        """The name of the store for people: without a password."""
        return shown(self.store)

    @property
    def directory(self) -> Path:
        """The data directory.

        :raises InvalidInputError: the store is in a database.
        """
        return self.directory_or("its own tools do that: pg_dump, pg_restore, replication")

    def directory_or(self, instead: str) -> Path:
        """Return the data directory, for what is done to its files.

        :raises InvalidInputError: the store is in a database; `instead` says what to do there.
        """
        if isinstance(self.store, Path):
            return self.store
        self.refuse_server()
        raise InvalidInputError(f"{self.shown} is a database, and no data directory: {instead}")

    @property
    def model(self) -> Embedder | str | None:
        """The embedder: what is given, or the environment's; None: the store's own."""
        return self.embedder or os.environ.get(EMBEDDER_VARIABLE) or None

    @property
    def asked(self) -> tuple[str, ...]:
        """The parts of a store that the command line names: whoever has it must have the same."""
        keys = self.keys is not None or self.encrypt_new
        named = isinstance(self.embedder, str)  # else it comes with the program
        redacts = self.redact is not None
        return ("embedder",) * named + ("encrypt",) * keys + ("settings",) * redacts

    @property
    def key_file(self) -> Path | None:
        """The file of the keys: the option, the environment's, or the one beside the store."""
        named = self.keys or os.environ.get(KEYS_VARIABLE) or None
        if self.url is not None:  # opening it refuses one
            return None if named is None else Path(named)
        if named is None and self.encrypt_new:
            return default_key_file(self.directory)
        return known_key_file(self.directory, named)

    @property
    def node(self) -> dict[str, object]:
        """The settings of a node that are named: by the options, or by the environment.

        :raises InvalidInputError: an option names one, and the store is in a directory.
        """
        if self.url is None or self.is_server:
            if self.node_host is not None or self.node_port is not None:
                raise InvalidInputError("--node-host and --node-port are for a store in a database")
            return {}
        host = self.node_host or os.environ.get(HOST_VARIABLE) or None
        port = self.node_port
        if port is None and (said := os.environ.get(PORT_VARIABLE)):
            if not said.isdecimal():
                raise InvalidInputError(f"{PORT_VARIABLE} is {said!r:.80}, and no number")
            port = int(said)
        return {"node_host": host, "node_port": port or 0}

    @property
    def user_id(self) -> str:
        """The user whose memory it is about: the one named, or the one that `chosen_user` found."""
        return DEFAULT_USER if self.user is None else self.user


def _remember(name: str) -> Callable[[click.Context, click.Parameter, object], None]:
    def callback(context: click.Context, _option: click.Parameter, value: object) -> None:
        if value is not None and value is not False:
            setattr(context.ensure_object(App), name, value)

    return callback


def embedder_name(argument: str) -> str:
    """Return the name of an embedder."""
    try:
        maker_of(argument)
    except InvalidInputError as error:
        raise click.BadParameter(str(error)) from error
    return argument


OF_USER = ("data", "user", "key_file", "embedder", "redact", "json", "debug")
"""Options of a command that is about one user of a store that is there."""
OF_NEW = (*OF_USER, "encrypt")
"""Options of commands that may create the store."""
OF_STORE = ("data", "key_file", "embedder", "redact", "json", "debug")
"""Options of commands that concern the whole store."""
OF_NODE = ("node_host", "node_port")
"""Options of commands that keep the store open: with a database, the process is a node, and other
nodes connect to it."""
OF_DIRECTORY = ("data", "json", "debug")
OF_NOTHING = ("json", "debug")


RARE = ("key_file", "embedder", "redact", "encrypt")
"""Options of every command; only the help of the program shows them."""


SHARED: Final[Mapping[str, dict[str, Any]]] = {
    "data": {
        "type": click.Path(),
        "metavar": "DIR|URL",
        "help": "Data directory, or the URL of a database or a server.  "
        f"[default: {DEFAULT_DATA}; variable: {DATA_VARIABLE}]",
    },
    "user": {
        "metavar": "ID",
        "help": "Whose memory.  [default: the only user there is; in a new store "
        f"{DEFAULT_USER!r}]",
    },
    "encrypt": {
        "is_flag": True,
        "help": "Encrypt the store, if it is a new one. The keys are in DIR.keys: keep them.",
    },
    "key_file": {
        "type": click.Path(path_type=Path, dir_okay=False),
        "metavar": "FILE",
        "help": "The keys of an encrypted store.  "
        f"[default: DIR.keys, if it is there; variable: {KEYS_VARIABLE}]",
    },
    "embedder": {
        "type": embedder_name,
        "metavar": "NAME",
        "help": "The embedding model: default, multilingual, openai:…, ollama:…, fastembed:…, "
        "onnx:… or the URL of an endpoint.  "
        f"[default: the store's, {DEFAULT} for a new one; variable: {EMBEDDER_VARIABLE}]",
    },
    "redact": {
        "metavar": "NAMES",
        "help": "Mask these before anything is stored: secrets, personal, or names of detectors, "
        f"separated by commas.  [default: nothing; variable: {REDACT_VARIABLE}]",
    },
    "node_host": {
        "metavar": "HOST",
        "help": "Of a store in a database: the address at which its other processes reach this "
        "one.  [default: that of the network the database is reached through; variable: "
        f"{HOST_VARIABLE}]",
    },
    "node_port": {
        "type": click.IntRange(0, PORT_MAX),
        "help": f"The port there.  [default: any free one; variable: {PORT_VARIABLE}]",
    },
    "json": {"is_flag": True, "help": "Print JSON, for programs."},
    "debug": {"is_flag": True, "help": "Print a traceback with an error."},
}
"""The settings of the shared options."""
FIELDS: Final = {"encrypt": "encrypt_new", "key_file": "keys"}
"""The fields of `App` that are not named as their options are."""


def shared_options(names: Collection[str], hidden: Collection[str]) -> list[click.Option]:
    """Return the shared options with these names."""
    fields = {name: FIELDS.get(name, name) for name in SHARED if name in names}
    return [
        click.Option(
            [f"--{name.replace('_', '-')}", field], expose_value=False, callback=_remember(field),
            hidden=name in hidden, **SHARED[name],
        )
        for name, field in fields.items()
    ]  # fmt: skip


class SharedCommand(click.Command):
    """A command that takes those of the shared options that mean something for it."""

    def __init__(self, *args: Any, shared: Collection[str] = OF_USER, **settings: object):
        super().__init__(*args, **_with_help(settings))
        self.params = [*self.params, *shared_options(shared, RARE)]


class Group(click.Group):
    """A group that takes what any of its commands does, before their names."""

    command_class = SharedCommand

    def __init__(
        self,
        *args: Any,
        shared: Collection[str] = OF_NEW,
        hidden: Collection[str] = RARE,
        **settings: object,
    ):
        super().__init__(*args, **_with_help(settings))
        self.params = [*self.params, *shared_options(shared, hidden)]


def _with_help(settings: dict[str, Any]) -> dict[str, Any]:
    if settings.get("help") is None and settings.get("callback") is not None:
        settings["help"] = doc_of(settings["callback"])
    return settings


_pass_app = click.make_pass_decorator(App, ensure=True)


def command(
    name: str | None = None,
    group: click.Group | None = None,
    *,
    shared: Collection[str] = OF_USER,
    help: str | None = None,  # noqa: A002 - click's own word
) -> Callable[[Callable[..., object]], click.Command]:
    """Return a decorator that makes a command of a function of an `App` and of its own options."""

    def decorate(function: Callable[..., object]) -> click.Command:
        made: click.Command = click.command(name, SharedCommand, shared=shared, help=help)(
            _pass_app(function)
        )
        if group is not None:
            group.add_command(made)
        return made

    return decorate


# --- values


def a_filter(argument: str) -> dict[str, object]:
    """Read a filter: JSON in the language of filters.py, or `key=value`.

    The value is JSON if it reads as JSON, otherwise a text.
    """
    if argument.lstrip().startswith("{"):
        return json_object(argument)
    key, equals, text = argument.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{argument!r:.80} is not key=value, and no JSON filter")
    try:
        return {key: msgspec.json.decode(text)}
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {key: text}


def json_object(argument: str) -> dict[str, object]:
    """Read a JSON object."""
    try:
        found = msgspec.json.decode(argument)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise click.BadParameter(f"{argument!r:.80} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise click.BadParameter(
            f"""{argument!r:.80} is no JSON object such as {{"category": "sports"}}"""
        )
    return found


def local_time(argument: str) -> datetime:
    """Read ISO 8601; without a zone it is local, as the times that are shown."""
    try:
        return datetime.fromisoformat(argument).astimezone()
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(
            f"{argument!r:.80} is not ISO 8601: write for example 2024-05-01T12:00"
        ) from error


def a_moment(argument: str) -> int | datetime:
    """Read a moment: a position of the log, or a time."""
    return int(argument) if argument.isdecimal() else local_time(argument)


def is_given(name: str) -> bool:
    """Say whether the command line has a parameter of the command that runs, or it is a default."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def given_text(argument: str) -> str:
    """Return a text; for `-` what stands on stdin, without its last line feed."""
    if argument != "-":
        return argument
    return sys.stdin.buffer.read().decode(errors="surrogateescape").removesuffix("\n")


# --- options that several commands take

MEMORY_TYPE = click.Choice([kind.value for kind in MemoryType])
TRUST = click.Choice([trust.value for trust in Trust])
LOCAL = "ISO 8601; without a zone in local time"
COUNT_MAX = 2**63 - 1  # what a signed integer of 64 bits holds


class Count(click.IntRange):
    """A whole number from `min` on, of at most 64 bits."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read one."""
        count: int = super().convert(value, param, ctx)
        if count > COUNT_MAX:
            self.fail(f"{value!r:.80} is more than {COUNT_MAX}.", param, ctx)
        return count


def a_time(*names: str, help: str) -> Callable[[object], Any]:  # noqa: A002 - click's own word
    """Return an option that takes a time."""
    said, space, default = help.partition("  ")
    told = f"{said} {LOCAL}.{space}{default}"
    return click.option(*names, type=local_time, metavar="TIME", help=told)


agent = click.option("--agent", metavar="ID", help="The agent it comes from.")
metadata = click.option(
    "--metadata", type=json_object, metavar="JSON", help="A JSON object to filter by."
)
types = click.option(
    "--type", "memory_types", type=MEMORY_TYPE, multiple=True, help="Only these; may be repeated."
)
limit = click.option("--limit", type=Count(min=1), default=20, show_default=True)


speaks_for = click.option(
    "--as", "by", metavar="SUBJECT", expose_value=False, callback=_remember("by"),
    help="The subject whose grants count: a person, agent:NAME or key:ID.",
)  # fmt: skip
reads = click.option(
    "--reads", "reads", metavar="SCOPE", multiple=True, expose_value=False,
    callback=_remember("reads"), help="Search this scope, too; may be repeated.",
)  # fmt: skip


def said_by(command: Any) -> Any:
    """Add the options that say where what a command writes comes from."""
    source = click.option(
        "--source", "said_by", metavar="NAME", expose_value=False, callback=_remember("source"),
        help="Where it comes from: a URL, a tool, a person.",
    )  # fmt: skip
    trust = click.option(
        "--trust", "trusted", type=TRUST, expose_value=False, callback=_remember("trust"),
        help="How far that is trusted.",
    )  # fmt: skip
    return source(trust(command))


def filters(of_what: str, nothing: object = None) -> Callable[[object], Any]:
    """Return an option that chooses by fields; its value is one filter for all, or `nothing`."""

    def all_of(_context: object, _option: object, given: Sequence[dict[str, object]]) -> object:
        return {"and": list(given)} if len(given) > 1 else next(iter(given), None) or nothing

    return click.option(
        "--filter", "filters", type=a_filter, metavar="FILTER", multiple=True, callback=all_of,
        help=f"Only where {of_what} match: KEY=VALUE, or JSON such as "
        """'{"price": {"lt": 20}, "tags": {"contains": "new"}}'. May be repeated.""",
    )  # fmt: skip

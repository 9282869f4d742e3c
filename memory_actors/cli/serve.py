"""serve, ui, keys: the memory over HTTP, in a browser, and who may use it."""

import os
import webbrowser
from collections.abc import Callable
from functools import partial
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TypeVar

import anyio.to_thread
import click
import msgspec

from eventlog.files.datafile import write_whole
from memory_actors.base.records import MemoryType, Tier
from memory_actors.base.settings import SUNDAYS, RetentionRule, Settings
from memory_actors.cli import options
from memory_actors.cli.memories import EXTRACTOR_VARIABLE
from memory_actors.cli.options import App, Group, is_given
from memory_actors.cli.output import (
    local,
    note,
    print_for_programs,
    print_json_line,
    print_result,
    print_table,
    say,
    table,
    text,
)
from memory_actors.cli.running import check_store, ensure_model, opening, run
from memory_actors.extraction.llm import OpenAIExtractor
from memory_actors.server import (
    DASHBOARD,
    HOST,
    PORT,
    ApiKey,
    KeyStore,
    WithSessionKey,
    settings_of,
)
from memory_actors.server import serve as serve_http
from memory_actors.sharing.address import is_loopback, is_shared, read_address
from memory_actors.upkeep.store import settings_in

NEVER = "never"

T = TypeVar("T")


def retention_rule(said: str) -> RetentionRule:
    """Return the rule that an option says: `tool:*=30`, or `long_term=365`."""
    what, _, days = said.rpartition("=")
    is_type = what in [one.value for one in MemoryType]
    name = "memory_type" if is_type else "source"
    try:
        return msgspec.convert({name: what or None, "days": float(days)}, RetentionRule)
    except ValueError as error:
        raise click.BadParameter(f"write TYPE=DAYS or SOURCE=DAYS, not {said!r:.80}") from error


@options.command(shared=(*options.OF_STORE, *options.OF_NODE, "encrypt"))
@click.option("--host", default=HOST, show_default=True, help="Where to listen.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="0: any free one.",
)
@click.option(
    "--compact-at",
    default=SUNDAYS,
    show_default=True,
    metavar="CRON",
    help="When old memories are compressed, in local time; `never`: only when asked.",
)
@click.option(
    "--retain", "retention", multiple=True, type=retention_rule, metavar="WHAT=DAYS",
    help="Delete what is older, when compaction runs: of a type of memory or a source, such as "
    "tool:*=30; may be repeated.",
)  # fmt: skip
@click.option(
    "--extractor", "extractor", is_flag=False, flag_value="", metavar="[NAME]",
    help="Offer `extract`, with a model: ollama:…, openai:… or the URL of an endpoint.  "
    f"[variable: {EXTRACTOR_VARIABLE}; without a NAME, the MEMORY_ACTORS_LLM_… variables]",
)  # fmt: skip
@click.option(
    "--mcp-host", "mcp_hosts", multiple=True, metavar="NAME",
    help="A name under which clients reach /mcp, such as that of a proxy; may be repeated.",
)  # fmt: skip
@click.option(
    "--cors-origin", "cors_origins", multiple=True, metavar="URL",
    help="A site whose pages may ask here, as https://app.example; may be repeated.",
)  # fmt: skip
def serve(
    app: App,
    /,
    host: str,
    port: int,
    compact_at: str,
    retention: tuple[RetentionRule, ...],
    extractor: str | None,
    mcp_hosts: tuple[str, ...],
    cors_origins: tuple[str, ...],
) -> None:
    """Serve the memory over HTTP until Ctrl-C. Make a key first: `memory-actors keys create`.

    Needs the extra `server`. The address of the API's description is /schema, that of the dashboard
    /ui; with the extra `mcp`, clients of MCP find it at /mcp. If another process
    has the store open, this serves it through that one, until it ends and this one takes over.
    """
    if not is_loopback(host):
        note(
            f"Listening on {host}: others can reach this, and nothing on the way is encrypted. "
            "Put a proxy with TLS before it.",
            "yellow",
        )
    app.refuse_server()
    names = mcp_hosts or (() if is_loopback(host) else ("*",))
    ensure_model(app)
    schedule = None if compact_at == NEVER else compact_at
    settings = Settings(compaction_schedule=schedule, retention=retention, latency_warnings=True)
    asked = ["settings"] if is_given("compact_at") or retention else []
    app.extractor = app.extractor or extractor or os.environ.get(EXTRACTOR_VARIABLE) or None
    if extractor is not None:
        app.extractor = app.extractor or OpenAIExtractor()
        asked.append("extractor")
    if not app.json:
        _say_owner(app)

    async def whole() -> None:
        async with opening(app, asked=asked, keeps=True, settings=settings) as memory:
            keys = KeyStore(settings_of(memory) if app.url else app.directory)
            await keys.refresh()
            if not keys.all():
                note(
                    "There is no API key yet: make one with `memory-actors keys create`.", "yellow"
                )
            how = {"on_ready": ready, "mcp_hosts": names, "cors_origins": cors_origins}
            await serve_http(memory, keys, host=host, port=port, **how)

    def ready(address: str) -> None:
        if app.json:
            print_json_line({"address": address})
        else:
            say(f"Serving {app.shown} at {address}")
            say(f"  API: {address}/schema   Dashboard: {address}{DASHBOARD}")

    run(whole)
    if not app.json:
        say("Stopped.")


@options.command(shared=(*options.OF_STORE, *options.OF_NODE))
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="0, which is usual: any free one."
)
@click.option("--no-browser", is_flag=True, help="Say the address, and open nothing.")
def ui(app: App, /, port: int, no_browser: bool) -> None:
    """See the memory in a browser: search, history, time travel, quotas. Until Ctrl-C.

    Needs the extra `server`. Only this machine reaches it, with a key that is made for this run and
    is in the address. If another process has the store open, it is seen through that one.
    """
    check_store(app)
    show_dashboard(app, port=port, in_browser=not no_browser)


def show_dashboard(app: App, *, port: int = 0, in_browser: bool = True, at: str = "") -> None:
    """Serve the dashboard of a store until Ctrl-C; `at` is where it begins, as `#/search?…`."""
    ensure_model(app)
    if not app.json:
        _say_owner(app)

    async def whole() -> None:
        async with opening(app, keeps=True, settings=Settings()) as memory:
            keys = WithSessionKey(settings_of(memory) if app.url else app.directory)
            on_ready = partial(ready, keys.token)
            await serve_http(memory, keys, host=HOST, port=port, on_ready=on_ready)

    def ready(token: str, address: str) -> None:
        page = f"{address}{DASHBOARD}#key={token}{at}"
        if app.json:
            print_json_line({"address": page})
        else:
            say(f"The dashboard of {app.shown}, until Ctrl-C:\n  {page}")
        if in_browser and not app.json:
            leading = _leading_to(page, Path(scratch))
            Thread(target=webbrowser.open, args=(leading,), daemon=True).start()

    with TemporaryDirectory(prefix="memory-actors-ui-") as scratch:
        run(whole)


def _leading_to(page: str, scratch: Path) -> str:
    """Return the address of a file that leads to a page: arguments of a browser can be seen."""
    file = scratch / "dashboard.html"
    leads = f'<meta http-equiv="refresh" content="0; url={escape(page)}">'
    write_whole(file, f'<meta charset="utf-8"><title>Memory Actors</title>{leads}'.encode())
    return file.as_uri()


def _say_owner(app: App) -> None:
    """Note which process has the store open: the server uses its embedder and settings."""
    if app.url is not None:
        return
    address = read_address(app.directory)
    if address is not None and is_shared(app.directory):
        note(f"Process {address.pid} has {app.directory} open: its embedder and its settings hold.")


@click.group(cls=Group, shared=(*options.OF_DIRECTORY, "user"))
def keys() -> None:
    """Make, list and revoke the API keys of `serve`. The server may be running meanwhile."""


@options.command(group=keys, shared=(*options.OF_DIRECTORY, "user"))
@click.option("--root", is_flag=True, help="A key for every user's memory and for /admin.")
@click.option(
    "--tier",
    type=click.Choice([tier.value for tier in Tier]),
    help="The tier that its first use sets for the user.",
)
def create(app: App, /, root: bool, tier: str | None) -> None:
    """Make a key for the user that --user names, or a root key. It is shown this once."""
    if root == (app.user is not None):
        raise click.UsageError("name a user with --user, or say --root: one of the two")
    owner = None if root else app.user
    token, key = _with_keys(app, lambda keys: keys.create(owner, tier))
    if not print_for_programs(app, {"key": token, **_told(key)}):
        say(token)
        note(f"The key of {_scope(key)}, shown this once: only its hash is kept.")


@options.command("list", keys, shared=options.OF_DIRECTORY)
def list_(app: App, /) -> None:
    """List the keys: their ids and what they open."""
    _check_database(app)
    found = _with_keys(app, lambda keys: keys.all())
    if print_for_programs(app, [_told(key) for key in found]):
        return
    made = table("id", "opens", "tier", "made", whole=("id",))
    for key in found:
        how = "set" if key.tier_is_set else "at first use"
        tier = "" if key.tier is None else f"{key.tier} ({how})"
        made.add_row(key.id, text(_scope(key)), text(tier), local(key.created_at))
    print_table(made, "No keys.")


@options.command(group=keys, shared=options.OF_DIRECTORY)
@click.argument("key_id")
def revoke(app: App, /, key_id: str) -> None:
    """Revoke the key with this id: from the next request on it opens nothing."""
    _check_database(app)
    key = _with_keys(app, lambda keys: keys.revoke(key_id))
    print_result(app, key, f"Revoked: {key.id}, the key of {_scope(key)}", _told)


def _with_keys(app: App, work: Callable[[KeyStore], T]) -> T:
    app.refuse_server()
    url = app.url
    if url is None:
        return work(KeyStore(app.directory))

    async def whole() -> T:
        async with settings_in(url) as settings:
            return await anyio.to_thread.run_sync(work, KeyStore(settings))

    return run(whole)


def _check_database(app: App) -> None:
    """See that there is a store, where looking for its keys would make one."""
    if app.url is not None:
        check_store(app)


def _told(key: ApiKey) -> dict[str, object]:
    return {name: getattr(key, name) for name in key.__struct_fields__ if name != "sha256"}


def _scope(key: ApiKey) -> str:
    return "root: everything" if key.is_root else f"user {key.user_id}"

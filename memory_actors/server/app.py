"""The application: routes, guards, errors and the OpenAPI document put together."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from html import escape
from typing import Any, Final

import msgspec
from litestar import Litestar, Response, Router, get
from litestar.config.cors import CORSConfig
from litestar.datastructures import State
from litestar.exceptions import ClientException, HTTPException, NotFoundException
from litestar.handlers import BaseRouteHandler
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme

from memory_actors.base.api_keys import KeyStore
from memory_actors.base.errors import MissingExtraError
from memory_actors.base.package import version
from memory_actors.base.records import JsonObject
from memory_actors.server import admin, dashboard, users
from memory_actors.server.access import (
    BODY_DEADLINE_S,
    HEALTH,
    IN_FLIGHT_MAX,
    PUBLIC,
    Admission,
    AnyRequest,
    ASGIApp,
    Connection,
    Receive,
    Scope,
    Send,
    known_key,
    read_path,
)
from memory_actors.server.admin import CompactionJobs
from memory_actors.server.bodies import Health, answers
from memory_actors.server.dashboard import HEADERS
from memory_actors.server.problems import respond
from memory_actors.sharing.system import MemorySystem

BODY_BYTES_MAX: Final = 1024 * 1024  # four of the longest memories, or the longest with metadata
SCHEME: Final = "apiKey"


class StrictRequest(AnyRequest):
    """Reads a JSON body as what the route takes: no coercion, no unknown fields."""

    async def json(self) -> Any:
        """Return the body.

        :raises ClientException: it is not JSON, or not what the route takes.
        """
        field = self.route_handler.parsed_data_field
        try:
            return msgspec.json.decode(
                await self.body() or b"null", type=Any if field is None else field.annotation
            )
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise ClientException(f"The body is not what this takes: {error}") from error
        except RecursionError as error:
            raise ClientException("The body is nested too deeply.") from error


@get(
    HEALTH,
    operation_id="health",
    opt=PUBLIC,
    security=[{}],
    summary="Health",
    responses=answers(200, Health, version="0.1.0"),
)
async def health() -> Health:
    """Report that the server answers. Needs no key."""
    return Health("ok", version())


def create_app(
    memory: MemorySystem,
    keys: KeyStore,
    *,
    in_flight_max: int = IN_FLIGHT_MAX,
    body_deadline_s: float = BODY_DEADLINE_S,
    mcp_hosts: Sequence[str] = (),
    cors_origins: Sequence[str] = (),
) -> Admission:
    """Return the ASGI application over an open memory system and a store of keys.

    At most `in_flight_max` requests are in work at a time. `body_deadline_s` is how long a body may
    take to arrive. `mcp_hosts` are the names, besides those of this machine for itself, under which
    clients reach `/mcp`; "*" is any. `cors_origins` are the sites whose pages may ask here, as
    `https://app.example`; "*" is any.
    """
    jobs, ending, mcp = CompactionJobs(memory), asyncio.Event(), None
    try:
        from memory_actors.server.mcp import Mounted
    except ImportError as error:
        at_mcp: ASGIApp = partial(_refuse_mcp, error.name or "mcp")
    else:
        at_mcp = mcp = Mounted(memory, keys, mcp_hosts, BODY_BYTES_MAX)
    cors = CORSConfig(
        allow_origins=list(cors_origins),
        allow_methods=["GET", "POST", "PATCH", "DELETE"],
        allow_headers=[
            "Authorization", "Content-Type", "Agent-Id", "Session-Id", "Last-Event-ID",
        ],
        expose_headers=["Location", "Retry-After"],
    )  # fmt: skip

    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        memory.watch_erasures(jobs.forget)
        memory.watch_erasures(keys.look_again)
        async with jobs.running(), mcp.running() if mcp else nullcontext():
            yield

    routes = Litestar(
        [health, users.router(), admin.router(), dashboard.router(), manual],
        state=State(
            {
                "memory": memory,
                "api_keys": keys,
                "jobs": jobs,
                "ending": ending,
                "replays": dashboard.Replays(),
            }
        ),
        cors_config=cors if cors_origins else None,
        guards=[read_path, known_key],
        exception_handlers={HTTPException: respond, Exception: respond},
        request_class=StrictRequest,
        request_max_body_size=BODY_BYTES_MAX,
        lifespan=[lifespan],
        openapi_config=_openapi(),
        logging_config=None,
        debug=False,
    )
    return Admission(
        routes, at_mcp, ending, in_flight_max=in_flight_max, body_deadline_s=body_deadline_s
    )


async def _refuse_mcp(missing: str, _scope: Scope, _receive: Receive, _send: Send) -> None:
    raise MissingExtraError(
        f"MCP needs {missing}, where the server runs: `pip install 'memory-actors[mcp]'`"
    )


def _openapi() -> OpenAPIConfig:
    scheme = SecurityScheme(
        type="http", scheme="bearer", description="An API key: `ma_…` of `memory-actors keys`."
    )
    return OpenAPIConfig(
        title="Memory Actors",
        version=version(),
        description="Long-term memory for AI agents.",
        components=Components(security_schemes={SCHEME: scheme}),
        security=[{SCHEME: []}],
        use_handler_docstrings=True,
        render_plugins=[JsonRenderPlugin(path="/openapi.json")],
        openapi_router=Router(
            "/schema",
            route_handlers=[],
            opt=PUBLIC,
            guards=[_nothing_below],
            include_in_schema=False,
        ),
    )


def _nothing_below(connection: Connection, _handler: BaseRouteHandler) -> None:
    """Answer for what is not there as everywhere: Litestar has a page of HTML for it."""
    if connection.path_params:
        raise NotFoundException


# --- the manual of the API as a page, at `/docs`: made of the OpenAPI document, without a script

_STYLE: Final = "ui/style.css"
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}: the API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="{style}"></head><body><main>
<h1>{title} {version}: the API</h1>
<p>Send an API key with each request: <code>Authorization: Bearer ma_…</code>.
The same for programs: <a href="schema">the OpenAPI document</a>.</p>
{operations}
</main></body></html>
"""


@get("/docs", opt=PUBLIC, include_in_schema=False)
async def manual(request: AnyRequest) -> Response[str]:
    """Return the manual of the API as a page."""
    state = request.app.state
    if "manual" not in state:  # 40 ms, and whoever has no key may ask
        document = request.app.openapi_schema.to_schema()
        about = {name: escape(document["info"][name]) for name in ("title", "version")}
        operations = "\n".join(_operations(document))
        state["manual"] = _PAGE.format(**about, style=_STYLE, operations=operations)
    return Response(state["manual"], media_type="text/html", headers=HEADERS)


def _operations(document: JsonObject) -> Iterator[str]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield (
                f'<section class="box" id="{escape(operation["operationId"])}">'
                f"<h2>{escape(operation['summary'])}</h2>"
                f"<p><code>{method.upper()} {escape(path)}</code></p>"
                f"<p>{escape(operation['description'])}</p>"
            )
            yield from _parameters(operation.get("parameters", ()))
            body = operation.get("requestBody", {}).get("content", {})
            for media in body.values():
                yield from _examples("Body", media["schema"].get("examples", ()))
            for status, answer in operation["responses"].items():
                for media in answer.get("content", {}).values():
                    shown = [one["value"] for one in media.get("examples", {}).values()]
                    yield from _examples(f"{status}: {answer['description']}", shown)
            yield "</section>"


def _parameters(parameters: Sequence[Mapping[str, str]]) -> Iterator[str]:
    if not parameters:
        return
    yield '<table class="lined"><tbody><tr><th>Parameter</th><th>In</th><th></th></tr>'
    for one in parameters:
        told = escape(one.get("description", ""))
        yield f"<tr><th>{escape(one['name'])}</th><td>{escape(one['in'])}</td><td>{told}</td></tr>"
    yield "</tbody></table>"


def _examples(title: str, values: Iterable[object]) -> Iterator[str]:
    for value in values:
        shown = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
        yield (
            f"<details><summary>{escape(title)}</summary>"
            f'<pre class="data">{escape(shown)}</pre></details>'
        )

"""The manual of the API as a page, at `/docs`: made of the OpenAPI document, without a script."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

import msgspec
from litestar import Response, get

from memory_actors.server.access import PUBLIC, AnyRequest
from memory_actors.server.dashboard import HEADERS

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
async def page(request: AnyRequest) -> Response[str]:
    """Return the page."""
    state = request.app.state
    if "manual" not in state:  # 40 ms, and whoever has no key may ask
        document = request.app.openapi_schema.to_schema()
        about = {name: escape(document["info"][name]) for name in ("title", "version")}
        operations = "\n".join(_operations(document))
        state["manual"] = _PAGE.format(**about, style=_STYLE, operations=operations)
    return Response(state["manual"], media_type="text/html", headers=HEADERS)


def _operations(document: Mapping[str, Any]) -> Iterator[str]:
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


def _parameters(parameters: Any) -> Iterator[str]:
    if not parameters:
        return
    yield '<table class="lined"><tbody><tr><th>Parameter</th><th>In</th><th></th></tr>'
    for one in parameters:
        told = escape(one.get("description", ""))
        yield f"<tr><th>{escape(one['name'])}</th><td>{escape(one['in'])}</td><td>{told}</td></tr>"
    yield "</tbody></table>"


def _examples(title: str, values: Any) -> Iterator[str]:
    for value in values:
        shown = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
        yield (
            f"<details><summary>{escape(title)}</summary>"
            f'<pre class="data">{escape(shown)}</pre></details>'
        )

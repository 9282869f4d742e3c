"""The conformance suite of the protocol's owners, against `memory-actors serve` at /mcp.

Their requests carry no API key, so a key is put on each before it reaches the server; the rest of
it is the server as it is. Most scenarios are about a server that was made for the suite. Each one
is run or left out with a reason; one that is neither fails the run.
"""

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal

from memory_actors import MemorySystem
from memory_actors.server import KeyStore
from memory_actors.server.serving import address, listening, new_server
from suites.npm.node import node, package

PACKAGE = "@modelcontextprotocol/conformance"
SCENARIOS: Mapping[str, Sequence[str]] = {
    "0.1.16": (
        "server-initialize", "ping", "tools-list", "resources-list", "prompts-list",
        "dns-rebinding-protection", "server-sse-multiple-streams",
    ),
    "0.2.0-alpha.12": (
        "caching", "http-header-validation", "sep-2164-resource-not-found", "server-initialize",
        "server-session-lifecycle", "ping", "tools-list", "resources-list", "prompts-list",
        "dns-rebinding-protection", "server-sse-multiple-streams",
    ),
}  # fmt: skip
_MADE = "It asks for a tool, a resource or a prompt of a server that was made for the suite."
_ASKS = "The server asks its client for nothing."
LEFT_OUT: Mapping[str, str] = {
    "tools-call-": _MADE,
    "json-schema-": _MADE,
    "resources-read-": _MADE,
    "resources-templates-": _MADE,
    "prompts-get-": _MADE,
    "server-stateless": _MADE,
    "elicitation-": _ASKS,
    "input-required-result-": _ASKS,
    "tasks-": "No tool runs so long that it would be a task.",
    "sep-2640-": "The server has no skills.",
    "logging-set-level": "The server sends its client no log.",
    "completion-complete": "There is nothing to complete.",
    "server-sse-polling": "A stream that breaks off is not resumed: the call is made again.",
    "resources-subscribe": "Over HTTP, users would hear of each other's changes.",
    "resources-unsubscribe": "Over HTTP, users would hear of each other's changes.",
    "http-custom-header-": "No tool takes an argument from a header.",
}
"""Why scenarios do not run, by the beginnings of their names."""
_LISTED = re.compile(r"^  - (\S+)", re.MULTILINE)
SCENARIO_S_MAX = 60
PASSED = {"SUCCESS", "INFO"}


def run(version: str) -> tuple[Sequence[str], list[str], Mapping[str, str]]:
    """Return which scenarios ran, what failed, and why others are left out.

    :raises NotObtainedError: Node or the suite cannot be had.
    """
    left_out, names = reasons(version), SCENARIOS[version]
    failed = [f"{name}: neither run nor left out" for name, why in left_out.items() if not why]
    with serving() as url:
        failed += [failure for name in names for failure in failures(version, name, url)]
    return names, failed, left_out


def reasons(version: str) -> Mapping[str, str]:
    """Return why each scenario for servers that does not run does not; "" if nothing says so."""
    done = subprocess.run(
        [node().node, package(PACKAGE, version) / "dist" / "index.js", "list"],
        env=node().environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=SCENARIO_S_MAX, check=True,
    )  # fmt: skip
    of_servers = done.stdout.partition("Server scenarios")[2].partition("\n\n")[0]
    there = _LISTED.findall(of_servers)
    gone = set(SCENARIOS[version]) - set(there)
    return {
        name: next((why for begin, why in LEFT_OUT.items() if name.startswith(begin)), "")
        for name in [*there, *gone]
        if name in gone or name not in SCENARIOS[version]
    }


def failures(version: str, scenario: str, url: str) -> list[str]:
    """Run a scenario; return what failed in it."""
    program = package(PACKAGE, version) / "dist" / "index.js"
    with tempfile.TemporaryDirectory() as results:
        command = [node().node, program, "server", "--url", url, "--scenario", scenario]
        done = subprocess.run(
            [*command, "-o", results],
            env=node().environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=SCENARIO_S_MAX, check=False,
        )  # fmt: skip
        checks = [
            check
            for file in Path(results).rglob("checks.json")
            for check in json.loads(file.read_text())
        ]
    bad = [check for check in checks if check["status"] not in PASSED]
    found = [f"{scenario}: {one['id']} {one['status']} {one.get('errorMessage')}" for one in bad]
    if not found and (done.returncode or not checks):
        found = [f"{scenario}: {done.stdout[-500:]}{done.stderr[-500:]}"]
    return found


@contextmanager
def serving() -> Iterator[str]:
    """Hold a server over a store of its own; yield the address of its MCP."""
    with (
        tempfile.TemporaryDirectory() as directory,
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(MemorySystem.open(directory)) as memory,
        listening("127.0.0.1", 0) as bound,
    ):
        keys = KeyStore(directory)
        token, _ = keys.create("conformance")
        server = new_server(memory, keys)
        server.config.app = _with_key(server.config.app, token)
        running = portal.start_task_soon(server.serve, [bound])
        try:
            yield f"{address(bound)}/mcp"
        finally:
            server.should_exit = True
            running.result(timeout=30)


def _with_key(app: Any, token: str) -> Any:
    """Return an application that gets a key with each request."""

    async def keyed(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            header = (b"authorization", f"Bearer {token}".encode())
            scope = {**scope, "headers": [*scope["headers"], header]}
        await app(scope, receive, send)

    return keyed

"""The pages of the site that are not in docs/: other pages of the project, and the API.

A link out of docs/ leads to the page that stands for its target, or, to source, is no link.
"""

import ast
import re
from pathlib import Path
from posixpath import normpath, relpath
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "bench/README.md": "bench.md",
    "clients/typescript/README.md": "typescript.md",
}
"""Pages that stand elsewhere, and their places on the site."""
SHIM = "iframe-worker.js"
"""Runs the search without a Web Worker: browsers start none in a page opened from a disk."""
FRONT = {"README.md": "index.md"}
"""Pages that the site has another one for."""
SHOWN = (
    "memory_actors.sharing.system.MemorySystem", "memory_actors.api.system.MemorySystem",
    "memory_actors.api.user.UserMemory", "memory_actors.api.user_context.UserContext",
    "memory_actors.users.handles.context_document.ContextDocument",
    "memory_actors.users.handles.working.WorkingMemory",
    "memory_actors.users.handles.short_term.ShortTermMemory",
    "memory_actors.users.handles.entities.EntityGraph",
    "memory_actors.users.handles.episodes.Episodes",
    "memory_actors.users.handles.documents.Documents",
    "memory_actors.api.system.PastMemory", "memory_actors.sync",
    "memory_actors.Settings", "memory_actors.Limits", "memory_actors.base.records",
    "memory_actors.base.reports", "memory_actors.base.statistics", "memory_actors.base.errors",
    "memory_actors.integrations.otel", "eventlog.EventLog", "eventlog.PgEventStore",
)  # fmt: skip
_CALLED = re.compile(r"\b(user|memory|MemorySystem)\.([\w.]+)\(")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def examples() -> dict[str, str]:
    """Return the first line of calls.py that calls each operation, by the operation's name."""
    lines: dict[str, str] = {}
    tree = ast.parse((ROOT / "scripts" / "site" / "calls.py").read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.AsyncFunctionDef):
            for found in _CALLED.finditer(line := ast.unparse(node)):
                of_system = found[1] != "user"
                lines.setdefault(f"system.{found[2]}" if of_system else found[2], line)
    return lines


class Examples(griffe.Extension):
    """Puts the example of an operation behind its docstring, before the fields."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Add the examples of a package."""
        if pkg.name != "memory_actors":
            return
        from memory_actors.api.operations import OPERATIONS  # slow: mkdocs reads this file often

        lines = examples()
        for name, operation in OPERATIONS.items():
            path = f"{operation.method.__module__}.{operation.method.__qualname__}"
            line, at = lines[name], pkg[path.removeprefix("memory_actors.")]
            if at.docstring is not None:
                text, mark, fields = at.docstring.value.partition("\n\n:")
                at.docstring.value = f"{text}\n\n```python\n{line}\n```{mark}{fields}"


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that stand elsewhere, that of the API, and the script that search needs."""
    files.append(File.generated(config, SHIM, abs_src_path=str(Path(__file__).with_name(SHIM))))
    for path, place in ELSEWHERE.items():
        files.append(File.generated(config, place, content=(ROOT / path).read_text("utf-8")))
    api = "\n\n".join(f"::: {name}" for name in SHOWN)
    files.append(File.generated(config, "api.md", content=f"# The API, from the source\n\n{api}\n"))
    return files


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: Any) -> str:
    """Lead links to where their targets are on the site."""
    here = {place: path for path, place in ELSEWHERE.items()}.get(
        page.file.src_uri, f"docs/{page.file.src_uri}"
    )

    def led(found: re.Match[str]) -> str:
        mark, text, target, anchor = found.groups(default="")
        if re.match(r"[a-z]+:", target):
            return found[0]
        path = normpath(str(Path(here).parent / target))
        place = ELSEWHERE.get(path) or FRONT.get(path) or path.removeprefix("docs/")
        if files.get_file_from_path(place) is None:
            return text  # of the source: the site does not have it
        to = relpath(place, str(Path(page.file.src_uri).parent))
        return f"{mark}[{text}]({to}{anchor})"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else _LINK.sub(led, part) for part in parts)

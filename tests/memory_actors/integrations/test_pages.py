"""The pages of the adapters: their code runs as it stands there, and prints what they say."""

import importlib.util
import json
from pathlib import Path

import pytest
from support.llm_server import Server
from support.pages import ROOT, blocks, check_printed, printed_by

NEEDS = {
    "agent-framework": "agent_framework",
    "anthropic": "anthropic",
    "autogen": "autogen_core",
    "clients": "openai",
    "google-adk": "google.adk",
    "langgraph": "langgraph.store",
    "llama-index": "llama_index.core",
    "openai-agents": "agents",
    "strands": "strands",
    "tools": "pydantic_ai",
}
"""The package that each page needs."""


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of what it is in
        return False


def says(*content: dict[str, object]) -> tuple[str, bytes]:
    """Return a reply of Claude's."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "usage": usage}
    why = "tool_use" if content[0]["type"] == "tool_use" else "end_turn"
    return "sends", json.dumps(message | {"content": content, "stop_reason": why}).encode()


@pytest.mark.parametrize(
    "page", [page for page in NEEDS if (ROOT / f"docs/integrations/{page}.md").exists()]
)
def test_the_code_of_a_page_prints_what_it_says(
    page: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_installed(NEEDS[page]):
        pytest.skip(f"needs {NEEDS[page]}")
    command = {"command": "create", "path": "/memories/ada.md", "file_text": "- skis in Davos"}
    server.script += [
        says({"type": "tool_use", "id": "t", "name": "memory", "input": command}),
        says({"type": "text", "text": "Noted."}),
    ]
    if page == "clients":
        server.script = [("says", "In Davos, as always.")]
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url.removesuffix("/v1"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    program = "\n".join(blocks(f"docs/integrations/{page}.md"))
    check_printed(program, printed_by(tmp_path, "-c", program))

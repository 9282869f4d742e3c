"""Transcripts as the hosts write them: one prompt, a command that fails, a change, and a reply."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

ASKED = "Why do the tests of the cart fail?"
REPLIED = "The cart counted from one. We decided to count from zero everywhere."
FAILED, FIXED = "pytest -q tests/cart", "src/cart.py"


def _written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def claude(home: Path, cwd: Path, session: str = "7f0c") -> Path:
    def line(kind: str, content: Any, **more: Any) -> dict[str, Any]:
        line.count += 1  # type: ignore[attr-defined]
        return {
            "type": kind,
            "uuid": f"u{line.count}",  # type: ignore[attr-defined]
            "timestamp": f"2026-11-20T10:00:{line.count:02}.000Z",  # type: ignore[attr-defined]
            "sessionId": session,
            "cwd": str(cwd),
            "message": {"role": kind, "content": content},
            **more,
        }

    line.count = 0  # type: ignore[attr-defined]

    def use(number: int, name: str, **given: str) -> dict[str, Any]:
        use_ = {"type": "tool_use", "id": f"t{number}", "name": name, "input": given}
        return line("assistant", [{"type": "thinking", "thinking": "Hm."}, use_])

    def result(number: int, text: str, **more: Any) -> dict[str, Any]:
        part = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text, **more}
        return line("user", [part])

    return _written(
        home / ".claude" / "projects" / "-shop" / f"{session}.jsonl",
        [
            {"type": "queue-operation", "operation": "enqueue", "content": ASKED},
            line("user", "<command-name>/clear</command-name>"),
            line("user", "Caveat: the messages below", isMeta=True),
            line("user", ASKED + "<system-reminder>be brief</system-reminder>"),
            line("assistant", [{"type": "text", "text": "Let me look."}]),
            use(1, "Bash", command=FAILED),
            result(1, "1 failed: assert 2 == 1", is_error=True),
            line("user", "of a sub-agent", isSidechain=True),
            use(2, "Edit", file_path=FIXED, old_string="1", new_string="0"),
            result(2, "done"),
            use(3, "Bash", command=FAILED),
            result(3, "3 passed"),
            line("assistant", [{"type": "text", "text": REPLIED}]),
        ],
    )


def codex(home: Path, cwd: Path, session: str = "0199c0de-0000-7000-8000-000000000001") -> Path:
    def line(kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": "2026-11-20T10:00:00.000Z", "type": kind, "payload": payload}

    def called(number: int, name: str, arguments: str) -> dict[str, Any]:
        return line(
            "response_item", type="function_call", call_id=f"c{number}", name=name,
            arguments=arguments,
        )  # fmt: skip

    def result(number: int, output: Any) -> dict[str, Any]:
        return line(
            "response_item", type="function_call_output", call_id=f"c{number}", output=output
        )

    shell = json.dumps({"command": ["bash", "-lc", FAILED]})
    patch = f"*** Begin Patch\n*** Update File: {FIXED}\n*** End Patch"
    return _written(
        home / ".codex" / "sessions" / "2026" / "11" / "20"
        / f"rollout-2026-11-20T10-00-00-{session}.jsonl",
        [
            line("session_meta", id=session, cwd=str(cwd)),
            line("response_item", type="message", role="user", content="<environment_context>"),
            line("event_msg", type="user_message", message=ASKED),
            line("event_msg", type="agent_message", message="Let me look."),
            called(1, "shell", shell),
            result(1, json.dumps({"output": "assert 2 == 1", "metadata": {"exit_code": 1}})),
            line(
                "response_item", type="custom_tool_call", call_id="c2", name="apply_patch",
                input=patch,
            ),
            line(
                "response_item", type="custom_tool_call_output", call_id="c2",
                output="Exit code: 0",
            ),
            called(3, "exec_command", json.dumps({"cmd": FAILED})),
            result(3, "Process exited with code 0\n3 passed"),
            line("event_msg", type="agent_message", message=REPLIED),
        ],
    )  # fmt: skip


def gemini(home: Path, cwd: Path, session: str = "5e55-10") -> Path:
    def call(name: str, status: str, shown: str, **args: str) -> dict[str, Any]:
        return {"name": name, "args": args, "status": status, "resultDisplay": shown}

    chats = home / ".gemini" / "tmp" / "shop" / "chats"
    chats.mkdir(parents=True, exist_ok=True)
    (chats.parent / ".project_root").write_text(str(cwd))
    time = "2026-11-20T10:00:00.000Z"
    calls = [
        call("run_shell_command", "error", "assert 2 == 1", command=FAILED),
        call("replace", "success", "", file_path=FIXED),
        call("run_shell_command", "success", "3 passed", command=FAILED),
    ]
    reply = {"id": "m2", "type": "gemini", "timestamp": time}
    return _written(
        chats / "session-2026-11-20T10-00-5e55.jsonl",
        [
            {"sessionId": session, "projectHash": "abc", "startTime": time},
            {"id": "m1", "type": "user", "timestamp": time, "content": [{"text": ASKED}]},
            {**reply, "content": "Let me look."},
            {"$set": {"lastUpdated": time}},
            {**reply, "content": REPLIED, "toolCalls": calls},
        ],
    )


def vscode(home: Path, cwd: Path, session: str = "5e55-11") -> Path:
    def line(kind: str, **data: Any) -> dict[str, Any]:
        line.count += 1  # type: ignore[attr-defined]
        time = "2026-11-20T10:00:00.000Z"
        return {"type": kind, "data": data, "id": f"m{line.count}", "timestamp": time}  # type: ignore[attr-defined]

    line.count = 0  # type: ignore[attr-defined]

    def used(name: str, success: bool, said: str, **given: str) -> list[dict[str, Any]]:
        call = {"toolCallId": f"{name} {success}"}
        return [
            line("tool.execution_start", **call, toolName=name, arguments=given),
            line("tool.execution_complete", **call, success=success, result={"content": said}),
        ]

    return _written(
        home / ".config/Code/User/workspaceStorage/1/GitHub.copilot-chat/transcripts"
        / f"{session}.jsonl",
        [
            line("session.start", sessionId=session, context={"cwd": str(cwd)}),
            line("user.message", content=ASKED, attachments=[]),
            line("assistant.message", content="Let me look.", toolRequests=[]),
            *used("run_in_terminal", False, "assert 2 == 1", command=FAILED),
            *used("replace_string_in_file", True, "", filePath=FIXED),
            *used("run_in_terminal", True, "3 passed", command=FAILED),
            line("assistant.message", content=REPLIED, toolRequests=[]),
        ],
    )  # fmt: skip


def windsurf(home: Path, _cwd: Path, session: str = "7ra-1") -> Path:
    def line(kind: str, **more: Any) -> dict[str, Any]:
        return {"status": "done", "type": kind, kind: more}

    return _written(
        home / ".windsurf" / "transcripts" / f"{session}.jsonl",
        [
            line("user_input", rules_applied={"always_on": ["a.md"]}, user_response=ASKED),
            line("planner_response", response="Let me look."),
            line("code_action", path=FIXED, new_content="0"),
            line("planner_response", response=REPLIED),
        ],
    )


def cursor(home: Path, _cwd: Path, session: str = "c0n-1") -> Path:
    def line(role: str, *content: dict[str, Any]) -> dict[str, Any]:
        return {"role": role, "message": {"content": list(content)}}

    def text(said: str) -> dict[str, Any]:
        return {"type": "text", "text": said}

    edit = {"type": "tool_use", "name": "StrReplace", "input": {"path": FIXED}}
    return _written(
        home / ".cursor/projects/shop/agent-transcripts" / session / f"{session}.jsonl",
        [
            line(
                "user", text(f"<timestamp>Friday</timestamp>\n<user_query>\n{ASKED}\n</user_query>")
            ),
            line("assistant", text("Let me look."), edit),
            line("assistant", text(REPLIED)),
        ],
    )


def opencode(home: Path, cwd: Path, session: str = "ses_1") -> Path:
    path = home / ".local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True, exist_ok=True)

    def text(said: str) -> dict[str, Any]:
        return {"type": "text", "text": said}

    def tool(name: str, exit_: int, **given: str) -> dict[str, Any]:
        state = {
            "status": "completed",
            "input": given,
            "output": "1 of 3",
            "metadata": {"exit": exit_},
        }
        return {"type": "tool", "tool": name, "callID": "c", "state": state}

    said = [
        ("user", [text(ASKED), {**text("recalled"), "synthetic": True}]),
        ("assistant", [{"type": "step-start"}, tool("bash", 1, command=FAILED)]),
        ("assistant", [tool("edit", 0, filePath=FIXED), tool("bash", 0, command=FAILED)]),
        ("assistant", [text(REPLIED)]),
    ]
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            "CREATE TABLE session (id text, parent_id text, directory text);"
            "CREATE TABLE message (id text, session_id text, time_created integer, data text);"
            "CREATE TABLE part (id text, message_id text, session_id text, data text);"
        )
        sessions = [(session, None, str(cwd)), ("ses_2", session, str(cwd))]
        database.executemany("INSERT INTO session VALUES (?, ?, ?)", sessions)
        for number, (role, parts) in enumerate(said):
            data = json.dumps({"role": role, "time": {"created": 1_795_828_582_546 + number}})
            row = (f"m{number}", session, number, data)
            database.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
            for place, part in enumerate(parts):
                row_ = (f"p{number}{place}", f"m{number}", session, json.dumps(part))
                database.execute("INSERT INTO part VALUES (?, ?, ?, ?)", row_)
    return path / session


WRITERS = {"claude-code": claude, "codex": codex, "gemini-cli": gemini, "vscode": vscode}
OTHERS = {"cursor": cursor, "opencode": opencode, "windsurf": windsurf}
"""They keep less, or not in lines."""

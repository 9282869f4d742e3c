"""The memory tool under any sequence of commands does what a dict of strings does."""

import asyncio
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.context import FakeContext

from memory_actors import MemoryTool

PATHS = st.sampled_from(
    ["/memories", "/memories/", *(f"/memories/{p}" for p in ("a", "b", "d/a", "d/b", "d/e/a", "d"))]
)
TEXTS = st.text("a-# \n`\r", max_size=12) | st.sampled_from(["- a\n- b\n", "# T\n\na\n"])


class ToolMachine(RuleBasedStateMachine):
    """The tool beside a dict from path to text."""

    def __init__(self) -> None:
        super().__init__()
        self.user = FakeContext()
        self.tool = MemoryTool(self.user)
        self.files: dict[str, str] = {}

    def call(self, command: str, **more: Any) -> str:
        return asyncio.run(self.tool.call({"command": command, **more}))

    def at(self, path: str) -> list[str]:
        path = path.rstrip("/")
        if path in self.files:
            return [path]
        return [file for file in self.files if file.startswith(f"{path}/")]

    def is_free(self, path: str) -> bool:
        path = path.rstrip("/")
        parents = [path[:n] for n, c in enumerate(path) if c == "/" and n > len("/memories")]
        return path != "/memories" and not self.at(path) and not set(parents) & set(self.files)

    @rule(path=PATHS, text=TEXTS)
    def create(self, path: str, text: str) -> None:
        free = self.is_free(path)
        said = self.call("create", path=path, file_text=text)
        assert (said == f"File created successfully at: {path}") == free
        if free:
            self.files[path] = text

    @rule(path=PATHS)
    def view(self, path: str) -> None:
        said = self.call("view", path=path)
        if path in self.files:
            lines = self.files[path].split("\n")
            assert [line[7:] for line in said.split("\n")[1:]] == lines
        else:
            is_there = bool(self.at(path)) or path.rstrip("/") == "/memories"
            assert said.startswith("Here're the files") == is_there
            for file in self.at(path):
                if file.count("/") - path.rstrip("/").count("/") <= 2:
                    assert file in said.replace("//", "/")

    @rule(path=PATHS, old=st.text("a-\n", max_size=2), new=TEXTS)
    def str_replace(self, path: str, old: str, new: str) -> None:
        text = self.files.get(path, "")
        said = self.call("str_replace", path=path, old_str=old, new_str=new)
        done = bool(old) and text.count(old) == 1
        assert said.startswith("The memory file has been edited.") == done
        if done:
            self.files[path] = text.replace(old, new)

    @rule(path=PATHS, line=st.integers(-1, 5), text=TEXTS)
    def insert(self, path: str, line: int, text: str) -> None:
        said = self.call("insert", path=path, insert_line=line, insert_text=text)
        if path not in self.files:
            assert said == f"Error: The path {path} does not exist"
            return
        old = self.files[path]
        lines = old.split("\n")
        n_lines = len(lines) - (lines[-1] == "")
        if not 0 <= line <= n_lines:
            assert f"[0, {n_lines}]" in said
            return
        assert said == f"The file {path} has been edited."
        before = "".join(f"{one}\n" for one in lines[:line])
        added = text if text.endswith("\n") else f"{text}\n"
        self.files[path] = before + added + "\n".join(lines[line:])

    @rule(path=PATHS)
    def delete(self, path: str) -> None:
        found = self.at(path) if path.rstrip("/") != "/memories" else []
        said = self.call("delete", path=path)
        assert (said == f"Successfully deleted {path}") == bool(found)
        for file in found:
            del self.files[file]

    @rule(old=PATHS, new=PATHS)
    def rename(self, old: str, new: str) -> None:
        found = self.at(old) if old.rstrip("/") != "/memories" else []
        done = bool(found) and self.is_free(new) and not new.startswith(f"{old}/")
        said = self.call("rename", old_path=old, new_path=new)
        assert (said == f"Successfully renamed {old} to {new}") == done
        for file in found if done else ():
            self.files[new + file.removeprefix(old)] = self.files.pop(file)

    @invariant()
    def every_file_reads_byte_for_byte(self) -> None:
        held = {f"/memories/{name}": one.text for name, one in self.user.held.items()}
        assert held == self.files


TestTool = ToolMachine.TestCase
TestTool.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)

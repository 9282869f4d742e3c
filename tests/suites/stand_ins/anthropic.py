"""The SDK's tools on a local directory: ours, with the directory as a view of the documents.

Before each command the files of the directory become documents, and after it the documents files,
so that a test sees in the directory what the tool has done, and puts files there.
"""

import shutil
from pathlib import Path
from typing import Any

import anthropic.lib.tools._beta_builtin_memory_tool as theirs
import anyio

from memory_actors.integrations.anthropic import AsyncMemoryActorsTool, MemoryActorsTool
from suites.stand_ins.memories import user_of


class Directory:
    """A directory with the documents of a user in it, as text, byte for byte."""

    def __init__(self, root: Path):
        self.user, self.root = user_of(root), root
        root.mkdir(parents=True, exist_ok=True)

    def read(self) -> None:
        """Make documents of the files that are new."""
        held = {document.name for document in self.user.context.documents()}
        for file in self.root.rglob("*"):
            if file.is_file() and (name := str(file.relative_to(self.root))) not in held:
                self.user.context.create(name, file.read_bytes().decode())

    def write(self) -> None:
        """Make files of the documents, and of nothing else."""
        shutil.rmtree(self.root)
        self.root.mkdir()
        for document in self.user.context.documents():
            file = self.root / document.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.user.context.document(document.name).render().encode())


class Tool(MemoryActorsTool):
    """Ours, made as theirs is."""

    def __init__(self, base_path: str):
        self.base_path, self.memory_root = Path(base_path), Path(base_path) / "memories"
        self._directory = Directory(self.memory_root)
        super().__init__(self._directory.user)

    def call(self, input: object) -> str:  # noqa: A002 - their name
        self._directory.read()
        try:
            return super().call(input)
        finally:
            self._directory.write()


class AsyncTool(AsyncMemoryActorsTool):
    """The same of the async one."""

    def __init__(self, base_path: str):
        self.base_path = anyio.Path(base_path)
        self.memory_root = self.base_path / "memories"
        self._directory = Directory(Path(base_path) / "memories")
        super().__init__(self._directory.user)

    async def call(self, input: object) -> str:  # noqa: A002 - their name
        await anyio.to_thread.run_sync(self._directory.read)
        try:
            return await super().call(input)
        finally:
            await anyio.to_thread.run_sync(self._directory.write)


def install() -> None:
    """Put them there."""
    there: Any = theirs
    there.BetaLocalFilesystemMemoryTool = Tool
    there.BetaAsyncLocalFilesystemMemoryTool = AsyncTool

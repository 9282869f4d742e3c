"""improve: a text in rounds of critique and revision, and what changed."""

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import aclosing, contextmanager
from difflib import unified_diff
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.text import Text

from memory_actors.cli.options import App, Command, pass_app
from memory_actors.cli.output import counted, note, printable, say, stderr, stdout, write_bytes
from memory_actors.cli.running import ensure_model, run, with_user
from memory_actors.errors import InvalidInputError
from memory_actors.handles.user import UserMemory
from memory_actors.improve import (
    Event,
    Evicted,
    Failed,
    Finished,
    Improver,
    LocalCritic,
    LocalReviser,
    OpenAICritic,
    OpenAIReviser,
    Result,
    Revised,
    Scored,
    Warned,
)

STDIN = "-"
COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command(cls=Command)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--llm", is_flag=True, help="Ask a language model, see below; otherwise none.")
@click.option("--rounds", type=click.IntRange(min=0), default=10, show_default=True)
@click.option("--stop", "target", type=click.FloatRange(0, 1), help="A score that is good enough.")
@click.option("--words", "words_max", type=click.IntRange(min=1), help="Shorten it to so many.")
@click.option("--term", "terms", multiple=True, help="A name as it is spelt. May be repeated.")
@click.option("--goal", default="", help="What the text is to be like: for --llm.")
@click.option("--record", is_flag=True, help="Keep the run as an episode of the user.")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the best text there."
)
@click.option("--in-place", is_flag=True, help="Write the best text into FILE.")
@pass_app
def improve(
    app: App, /, file: str, record: bool, output: Path | None, in_place: bool, **given: Any
) -> None:
    """Improve the text of FILE in rounds of critique and revision. - is stdin.

    Without --llm it measures repetition, readability, known terms, long sentences, wordiness,
    length and passive voice, and makes edits that are safe. With it, a model is asked: set
    MEMORY_ACTORS_LLM_MODEL, and MEMORY_ACTORS_LLM_BASE_URL or OPENAI_API_KEY.

    Prints what changed. FILE stays as it is, unless --in-place. With --json: one event a line, as
    it happens; the last has the result.
    """
    target = _target(file, output, in_place)
    text = _read(file)
    if record:
        ensure_model(app)
        result = with_user(app, lambda user: _improve(app, text, user, given), create=True)
    else:
        result = run(lambda: _improve(app, text, None, given))
    if target is not None:
        _write(target, result.text)
    if not app.json:
        _print_result(file, text, result, target)


def _target(file: str, output: Path | None, in_place: bool) -> Path | None:
    """Return where to write the text; None: nowhere."""
    if in_place and (file == STDIN or output is not None):
        raise click.UsageError("--in-place needs a FILE, and goes without --output")
    if in_place:
        return Path(file)
    if output is not None and file != STDIN and output.exists() and output.samefile(file):
        raise click.UsageError("--output is FILE itself: say --in-place to overwrite it")
    return output


def _read(file: str) -> str:
    """Return the text of a file, or of stdin.

    :raises InvalidInputError: it cannot be read, or is not UTF-8.
    """
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        return data.decode()
    except OSError as error:
        raise InvalidInputError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{file} is not UTF-8: {error.reason}") from error


def _write(target: Path, text: str) -> None:
    """Put a text into a file, whole or not at all.

    :raises InvalidInputError: it cannot be written.
    """
    try:
        real = target.resolve()  # a link stays one
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o666 & ~_umask()
        with tempfile.TemporaryDirectory(prefix=".improve-", dir=real.parent) as beside:
            made = Path(beside) / real.name
            made.write_bytes(text.encode())
            made.chmod(mode)
            made.replace(real)
    except OSError as error:
        raise InvalidInputError(f"cannot write {target}: {error.strerror}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# --- the run


async def _improve(app: App, text: str, user: UserMemory | None, given: dict[str, Any]) -> Result:
    limits = {"max_iterations": given["rounds"]}
    result: Result | None = None
    async with Improver(
        *_pair(given), memory_limits=limits, stop=given["target"], record_to=user
    ) as improver:
        with _shown(app) as show:
            async with aclosing(improver.stream(text)) as events:
                async for event in events:
                    show(event)
                    if isinstance(event, Finished):
                        result = event.result
    assert result is not None, "a run that raises nothing finishes"
    return result


def _pair(given: dict[str, Any]) -> tuple[Any, Any]:
    if given["llm"]:
        return OpenAICritic(goal=given["goal"]), OpenAIReviser(goal=given["goal"])
    if given["goal"]:
        raise click.UsageError("--goal goes with --llm")
    terms, words_max = given["terms"], given["words_max"]
    return LocalCritic(terms, words_max=words_max), LocalReviser(terms, words_max=words_max)


@contextmanager
def _shown(app: App) -> Iterator[Any]:
    """Yield what shows an event: as a line of JSON, or beside a spinner on a terminal's stderr."""
    if app.json:
        yield _print_event
        return
    console = stderr()
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("Judging")

        def show(event: Event) -> None:
            if isinstance(event, Warned):
                note(f"round {event.round}: {event.message}", "yellow")
            said = _said(event)
            if said:
                progress.update(task, description=said)

        yield show


def _print_event(event: Event) -> None:
    if not isinstance(event, Failed):  # the error itself follows, as of every command
        write_bytes(msgspec.json.encode(event) + b"\n")


def _said(event: Event) -> str:
    """Return a line about an event; "" where there is nothing to say."""
    if isinstance(event, Scored):
        best = f"(best: {event.best_score:.3f} in round {event.best_round})"
        return f"Round {event.round}: score {event.score:.3f} {best}, revising"
    if isinstance(event, Revised):
        return f"Round {event.round}: revised, judging"
    return f"Round {event.round} left the history" if isinstance(event, Evicted) else ""


# --- what came of it


def _print_result(file: str, before: str, result: Result, target: Path | None) -> None:
    for line in _diff(file, before, result.text):
        colour = COLOURS.get(line[:1], "")
        stdout().print(Text(printable(line), style=colour), soft_wrap=True)
    stats = result.metadata["memory_stats"]
    because = str(stats["stopped_because"]).replace("_", " ")
    rounds = counted(stats["iterations"], "revision")
    score = "" if result.score is None else f"score {result.score:.3f}, "
    say(f"{score}{rounds}, ended: {because}.", "dim")
    if target is not None:
        say(f"Written to {target}.")
    if "episode_id" in result.metadata:
        say(f"Recorded as episode {result.metadata['episode_id']}.")


def _diff(file: str, before: str, after: str) -> Iterable[str]:
    """Return the lines of a unified diff; a word about it if nothing has changed."""
    if before == after:
        return ["No change: the text is the best of those judged."]
    lines = (before.splitlines(), after.splitlines())
    return unified_diff(*lines, f"{file} before", f"{file} after", lineterm="")

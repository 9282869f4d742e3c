"""improve: a text in rounds of critique and revision, and what changed."""

import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from difflib import unified_diff
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.text import Text

from eventlog.files.datafile import reason
from memory_actors.base import text_files
from memory_actors.base.errors import (
    ContextFileError,
    ImprovementError,
    InvalidInputError,
    MemoryLimitError,
)
from memory_actors.base.text_files import Seen
from memory_actors.cli import options
from memory_actors.cli.options import App, Count
from memory_actors.cli.output import counted, note, print_json_line, printable, say, stderr, stdout
from memory_actors.cli.running import ensure_model, run, with_user
from memory_actors.improve import (
    Critic,
    Event,
    Evicted,
    Finished,
    Improver,
    LocalCritic,
    LocalReviser,
    OpenAICritic,
    OpenAIReviser,
    Result,
    Revised,
    Reviser,
    Scored,
    Warned,
)
from memory_actors.sharing.system import UserMemory

STDIN = "-"
IMPROVED = ".improved"
TARGET_BYTES_MAX = 1 << 20  # what --output replaces may be longer than what can be improved
COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@options.command(shared=options.OF_NEW)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--llm", is_flag=True, help="Ask a language model, see below; otherwise none.")
@click.option("--rounds", type=Count(min=0), default=10, show_default=True)
@click.option("--stop", "target", type=click.FloatRange(0, 1), help="A score that is good enough.")
@click.option("--term", "terms", multiple=True, help="A name as it is spelt. May be repeated.")
@click.option("--goal", default="", help="The goal of the text: for --llm.")
@click.option("--record", is_flag=True, help="Keep the run as an episode of the user.")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the best text there."
)
@click.option("--in-place", is_flag=True, help="Write the best text into FILE.")
def improve(
    app: App, /, file: str, record: bool, output: Path | None, in_place: bool, **given: object
) -> None:
    """Improve the text of FILE in rounds of critique and revision. - is stdin.

    Without --llm it measures known terms, repetition, wordiness and long sentences, and
    makes edits that are safe. With it, a model is asked: set MEMORY_ACTORS_LLM_MODEL, and
    MEMORY_ACTORS_LLM_BASE_URL or OPENAI_API_KEY.

    Prints what changed. FILE stays as it is, unless --in-place; if it was changed during the run,
    the text goes into FILE.improved. If a run fails, the best text so far goes to --output. With
    --json: one event a line, as it happens; the last has the result, or an error's line follows it.
    """
    target = _target(file, output, in_place)
    seen = None if target is None else text_files.read(target, TARGET_BYTES_MAX)
    text = _text(file, seen if in_place else None)
    if record:
        ensure_model(app)
    try:
        result = (
            with_user(app, lambda user: _improve(app, text, user, given), create=True)
            if record
            else run(lambda: _improve(app, text, None, given))
        )
    except (ImprovementError, MemoryLimitError) as error:
        if seen is not None and not in_place:
            _save_what_was_reached(seen, error.result)
        raise
    if not app.json:
        lines = (text.splitlines(), result.text.splitlines())
        diff = unified_diff(*lines, f"{file} before", f"{file} after", lineterm="")
        nothing = "No change: the text is the best of those judged."
        for line in [nothing] if text == result.text else diff:
            colour = COLOURS.get(line[:1], "")
            stdout().print(Text(printable(line), style=colour), soft_wrap=True)
        stats = result.metadata["memory_stats"]
        because = str(stats["stopped_because"]).replace("_", " ")
        rounds = counted(stats["iterations"], "revision")
        score = "" if result.score is None else f"score {result.score:.3f}, "
        say(f"{score}{rounds}, ended: {because}.", "dim")
        if "episode_id" in result.metadata:
            say(f"Recorded as episode {result.metadata['episode_id']}.")
    if seen is not None:
        _write(seen, result.text)
        if not app.json:
            say(f"Written to {target}.")


# --- files


def _target(file: str, output: Path | None, in_place: bool) -> Path | None:
    """Return where to write the text; None: nowhere."""
    if in_place and (file == STDIN or output is not None):
        raise click.UsageError("--in-place needs a FILE, and goes without --output")
    if in_place:
        return Path(file)
    is_there = file != STDIN and Path(file).exists()
    if output is not None and is_there and output.exists() and output.samefile(file):
        raise click.UsageError("--output is FILE itself: say --in-place to overwrite it")
    return output


def _text(file: str, seen: Seen | None) -> str:
    try:
        if seen is not None:
            data = seen.data
        else:
            data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        if data is None:
            raise FileNotFoundError
        return data.decode()
    except FileNotFoundError as error:
        raise InvalidInputError(f"cannot read {file}: there is no such file") from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{file} is not UTF-8: {error.reason}") from error
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"cannot read {file!r:.200}: {reason(error)}") from error


def _write(seen: Seen, text: str) -> None:
    """Put a text in the place of what was seen before the run; else into a file beside it."""
    why = f"{seen.path} was changed during the run, and stays as it is"
    try:
        if text_files.replace(seen, text):
            return
    except ContextFileError as error:
        why = str(error)
    raise ContextFileError(f"{why}; the improved text is in {_beside(seen.path, text)}")


def _beside(path: Path, text: str) -> Path:
    """Put a text into a new file beside another one; return which."""
    number = 1
    while True:
        ending = IMPROVED if number == 1 else f"{IMPROVED}-{number}"
        seen = text_files.read(path.with_name(path.name + ending), TARGET_BYTES_MAX)
        if seen.data is None and text_files.replace(seen, text):
            return seen.path
        number += 1


def _save_what_was_reached(seen: Seen, result: Result | None) -> None:
    if result is None or result.score is None:
        return
    try:
        _write(seen, result.text)
    except ContextFileError as error:  # the run's own error follows
        note(f"The best text so far: {error}.", "yellow")
    else:
        note(f"The best text so far (score {result.score:.3f}) is in {seen.path}.", "yellow")


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


def _pair(given: dict[str, Any]) -> tuple[Critic, Reviser]:
    if given["llm"]:
        return OpenAICritic(goal=given["goal"]), OpenAIReviser(goal=given["goal"])
    if given["goal"]:
        raise click.UsageError("--goal goes with --llm")
    return LocalCritic(given["terms"]), LocalReviser(given["terms"])


@contextmanager
def _shown(app: App) -> Iterator[Callable[[Event], None]]:
    """Yield what shows an event: as a line of JSON, or beside a spinner on a terminal's stderr."""
    if app.json:
        yield print_json_line
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


def _said(event: Event) -> str:
    if isinstance(event, Scored):
        best = f"(best: {event.best_score:.3f} in round {event.best_round})"
        return f"Round {event.round}: score {event.score:.3f} {best}, revising"
    if isinstance(event, Revised):
        return f"Round {event.round}: revised, judging"
    return f"Round {event.round} left the history" if isinstance(event, Evicted) else ""

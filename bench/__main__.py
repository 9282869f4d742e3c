"""`python -m bench NAME`: run a measurement and print it, as a table or as `--json`."""

import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import msgspec
import structlog

from bench.report import Options, show


@click.group()
def main() -> None:
    """Measure memory-actors. Each command prints what it ran and with which seed."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))


@main.command()
@click.option("--rounds", default=200, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--during", default="writing", show_default=True, help="Work done besides writing, or instead."
)
@click.option("--json", "as_json", is_flag=True)
def kill(rounds: int, seed: int, during: str, as_json: bool) -> None:
    """Kill a process at random moments with SIGKILL; exit 1 if anything acknowledged was lost."""
    from bench.faults.kills import DURING

    if during not in DURING:
        raise click.BadParameter(f"--during is one of {', '.join(DURING)}")
    report = DURING[during](rounds, seed)
    show(report, as_json)
    sys.exit(not report.ok)


@main.command()
@click.option("--rows", help="Names of rows, separated by commas; all by default.")
@click.option("--counts", type=click.Choice(["quick", "middle", "full"]), default="quick")
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Where to write; by default a temporary directory, in memory where a disk tells nothing.",
)
@click.option("--json", "as_json", is_flag=True)
def faults(rows: str | None, counts: Any, seed: int, directory: Path | None, as_json: bool) -> None:
    """Run the fault matrix: tried, survived, lost; exit 1 if a row fails."""
    from bench.faults import ROWS, run
    from bench.faults.table import header, line, more

    names = ROWS if rows is None else tuple(rows.split(","))
    if unknown := set(names) - set(ROWS):
        raise click.BadParameter(f"no rows {sorted(unknown)}: there are {', '.join(ROWS)}")
    done = []
    if not as_json:
        click.echo(header(counts, seed))
    for row in run(names, counts, seed, directory):
        done.append(row)
        if not as_json:
            click.echo(line(row))
    click.echo(msgspec.json.encode(done) if as_json else more(done))
    sys.exit(not all(row.ok for row in done))


@main.command()
@click.argument("modules", nargs=-1)
@click.option("--each", default=16, show_default=True, help="Mutants of each module, at most.")
@click.option("--seed", default=1, show_default=True)
@click.option("--properties", is_flag=True, help="Run the property tests of each module alone.")
@click.option("--json", "as_json", is_flag=True)
def mutants(
    modules: tuple[str, ...], each: int, seed: int, properties: bool, as_json: bool
) -> None:
    """Put small faults into the modules that decide, and say which no test notices."""
    from bench.mutants import TESTS, run

    if unknown := set(modules) - set(TESTS):
        raise click.BadParameter(f"no tests for {sorted(unknown)}: there are {', '.join(TESTS)}")
    show(run(modules, each, seed, properties), as_json)


FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
paths = click.argument("paths", nargs=-1, required=True, type=FILE)


def several(
    flag: str, default: tuple[int, ...], least: int, told: str | None = None
) -> Callable[[Any], Any]:
    """Return an option for numbers, given once for each."""
    return click.option(
        flag, multiple=True, default=default, show_default=True, type=click.IntRange(least),
        help=told,
    )  # fmt: skip


def measurement(runs: int) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a command of a function that returns a report.

    One without parameters stands for `run` in the module of its name. It gets `options` besides
    what the command line says. If the report has an `ok` that is false, the command exits with
    status 1.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        def command(
            directory: Path | None, seed: int, runs: int, as_json: bool, **rest: Any
        ) -> None:
            is_whole = bool(inspect.signature(function).parameters)
            run = function if is_whole else import_module(f"bench.{function.__name__}").run
            report = run(options=Options(directory, seed, runs), **rest)
            show(report, as_json)
            if not report.ok:
                sys.exit(1)

        command.__doc__ = function.__doc__
        command.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
        common = (
            click.option(
                "--dir", "directory", type=click.Path(file_okay=False, exists=True, path_type=Path),
                help="Where to write; by default a temporary directory in the current one.",
            ),
            click.option("--seed", default=1, show_default=True),
            click.option("--runs", default=runs, show_default=True, type=click.IntRange(1)),
            click.option("--json", "as_json", is_flag=True, help="Print it for a program."),
        )  # fmt: skip
        for option in common:
            command = option(command)
        return main.command(function.__name__)(command)

    return decorate


plotted = click.option(
    "--plot", "drawn", type=click.Path(file_okay=False, path_type=Path),
    help="Draw into this directory, as PNG and SVG.",
)  # fmt: skip


@measurement(runs=5)
@click.option("--events", default=20_000, show_default=True, type=click.IntRange(1))
def log() -> None:
    """Time durable appends, against raw LMDB, SQLite and eventsourcing."""


@measurement(runs=5)
@click.option("--events", default=10_000, show_default=True, type=click.IntRange(1))
@click.option("--url", help="A database to write to; by default one of the `dev` extra is started.")
def postgres() -> None:
    """Time appends to PostgreSQL, against bare PostgreSQL in the same batches, and LMDB."""


@measurement(runs=3)
@click.option("--memories", default=10_000, show_default=True, type=click.IntRange(1))
@click.option("--url", help="A database to write to; by default one of the `dev` extra is started.")
def takeover(memories: int, url: str | None, options: Options) -> Any:
    """Time the first answer of a node that takes a user over from another, in PostgreSQL."""
    from bench.takeover import run

    return run(memories, options, url)


@measurement(runs=1)
@click.option("--rounds", default=100, show_default=True, type=click.IntRange(1))
@click.option("--faults", help="Names, separated by commas; all by default.")
@click.option("--nodes", default=3, show_default=True, type=click.IntRange(2))
@click.option("--users", default=12, show_default=True, type=click.IntRange(1))
@click.option(
    "--without-fence", "without", flag_value="fence", help="A control: stale commits must be seen."
)
@click.option(
    "--without-lease", "without", flag_value="lease", help="A control: stale reads must be seen."
)
def cluster(
    rounds: int, faults: str | None, nodes: int, users: int, without: Any, options: Options
) -> Any:
    """Strike nodes that share a store in PostgreSQL; exit 1 at anything lost, doubled or stale."""
    from bench.cluster import Plan, names_of, run

    try:
        names = names_of(faults, without)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return run(names, rounds, Plan(nodes, users, without=without), options)


@measurement(runs=3)
@click.option("--memories", default=10_000, show_default=True, type=click.IntRange(1_000))
@click.option("--calls", default=300, show_default=True, type=click.IntRange(10))
def nodes(memories: int, calls: int, options: Options) -> Any:
    """Time calls that another node carries out, and takeovers; exit 1 if a figure misses."""
    from bench.cluster.figures import run

    return run(memories, calls, options)


@measurement(runs=5)
@click.option("--events", default=100_000, show_default=True, type=click.IntRange(1))
def replay() -> None:
    """Time the folding, reading and verifying of one user's stream."""


@measurement(runs=5)
@several(
    "--sizes", (1_000, 10_000), 1, "Long-term memories of the user; give it once for each size."
)
@click.option("--calls", default=200, show_default=True, type=click.IntRange(1), help="Of each.")
@click.option("--without-model", is_flag=True, help="Only what is not the model.")
def memory() -> None:
    """Time everything a user's memory does, and its activation."""


@measurement(runs=3)
@click.option("--users", default=1_000, show_default=True, type=click.IntRange(1))
@several(
    "--memories", (0, 10, 100), 0, "Long-term memories of each user; give it once for each number."
)
@click.option("--calls", default=200, show_default=True, type=click.IntRange(1), help="Of each.")
def users() -> None:
    """Weigh live users in memory, see whether passivation bounds it, and use some of them."""


@measurement(runs=5)
@click.option("--scale", default=1.0, show_default=True, help="Of the default limits by count.")
@click.option("--calls", default=200, show_default=True, type=click.IntRange(1), help="Of each.")
@click.option("--prunes", default=10, show_default=True, type=click.IntRange(1))
@click.option("--without-model", is_flag=True, help="Only what is not the model.")
def quota() -> None:
    """Time the check, the adds and the queries of each kind at its full quota."""


@measurement(runs=3)
@click.option("--memories", default=100_000, show_default=True, type=click.IntRange(40))
@click.option("--calls", default=200, show_default=True, type=click.IntRange(1), help="Of each.")
def enterprise() -> None:
    """Use one user at the enterprise limit; say what that does to everybody else."""


@measurement(runs=5)
@several("--sizes", (5_000, 10_000, 20_000, 30_000, 50_000, 100_000), 20)
@click.option("--queries", default=100, show_default=True, type=click.IntRange(1))
@click.option(
    "--set", "paths", multiple=True, type=FILE,
    help="Rows are the sentences of a set of `recall`, and mixtures of them.",
)  # fmt: skip
def crossover() -> None:
    """Find the number of rows from which sketches beat a scan, and a graph beats them."""


@measurement(runs=1)
@click.argument("path", type=FILE)
@click.option("--embedder", "name", type=click.Choice(["default", "hashed"]), default="default")
@click.option(
    "--ablation", is_flag=True, help="Also without each signal in turn: eight times as long."
)
@plotted
def locomo() -> None:
    """Score recall on a LoCoMo file, through the public API."""


@measurement(runs=1)
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH…",
    type=FILE,
)  # fmt: skip
@click.option("--embedder", "name", default="default", metavar="NAME", help="or `hashed`")
@click.option(
    "--ablation", is_flag=True, help="Also without each signal in turn: eight times as long."
)
@click.option(
    "--asked-before", "before", is_flag=True,
    help="Store every question once, with a reply, before it is asked.",
)  # fmt: skip
@click.option(
    "--peer", "peers", multiple=True, metavar="NAME",
    help="Also another system, as `peers` names it; give it once for each.",
)  # fmt: skip
@click.option(
    "--reranker", metavar="NAME", help="Also reranked, as `open` takes it: fastembed:MODEL."
)
@plotted
def recall() -> None:
    """Score recall and what scores say on sets of any kind; exit 1 where a baseline is better."""


@measurement(runs=1)
@paths
@click.option("--turns", is_flag=True, help="Take turns of conversations for facts.")
@click.option("--embedder", "name", type=click.Choice(["default", "hashed"]), default="default")
def supersedes() -> None:
    """Print the pairs of facts of which the newer one says otherwise, and what that does."""


@measurement(runs=1)
def redaction() -> None:
    """Score what redaction finds in 500 texts; exit 1 below a precision of .97, a recall of .95."""


@measurement(runs=1)
@paths
@click.option(
    "--store", type=click.Path(file_okay=False, path_type=Path), required=True,
    help="A directory that keeps what is embedded for the next run.",
)  # fmt: skip
@click.option("--write", is_flag=True, help="Write memory_actors/search/learned_weights.py.")
@click.option("--left-out", "judged", is_flag=True, help="Also fit without each set in turn.")
def learn() -> None:
    """Learn the weights of the ranking from sets as `recall` takes them."""


@measurement(runs=1)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--limit", type=click.IntRange(1), help="Questions, spread over the file.")
@click.option(
    "--turns", "whose", type=click.Choice(["user", "all"]), default="user", show_default=True,
    help="Whose turns become memories; official figures are of the user's.",
)  # fmt: skip
@click.option("--embedder", "name", type=click.Choice(["default", "hashed"]), default="default")
def longmemeval() -> None:
    """Score recall on a LongMemEval file, by its official rules and over all questions."""


@measurement(runs=1)
@click.argument("path", type=FILE)
@click.option("--only", multiple=True, metavar="NAME", help="A peer; give it once for each.")
@click.option("--conversations", type=click.IntRange(1), help="Only that many; by default all.")
@click.option(
    "--memories", default=10_000, show_default=True, type=click.IntRange(1),
    help="In the store that is timed and weighed.",
)  # fmt: skip
@click.option("--calls", default=300, show_default=True, type=click.IntRange(1), help="Searches.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(0), help="Kills.")
@click.option("--embedder", type=click.Choice(["default", "hashed"]), default="default")
@plotted
def peers(path: Path, drawn: Path | None, options: Options, **asked: Any) -> Any:
    """Compare other systems and ours: recall on a LoCoMo file, speed, size, kill -9."""
    from bench.peers_run import Asked, run

    return run(path, Asked(**asked), options, drawn)


@main.command()
@click.option("--plot", "drawn", type=click.Path(path_type=Path), default="docs/pictures")
def pictures(drawn: Path) -> None:
    """Draw the pictures of the docs: charts of published tables, the demo, the dashboard."""
    from bench.pictures import draw_all

    for path in draw_all(drawn):
        click.echo(path)


@measurement(runs=1)
@several("--sizes", (10_000, 40_000), 1, "Vectors; give it once for each size.")
@click.option("--alone", is_flag=True, help="Without scikit-learn.")
def clustering() -> None:
    """Compare our DBSCAN with scikit-learn's; exit 1 if a label differs."""


@measurement(runs=5)
@click.option("--memories", default=40_000, show_default=True, type=click.IntRange(100))
@click.option("--calls", default=200, show_default=True, type=click.IntRange(1), help="Of each.")
@click.option("--embedder", "name", type=click.Choice(["default", "hashed"]), default="default")
@click.option(
    "--locomo", type=FILE,
    help="A LoCoMo file: also show what recall is left, by summariser.",
)  # fmt: skip
@plotted
def compaction() -> None:
    """Compact half a year of one user: bytes, times, recall; exit 1 if a memory is lost."""


@measurement(runs=3)
@several("--sizes", (1_000, 10_000, 100_000), 10, "Memories of the user; give it once for each.")
@plotted
def storage() -> None:
    """Weigh one user's memories on disk and in memory, part by part, by their number."""


@measurement(runs=3)
@click.option("--memories", default=10_000, show_default=True, type=click.IntRange(100))
@click.option("--calls", default=300, show_default=True, type=click.IntRange(3))
@click.option(
    "--texts", default=1_000, show_default=True, type=click.IntRange(10),
    help="Of add_many with the model.",
)  # fmt: skip
def limits() -> None:
    """Set each path beside the floor under it: one fsync, one pass, the raw library."""


@measurement(runs=1)
@several(
    "--sizes",
    (1_000, 10_000, 100_000),
    10,
    "Memories of one user; 1000000 takes some half an hour.",
)
@several("--users", (10, 1_000, 10_000), 1, "Users of 20 memories each.")
@click.option("--calls", default=200, show_default=True, type=click.IntRange(1))
@plotted
def growth() -> None:
    """Draw what grows with memories and with users: disk, memory, activation, add, retrieve."""


@measurement(runs=1)
@click.option("--users", default=1_000_000_000, show_default=True, type=click.IntRange(1_000))
@click.option(
    "--active", "active_a_day", default=100_000_000, show_default=True, type=click.IntRange(1),
    help="Users a day.",
)  # fmt: skip
@click.option("--memories", default=100, show_default=True, type=click.IntRange(1), help="Of each.")
@click.option(
    "--stored-bytes", default=4_000.0, show_default=True, type=click.FloatRange(1),
    help="The size of a memory in PostgreSQL.",
)  # fmt: skip
@click.option(
    "--commit-ms", default=1.0, show_default=True, type=click.FloatRange(0.01),
    help="The commit time of a database with its standby; `bench postgres` measures one without.",
)  # fmt: skip
def scale(
    users: int,
    active_a_day: int,
    memories: int,
    stored_bytes: float,
    commit_ms: float,
    options: Options,
) -> Any:
    """Reckon what very many users need: nodes, databases, money, and a year of failures."""
    from bench.scale import Costs, Use, run

    if active_a_day > users:
        raise click.BadParameter(f"--active: {active_a_day:,} of {users:,} users cannot be active")
    use = Use(users=users, active_a_day=active_a_day, memories=memories)
    return run(use, Costs(stored_bytes=stored_bytes, commit_s=commit_ms / 1e3), options)


@measurement(runs=3)
@click.option("--rows", default=25_000, show_default=True, type=click.IntRange(100))
@click.option("--queries", default=200, show_default=True, type=click.IntRange(1))
def churn() -> None:
    """Replace half of an index and delete nine tenths; exit 1 if recall@10 falls below 0.95."""


@measurement(runs=1)
@click.option("--calls", default=100, show_default=True, type=click.IntRange(1), help="Of each.")
@click.option("--memories", default=1_000, show_default=True, type=click.IntRange(1))
@click.option("--day", default=1_000, show_default=True, type=click.IntRange(0), help="Prompts.")
def hooks() -> None:
    """Time the hooks of coding agents as whole processes; exit 1 if p95 is over 100 ms."""


@measurement(runs=5)
@click.option("--calls", default=1_000, show_default=True, type=click.IntRange(10))
def sync() -> None:
    """Time calls without `await` beside awaited ones; exit 1 if they take over 0.15 ms more."""


@measurement(runs=3)
@click.option("--clients", default=8, show_default=True, type=click.IntRange(1))
@click.option("--seconds", default=20.0, show_default=True, help="Of work, each time.")
@click.option(
    "--memories", default=10_000, show_default=True, type=click.IntRange(200),
    help="Of each user, where the owner is killed.",
)  # fmt: skip
@click.option("--kills", default=8, show_default=True, type=click.IntRange(1))
@click.option("--calls", default=500, show_default=True, type=click.IntRange(1), help="Of each.")
def processes() -> None:
    """Time clients of an owner beside the owner, and kill it; exit 1 if a figure misses."""


@measurement(runs=3)
@click.option("--rounds", default=2_000, show_default=True, type=click.IntRange(10))
@click.option("--kb", "text_kb", default=50, show_default=True, type=click.IntRange(1, 100))
def improve() -> None:
    """Improve a text for many rounds, beside a list that keeps all; exit 1 if it grows or slows."""


@measurement(runs=1)
@click.option(
    "--locomo", type=FILE,
    help="A LoCoMo file: also on what people said.",
)  # fmt: skip
@click.option(
    "--set", "sets", multiple=True,
    type=FILE,
    help="A set as `recall` takes, or another file of text; give it once for each.",
)  # fmt: skip
@click.option(
    "--tokenizer", "tokenizers", multiple=True,
    type=FILE,
    help="A tokenizer.json, or o200k_base.tiktoken; give it once for each.  [default: those of "
    "packages that carry one, or the installed model's]",
)  # fmt: skip
def tokens() -> None:
    """Say how far the estimates of tokens are from real tokenizers, by kind of text."""


@measurement(runs=1)
@click.option(
    "--list", "listed", metavar="WORD",
    help="Also the details of the measures whose name contains it: docstrings, fields, private, "
    "class, crosses, floors, imports; `all` of all.",
)  # fmt: skip
def house() -> None:
    """Measure how the product is built: packages, floors, files that a call crosses, words."""


if __name__ == "__main__":
    main()

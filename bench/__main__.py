"""`python -m bench NAME`: run a measurement and print it, as a table or as `--json`."""

import sys

import click
import msgspec
import structlog


@click.group()
def main() -> None:
    """Measure memory-actors. Each command prints what it ran and with which seed."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))


@main.command()
@click.option("--rounds", default=200, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def kill(rounds: int, seed: int, as_json: bool) -> None:
    """Kill a writer at random moments with SIGKILL; exit 1 if anything acknowledged was lost."""
    from bench.kill import run

    report = run(rounds, seed)
    show(report, as_json)
    sys.exit(not report.ok)


def show(report: msgspec.Struct, as_json: bool) -> None:
    """Print a report of plain fields."""
    if as_json:
        click.echo(msgspec.json.encode(report).decode())
        return
    for name in report.__struct_fields__:
        click.echo(f"{name:>20}  {getattr(report, name)}")


if __name__ == "__main__":
    main()

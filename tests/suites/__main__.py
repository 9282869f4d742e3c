"""`scripts/contracts`: runs the owners' tests, and prints what came of it."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

import msgspec

from suites import npm
from suites.declared import HERE, suites
from suites.obtaining import NotObtainedError
from suites.running import Result, run, run_by_hand

PAGE = HERE.parents[1] / "docs/integrations.md"
BEGIN, END = "<!-- scripts/contracts --write -->", "<!-- end -->"


def table(results: Sequence[Result]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield "| suite | version | passed | left out |"
    yield "|---|---|---|---|"
    for one in results:
        left_out = sum(one.items_left_out.values())
        yield f"| {one.package} (`{one.suite}`) | {one.version} | {one.passed} | {left_out} |"


def reasons(results: Sequence[Result]) -> Iterator[str]:
    """Yield the lines of a list in Markdown: what is left out, by reason."""
    for one in results:
        if not one.left_out:
            continue
        yield f"\nLeft out of `{one.suite}`:\n"
        by_reason = sorted(one.left_out, key=one.left_out.__getitem__)
        for reason, entries in groupby(by_reason, key=one.left_out.__getitem__):
            named = ", ".join(f"`{_short(entry)}`" for entry in sorted(entries))
            yield f"- {reason.strip()} {named}"


def _short(entry: str) -> str:
    """Return a test's name, or a file's without its folder: as a path it would be one of ours."""
    if "::" in entry:
        return entry.rpartition("::")[2]
    return entry if entry.endswith("/") else entry.rpartition("/")[2].removesuffix(".py")


def write(results: Sequence[Result]) -> None:
    """Put the table between the marks of the page."""
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    said = "\n".join(table(results))
    PAGE.write_text(f"{before}{BEGIN}\n{said}\n{END}{after}", "utf-8")


def _arguments(given: Sequence[str], known: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/contracts",
        description="Run the owners' own tests, unedited, against what stands in for them.",
        epilog="After `--`: options for pytest, and no judgement. docs/internals/contracts.md",
    )
    parser.add_argument("names", nargs="*", metavar="SUITE", help=f"of {', '.join(known)}")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    chosen = parser.parse_args(given)
    for name in chosen.names:
        if name not in known:
            parser.error(f"there is no suite {name!r}: {', '.join(known)}")
    if chosen.write and chosen.names:
        parser.error("--write wants a run of all suites: leave out the names")
    return chosen


def main() -> int:
    """Run the suites that are named, or all; return 1 if one fails."""
    declared, given = suites(), sys.argv[1:]
    is_by_hand = "--" in given
    own = given[: given.index("--")] if is_by_hand else given
    arguments = _arguments(own, [*declared, *npm.SUITES])
    names = arguments.names or [*declared, *npm.SUITES]
    chosen = [declared[name] for name in names if name in declared]
    if is_by_hand:
        if not chosen:
            raise SystemExit("options for pytest are for suites that pytest runs")
        return max(run_by_hand(suite, given[len(own) + 1 :]) for suite in chosen)
    work = {f"{one.name} ({one.package} {one.version})": partial(run, one) for one in chosen}
    work |= {name: suite for name, suite in npm.SUITES.items() if name in names}
    results = []
    for name, runs in work.items():
        print(f"{name} …", file=sys.stderr, flush=True)
        try:
            results.append(runs())
        except NotObtainedError as error:
            print(f"cannot be had: {error}", file=sys.stderr)
            return 2
        print(*results[-1].problems, f"{results[-1].seconds:.0f} s", sep="\n", file=sys.stderr)
    if arguments.json:
        print(msgspec.json.encode(results).decode())
    else:
        print(*table(results), *reasons(results), sep="\n")
    failed = any(result.problems for result in results)
    if arguments.write and not failed:
        write(results)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

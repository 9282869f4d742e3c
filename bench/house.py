"""Measures of the house: entries, floors, files that a call crosses, words, lines.

All of it is read from the tree and from one real store; no entry is known by name. An entry is a
module or a folder in the root of a package; `__init__` is the door and no entry. The
figures are to be looked at, they are no limits: where one disagrees with good sense, sense wins.
"""

import ast
import asyncio
import inspect
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

import eventlog
import memory_actors
from bench.crossing import CALLS, Crossing, profiled
from bench.floors import circles, floors, room_imports
from bench.hashed import HashedTokens
from bench.report import Options, Report, Table, percentile, scratch

PACKAGES = {"memory_actors": memory_actors, "eventlog": eventlog}
RECORDS = {
    "an episode": memory_actors.Episode,
    "a document": memory_actors.Document,
    "a relationship": memory_actors.Relationship,
}
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
FIELDS_MIN = 3  # that a function, a class or a literal names before it counts as a list of them
FILE_LINES_MAX = 400  # a file past this wants to be two files

GOALS = {
    "entries in the root of memory_actors": "<= 16",
    "floors of memory_actors": "<= 10",
    "floors of eventlog": "<= 10",
    "files that an add crosses": "<= 35",
    "files that a working.set crosses": "<= 25",
    "files that a get crosses": "<= 18",
    "import lines, %": "< 6",
    "private functions named once in their file, %": "< 45",
    "class names defined twice or more": "< 10",
    "files that list the fields of an episode": "3",
    "files that list the fields of a document": "3",
    "files that list the fields of a relationship": "3",
    "product lines": "<= 46000",
    "docstrings without a noun for a subject, %": "0",
}
"""The goal of each figure; a measure without a line here has no goal."""

_NO_NOUN = re.compile(
    r"(What|Who|Whom|Whose|Where|How|Whether|Which|The same|All that|Those that|That|As|If|When)\b"
)

NOTES = tuple(
    " ".join(note.split())
    for note in f"""\
floors: the longest chain of imports between entries, at run time (also from within functions, not
under TYPE_CHECKING); entries that import each other in a circle count as one floor
---
files crossed: files of the two packages in which a function, a lambda or a comprehension ran
between each of {CALLS} calls and its result, in any thread and task, after two that warm up
---
import lines: the lines of import statements, of all lines
---
private functions: `_name`, in modules and classes; named once apart from their definition
---
fields: a file counts if one function, class body or statement of its module names at least
{FIELDS_MIN} fields of the public record (names, attributes, keywords, strings), leaving out those
that most records have (an entry of working memory looks like a document)
---
docstrings: of modules, classes, functions and attributes; without a noun are those that begin with
What, Who, Whom, Whose, Where, How, Whether, Which, The same, All that, Those that, That, As, If,
When
---
lengths of functions are in lines, from `def` to the end, without the docstring
""".split("---")
)


class File(msgspec.Struct, frozen=True):
    """A file of the product: its path below the root, its lines, its syntax tree."""

    path: str
    lines: int
    tree: ast.Module


class Measure(msgspec.Struct, frozen=True):
    """One line of the table, and what `--list` shows of it."""

    name: str
    today: float
    details: Sequence[str] = ()


def run(listed: str | None, options: Options) -> Report:
    """Measure the house; list the details of measures whose name contains `listed`."""
    measures = [*measured(files()), *_rooms(), *_crossed(options)]
    order = [*GOALS]
    measures.sort(key=lambda one: order.index(one.name) if one.name in order else len(order))
    rows = [(measure.name, measure.today, GOALS.get(measure.name)) for measure in measures]
    tables = [Table("Measures", ("measure", "today", "goal"), rows)]
    for measure in measures:
        if measure.details and (listed == "all" or (listed and listed in measure.name)):
            lines = [(detail,) for detail in measure.details]
            tables.append(Table(f"Of {measure.name}", ("detail",), lines))
    found = [circle for package in PACKAGES for circle in circles(room_imports(package))]
    notes = [*NOTES, *(f"entries that import each other: {', '.join(circle)}" for circle in found)]
    return Report("house", {"details": "--list WORD"}, tables, notes)


def files() -> list[File]:
    """Read all files of the product, in the order of their paths."""
    paths = [path for package in PACKAGES.values() for path in root(package).rglob("*.py")]
    return [read(path) for path in sorted(paths)]


def root(package: Any) -> Path:
    """Return the directory of a package."""
    return Path(package.__file__).parent


def read(path: Path) -> File:
    """Read one file of the product."""
    text = path.read_text()
    return File(_below(str(path)), len(text.splitlines()), ast.parse(text))


def _below(path: str) -> str:
    return path.removeprefix(f"{root(memory_actors).parent}/")


def measured(read_files: Sequence[File]) -> Iterator[Measure]:
    """Yield all figures that come from reading files alone."""
    yield Measure("product lines", sum(file.lines for file in read_files))
    yield _imports(read_files)
    yield _named_once(read_files)
    yield _class_names(read_files)
    yield from _field_lists(read_files)
    yield _without_noun(read_files)
    yield from _lengths(read_files)


def _share(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _imports(read_files: Sequence[File]) -> Measure:
    lines = Counter[str]()
    for file in read_files:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                lines[file.path] += _span(node)
    share = _share(lines.total(), sum(file.lines for file in read_files))
    return Measure("import lines, %", share, [f"{path}: {n}" for path, n in lines.most_common()])


def _named_once(read_files: Sequence[File]) -> Measure:
    private, once = 0, []
    for file in read_files:
        uses = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(file.tree)
            if isinstance(node, ast.Name | ast.Attribute)
        )
        owners = [one for one in ast.walk(file.tree) if isinstance(one, ast.Module | ast.ClassDef)]
        for node in (one for owner in owners for one in owner.body if isinstance(one, FUNCTIONS)):
            if node.name.startswith("_") and not node.name.endswith("__"):
                private += 1
                if uses[node.name] == 1:
                    once.append(f"{file.path}:{node.lineno} {node.name}")
    share = _share(len(once), private)
    return Measure("private functions named once in their file, %", share, once)


def _class_names(read_files: Sequence[File]) -> Measure:
    places = defaultdict(list)
    for file in read_files:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{file.path}:{node.lineno}")
    twice = [f"{name}: {', '.join(at)}" for name, at in sorted(places.items()) if len(at) > 1]
    return Measure("class names defined twice or more", len(twice), twice)


# --- fields


def _field_lists(read_files: Sequence[File]) -> Iterator[Measure]:
    records = (*RECORDS.values(), memory_actors.Memory)
    having = Counter(field for record in records for field in record.__struct_fields__)
    own = {
        name: {field for field in record.__struct_fields__ if having[field] <= 2}
        for name, record in RECORDS.items()
    }
    found = {name: list[str]() for name in RECORDS}
    for file in read_files:
        units = [(line, _names(nodes)) for line, nodes in _units(file.tree)]
        for name, wanted in own.items():
            lists = [(line, names & wanted) for line, names in units]
            line, named = max(lists, key=lambda one: len(one[1]), default=(0, set()))
            if len(named) >= FIELDS_MIN:
                found[name].append(f"{file.path}:{line} {', '.join(sorted(named))}")
    for name, at in found.items():
        yield Measure(f"files that list the fields of {name}", len(at), at)


def _units(tree: ast.Module) -> Iterator[tuple[int, list[ast.AST]]]:
    """Yield the functions, the bodies of classes without their methods, and other statements."""
    defined = FUNCTIONS | ast.ClassDef
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            yield node.lineno, [node]
        elif isinstance(node, ast.ClassDef):
            yield node.lineno, [one for one in node.body if not isinstance(one, defined)]
    for statement in tree.body:
        if not isinstance(statement, defined | ast.Import | ast.ImportFrom):
            yield statement.lineno, [statement]


def _names(nodes: Sequence[ast.AST]) -> set[str]:
    names = set()
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                names.add(name)
            case ast.keyword(arg=str(name)) | ast.arg(arg=name):
                names.add(name)
    return names


# --- docstrings and lengths


def _without_noun(read_files: Sequence[File]) -> Measure:
    texts = [
        (f"{file.path}:{line}", text) for file in read_files for line, text in _texts(file.tree)
    ]
    bad = [f"{at} {text.splitlines()[0]}" for at, text in texts if _NO_NOUN.match(text)]
    return Measure("docstrings without a noun for a subject, %", _share(len(bad), len(texts)), bad)


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield strings that stand for themselves: docstrings, and those below an attribute."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))) if text.strip():
                yield node.lineno, inspect.cleandoc(text).strip()


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines, docstring = _span(function), ast.get_docstring(function) is not None
    return lines - _span(function.body[0]) if docstring else lines


def _span(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _lengths(read_files: Sequence[File]) -> Iterator[Measure]:
    found = ((file.path, one) for file in read_files for one in ast.walk(file.tree))
    functions = ((path, one) for path, one in found if isinstance(one, FUNCTIONS))
    lengths = sorted(((_length(one), f"{path}:{one.lineno}") for path, one in functions))[::-1]
    counts = [length for length, _ in lengths]
    longest = [f"{at} {length} lines" for length, at in lengths[:30]]
    at = [f"{one.path}: {one.lines} lines" for one in read_files if one.lines > FILE_LINES_MAX]
    yield Measure("length of a function, median", statistics.median(counts))
    yield Measure("length of a function, p90", percentile(counts, 90))
    yield Measure("longest function", counts[0], longest)
    yield Measure(f"files over {FILE_LINES_MAX} lines", len(at), at)


# --- entries and floors


def _rooms() -> Iterator[Measure]:
    inside = root(memory_actors).iterdir()
    entries = sorted(one.name for one in inside if one.suffix == ".py" or any(one.rglob("*.py")))
    yield Measure("entries in the root of memory_actors", len(entries), entries)
    for package in PACKAGES:
        chain = floors(room_imports(package))
        yield Measure(f"floors of {package}", len(chain), chain)


# --- files crossed


def _crossed(options: Options) -> list[Measure]:
    async def trace(directory: Path) -> list[Measure]:
        crossing = Crossing([root(package) for package in PACKAGES.values()])
        async with (
            profiled(crossing),
            memory_actors.MemorySystem.open(directory / "data", embedder=HashedTokens()) as memory,
        ):
            user = memory.user("ada", session_id="first")
            kept = await user.add("Ada keeps bees.", "long_term")
            calls: dict[str, Callable[[int], Awaitable[Any]]] = {
                "an add": lambda turn: user.add(f"Ada saw {turn} whales.", "long_term"),
                "a working.set": lambda turn: user.working.set("seen", turn),
                "a get": lambda _: user.get(kept.memory_id),
            }
            return [
                Measure(f"files that {name} crosses", len(found), [*map(_below, found)])
                for name, call in calls.items()
                for found in [await crossing.of(call)]
            ]

    with scratch(options) as directory:
        return asyncio.run(trace(directory))

"""Entries of a package, which of them imports which, and how many floors that makes."""

from collections.abc import Mapping
from functools import cache


def room_imports(package: str) -> dict[str, set[str]]:
    """Return the imports between the entries of a package."""
    import grimp

    graph = grimp.build_graph(package, exclude_type_checking_imports=True, cache_dir=None)
    entries = {
        child.removeprefix(f"{package}."): set[str]() for child in graph.find_children(package)
    }
    for module in graph.modules - {package}:
        entry = module.split(".")[1]
        imported = graph.find_modules_directly_imported_by(module) - {package}
        entries[entry] |= {one.split(".")[1] for one in imported} - {entry}
    return entries


def circles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the circles of entries that import each other, directly or through others."""
    under = {entry: _below(entry, imports) for entry in imports}
    found = {frozenset(o for o in below if entry in under[o]) for entry, below in under.items()}
    return sorted(sorted(circle) for circle in found if circle)


def _below(entry: str, imports: Mapping[str, set[str]]) -> set[str]:
    seen, waiting = set[str](), [*imports[entry]]
    while waiting:
        if (one := waiting.pop()) not in seen:
            seen.add(one)
            waiting += imports[one]
    return seen


def floors(imports: Mapping[str, set[str]]) -> list[str]:
    """Return the longest chain of imports from the top down; entries in a circle are one floor."""
    circle_of = {entry: circle for circle in circles(imports) for entry in circle}

    @cache
    def chain(entry: str) -> tuple[str, ...]:
        circle = circle_of.get(entry, [entry])
        under = {one for member in circle for one in imports[member]}.difference(circle)
        name = entry if len(circle) == 1 else f"circle: {', '.join(circle)}"
        return (name, *max((chain(one) for one in sorted(under)), key=len, default=()))

    return list(max((chain(entry) for entry in sorted(imports)), key=len, default=()))

"""Rooms of a package, which of them imports which, and how many floors that makes."""

from collections.abc import Mapping
from functools import cache


def room_imports(package: str) -> dict[str, set[str]]:
    """Return which rooms of a package each of its rooms imports."""
    import grimp

    graph = grimp.build_graph(package, exclude_type_checking_imports=True, cache_dir=None)
    rooms = {
        child.removeprefix(f"{package}."): set[str]() for child in graph.find_children(package)
    }
    for module in graph.modules - {package}:
        room = module.split(".")[1]
        imported = graph.find_modules_directly_imported_by(module) - {package}
        rooms[room] |= {one.split(".")[1] for one in imported} - {room}
    return rooms


def circles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the circles of rooms that import each other, directly or through others."""
    under = {room: _below(room, imports) for room in imports}
    found = {frozenset(o for o in below if room in under[o]) for room, below in under.items()}
    return sorted(sorted(circle) for circle in found if circle)


def _below(room: str, imports: Mapping[str, set[str]]) -> set[str]:
    seen, waiting = set[str](), [*imports[room]]
    while waiting:
        if (one := waiting.pop()) not in seen:
            seen.add(one)
            waiting += imports[one]
    return seen


def floors(imports: Mapping[str, set[str]]) -> list[str]:
    """Return the longest chain of imports from the top down; rooms in a circle are one floor."""
    circle_of = {room: circle for circle in circles(imports) for room in circle}

    @cache
    def chain(room: str) -> tuple[str, ...]:
        circle = circle_of.get(room, [room])
        under = {one for member in circle for one in imports[member]}.difference(circle)
        name = room if len(circle) == 1 else f"circle: {', '.join(circle)}"
        return (name, *max((chain(one) for one in sorted(under)), key=len, default=()))

    return list(max((chain(room) for room in sorted(imports)), key=len, default=()))

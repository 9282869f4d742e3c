"""Strings that are found nowhere by chance, put wherever a user may put something."""

import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from memory_actors import Item, MemorySystem
from support.compacting import LOGIN, LUNCH, some


class Canaries:
    """Strings that are found nowhere by chance, each given once."""

    def __init__(self, user_id: str) -> None:
        self.given = [user_id]
        self.names = {user_id}
        """Those that name a user, an agent, a session or a context document."""

    def __call__(self) -> str:
        self.given.append(f"canary{len(self.given):03d}zq")
        return self.given[-1]

    def name(self) -> str:
        self.names.add(self())
        return self.given[-1]

    def text(self, size: int = 60) -> str:
        return (f"{self()} was here, " * 40)[:size]


async def canaries_everywhere(memory: MemorySystem, user_id: str) -> Canaries:
    """Put a canary wherever a user may put something, 100 and more."""
    give = Canaries(user_id)
    user = memory.user(user_id, agent_id=give.name(), session_id=give.name())
    for n in range(8):
        size = 3000 if n % 3 == 0 else 60
        item = Item(content=give.text(size), metadata={give(): give()}, memory_id=give())
        await user.add_many([item])
        await user.working.set(give(), {give(): give.text(size)})
        await user.short_term.add_message(give.text(size), session_id=give.name())
        await user.documents.put(give(), {give(): [give()]}, key=give())
    first = await user.entities.add_entity(give(), "person", observations=[give.text()])
    other = await user.entities.add_entity(give(), "city", observations=[give.text()])
    await user.entities.relate(first.memory_id, give(), other.memory_id, fact=give.text())
    episode = await user.episodes.start(give.text(), metadata={give(): give()})
    await user.episodes.step(episode.memory_id, give(), observation=give.text())
    await user.episodes.finish(episode.memory_id, give.text())
    changed = await user.add(give.text(), idempotency_key=give())
    await user.update(changed.memory_id, content=give.text(), metadata={"k": give()})
    await user.delete((await user.add(give.text())).memory_id)
    # not behind a label that both share: they would be one series
    await user.add_many(some(f"{LOGIN} {give()}", 7) + some(f"{LUNCH} {give()}", 7))
    assert (await memory.compact(user_id)).compressed == 2
    await user.retrieve(give())
    for _ in range(3):
        entry = await user.context.add(give(), give.text(), metadata={give(): give()})
    await user.context.archive(entry.entry_ids)
    await user.context.document(give.name()).add("", give.text())
    assert len(give.given) > 100
    return give


def parts(data: bytes) -> Iterator[bytes]:
    """Yield bytes, and whatever in them decompresses."""
    yield data
    for mark in (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"):
        at = data.find(mark)
        while at >= 0:
            with suppress(zlib.error):
                yield zlib.decompressobj().decompress(data[at:], 1 << 20)
            at = data.find(mark, at + 1)


def found_in(directory: Path) -> set[tuple[str, str]]:
    """Return the files with parts of a canary in their names or bytes, and the size of the part."""
    found = set()
    for path in directory.rglob("*"):
        whole = [path.name.encode(), *(parts(path.read_bytes()) if path.is_file() else ())]
        if any(b"canary" in part for part in whole):
            found.add((path.name, "canary"))
    return found


def found_in_database(url: str, *words: str) -> set[tuple[str, str, str]]:
    """Return the tables and columns of a schema that have these words.

    All of them are looked into, also what decompresses, and the parts of arrays.
    """
    import psycopg

    base, _, schema = url.partition("?schema=")
    found = set()
    with psycopg.connect(base, autocommit=True) as connection:
        names = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
        for [table] in connection.execute(names, [schema]).fetchall():
            rows = connection.execute(f'SELECT * FROM "{schema}"."{table}"')
            columns = [column.name for column in rows.description or ()]
            for row in rows:
                for column, value in zip(columns, row, strict=True):
                    whole = [part for one in _values(value) for part in parts(one)]
                    hits = [word for word in words if any(word.encode() in one for one in whole)]
                    found |= {(table, column, word) for word in hits}
    return found


def _values(value: object) -> Iterator[bytes]:
    """Yield the value of a column as bytes; of an array, each part."""
    if isinstance(value, list):
        for one in value:
            yield from _values(one)
    elif value is not None:
        yield value if isinstance(value, bytes) else str(value).encode()

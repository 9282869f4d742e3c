"""A process that appends to a store until it is killed, and says what was acknowledged."""

import asyncio
import itertools
import sys

from contracts.stores import Noted, registry

from eventlog import ANY_VERSION, PgEventStore

WRITERS = 4


async def main(url: str, name: str) -> None:
    async with PgEventStore.open(url, registry) as store:

        async def write(writer: int) -> None:
            for n in itertools.count():
                text = f"{name}-{writer}-{n}"
                await store.append(f"of {name} {writer}", [Noted(text)], n)
                await store.append("of all", [Noted(f"{text} again")], ANY_VERSION)
                print(text, flush=True)

        await asyncio.gather(*map(write, range(WRITERS)))


asyncio.run(main(*sys.argv[1:]))

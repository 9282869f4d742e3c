"""A coding agent's MEMORY.md: notes for every prompt, with a limit in tokens and an archive.

Prints:

    ## Commands

    - Run the tests with `just test`

    ## Style

    - Lines have at most 100 characters

    tokens: within the limit
    archived: Lines have at most 100 characters
    found in the archive: Lines have at most 100 characters
    in the prompt: True
"""

import asyncio
from tempfile import TemporaryDirectory

from memory_actors import MemorySystem


async def main() -> None:
    """Write notes, archive one, find it again, and make a prompt."""
    with TemporaryDirectory() as directory:
        async with MemorySystem.open(directory) as memory:
            user = memory.user("repo:shop", agent_id="coder", session_id="today")
            notes = user.context  # the document MEMORY.md
            tests = await notes.add("Commands", "Run the tests with `pytest`")
            style = await notes.add("Style", "Lines have at most 100 characters")
            await notes.edit(tests.entry_ids[0], "Run the tests with `just test`")
            print(await notes.render())

            size = await notes.size()
            print("tokens:", "within the limit" if size.remaining else "over the limit")

            await notes.archive(style.entry_ids)
            (archived,) = await notes.archived()
            print("archived:", archived.text.strip("\n -"))
            (hit,) = await notes.search_archive("How long may a line be?", top_k=1)
            print("found in the archive:", hit.text.strip("\n -"))

            prompt = await user.context("How do I run the tests?", token_budget=500)
            print("in the prompt:", "just test" in prompt.text)


asyncio.run(main())

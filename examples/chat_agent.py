"""A chat agent that remembers across sessions: `user.turn` writes, `user.context` makes the prompt.

Prints:

    you: Hi, I'm Ada. I am allergic to peanuts.
    bot: Noted.
    you: Which snack should I pack for the flight?
    bot: Leave out peanuts: you told me that you are allergic.
    remembered: user said: Hi, I'm Ada. I am allergic to peanuts.
"""

import asyncio
from tempfile import TemporaryDirectory

from memory_actors import MemorySystem, UserMemory


def your_model(system: str, question: str) -> str:
    """Stand in for a language model. Call any model here."""
    if "snack" in question and "allergic to peanuts" in system:
        return "Leave out peanuts: you told me that you are allergic."
    return "Noted."


async def reply(user: UserMemory, text: str) -> str:
    """Answer a message of the user, and remember both."""
    prompt = await user.context(text, token_budget=2_000)
    answer = your_model(prompt.text, text)
    await user.turn(text, role="user")
    await user.turn(answer, role="assistant")
    return answer


async def main() -> None:
    """Talk to the agent in two sessions."""
    said = {
        "monday": "Hi, I'm Ada. I am allergic to peanuts.",
        "friday": "Which snack should I pack for the flight?",
    }
    with TemporaryDirectory() as directory:
        async with MemorySystem.open(directory) as memory:
            for session, text in said.items():
                user = memory.user("ada", session_id=session)
                print("you:", text)
                print("bot:", await reply(user, text))
            (hit,) = await memory.user("ada").retrieve("What is Ada allergic to?", top_k=1)
            print("remembered:", hit.role, "said:", hit.content)


asyncio.run(main())

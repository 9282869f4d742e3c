"""A context provider of Microsoft's Agent Framework: a user's memory.

    Agent(client, context_providers=[MemoryActorsProvider(user)])

Before a run, the agent gets the memories that the new messages are about. After it, the provider
stores these messages and the answer, as one long-term memory each, in the session of the run.
"""

from typing import Final

from memory_actors.base.errors import importing
from memory_actors.base.records import Item, JsonObject
from memory_actors.base.validation import check_count, check_name
from memory_actors.integrations import adapting

with importing(adapting.NEEDS, "agent-framework"):
    from agent_framework import AgentSession, ContextProvider, Message, SessionContext

SOURCE_ID: Final = "memory_actors"
TOKEN_BUDGET: Final = 1_000


class MemoryActorsProvider(ContextProvider):
    """The memory of one user; `user` is async, or that of a `memory_actors.sync`.

    The memories given to the agent take at most `token_budget` tokens. With `remembers=False`
    nothing is kept: the agent only reads.
    """

    def __init__(
        self,
        user: adapting.AnyUser,
        source_id: str = SOURCE_ID,
        *,
        token_budget: int = TOKEN_BUDGET,
        remembers: bool = True,
    ):
        super().__init__(check_name(source_id, "source_id"))
        self._user = adapting.checked_user(user)
        self._token_budget = check_count(token_budget, "token_budget", 1)
        self._remembers = remembers

    async def before_run(
        self, *, agent: object, session: AgentSession, context: SessionContext, state: JsonObject
    ) -> None:
        """Tell the agent what is known about the new messages, as quoted data."""
        del agent, session, state
        query = "\n".join(one.text for one in context.input_messages if one.text)
        known = await adapting.known_about(self._user, query, self._token_budget)
        if known:
            context.extend_messages(self, [Message("user", [known])])

    async def after_run(
        self, *, agent: object, session: AgentSession, context: SessionContext, state: JsonObject
    ) -> None:
        """Keep the new messages and the answer.

        :raises QuotaExceededError: there is no room for them.
        """
        del agent, state
        if not self._remembers:
            return
        answer = context.response.messages if context.response else []
        session_id = context.session_id or session.session_id
        items = [
            Item(
                content=message.text,
                role=message.role,
                session_id=session_id,
                memory_id=message.message_id
                and adapting.lasting_id(session_id, message.message_id),
            )
            for message in (*context.input_messages, *answer)
            if message.role in adapting.SAID_BY
        ]
        await adapting.add_messages(self._user, items)

"""`user.episodes`: what an agent wanted, did, and what came of it."""

import msgspec

from memory_actors.base.errors import NotFoundError
from memory_actors.base.records import Episode, EvictedStep, Memory, Metadata, Receipt, Step, Time
from memory_actors.base.validation import check_count, check_name
from memory_actors.kinds import episodic
from memory_actors.kinds.episodic.state import Row
from memory_actors.kinds.provenance import Provenance
from memory_actors.search.reading import Found, memories
from memory_actors.users.writers.episodic import EpisodicWriter
from memory_actors.users.writers.scope import Scope


class Episodes:
    """Episodes by agent, at most 1,000 each and 50 steps kept of each by default.

    Of a longer episode the first step, the last and those with an error are kept, and the newest of
    the rest. When an agent has too many episodes, its oldest finished one leaves, failed ones last.
    """

    def __init__(self, scope: Scope, writer: EpisodicWriter):
        self._scope = scope
        self._writer = writer

    async def start(
        self,
        goal: str,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        auto_prune: bool | None = None,
    ) -> Receipt:
        """Start an episode; the receipt's `memory_id` is what `step` and `finish` take.

        The agent is the one named, the handle's, or "default".

        :raises QuotaExceededError: the agent is at its limit and none of its episodes is finished
            (`auto_prune` lets the oldest running one go), or too many bytes.
        """
        return await self._writer.start(
            goal,
            agent_id=agent_id,
            session_id=session_id,
            metadata=metadata,
            occurred_at=occurred_at,
            memory_id=memory_id,
            pinned=pinned,
            auto_prune=self._scope.prunes(auto_prune),
        )

    async def step(
        self,
        episode_id: str,
        action: str,
        *,
        observation: str | None = None,
        outcome: str | None = None,
        error: str | None = None,
    ) -> Receipt:
        """Add a step to a running episode.

        :raises NotFoundError: there is no such episode.
        :raises InvalidInputError: it is finished.
        """
        return await self._writer.step(episode_id, action, observation, outcome, error)

    async def finish(
        self, episode_id: str, result: str | None = None, *, success: bool = True
    ) -> Receipt:
        """End a running episode, with words about it or without.

        :raises NotFoundError: there is no such episode.
        :raises InvalidInputError: it is finished already.
        """
        return await self._writer.finish(episode_id, result, failed=not success)

    async def put(self, episode: Episode) -> Receipt:
        """Put an episode as it is elsewhere: with its id, the steps it kept, and its end.

        In one write, whole or not at all. One that was put or started before adds nothing. When the
        log got it is not taken over; where fewer steps may be kept, the oldest leave.

        :raises QuotaExceededError: no room for it.
        :raises InvalidInputError: the numbers of its steps do not add up, its id is taken, or it is
            a summary of some.
        """
        return await self._writer.put(episode)

    async def get(self, episode_id: str) -> Episode:
        """Return an episode. A summary of some is one without steps; its goal is what it says.

        :raises NotFoundError: there is none with this id.
        """
        async with self._scope.live() as live:
            state = live.state
        row = episodic.find(state.episodic, check_name(episode_id, "episode_id"))
        if row is None:
            raise NotFoundError(
                f"no episode {episode_id!r}: never there, evicted, deleted, or compressed into a "
                "summary; `why` tells what became of it"
            )
        (episode,) = await self._read([row], state.provenance)
        return episode

    async def recent(self, agent_id: str | None = None, *, limit: int = 20) -> list[Episode]:
        """Return an agent's episodes, newest first."""
        count = check_count(limit, "limit")
        async with self._scope.live() as live:
            state = live.state
        rows = episodic.rows_of(state.episodic, self._writer.agent(agent_id))
        newest = sorted(rows, key=lambda row: (-row.occurred_at_us, -row.version))
        return await self._read(newest[:count], state.provenance)

    async def _read(self, rows: list[Row], origins: Provenance) -> list[Episode]:
        found = [Found(episodic, row) for row in rows]
        read = await memories(self._scope.services.log, self._scope.stream, found, origins)
        return [_episode(memory) for memory in read]


def _episode(memory: Memory) -> Episode:
    data = memory.data
    return Episode(
        memory_id=memory.memory_id,
        agent_id=data["agent_id"],
        goal=data["goal"],
        status=data["status"],
        result=data["result"],
        steps=msgspec.convert(data["steps"], tuple[Step, ...]),
        evicted=msgspec.convert(data["evicted"], tuple[EvictedStep, ...]),
        steps_evicted=data["steps_evicted"],
        metadata=memory.metadata,
        session_id=memory.session_id,
        created_at=memory.created_at,
        occurred_at=memory.occurred_at,
        pinned=memory.pinned,
        origins=memory.origins,
        trust=memory.trust,
        original_count=data.get("original_count", 0),
    )

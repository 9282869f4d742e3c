"""`user.episodes`: what an agent wanted, did, and what came of it."""

from typing import ClassVar, Literal

from memory_actors.base.errors import NotFoundError
from memory_actors.base.records import Episode, Memory, Metadata, Receipt, Time
from memory_actors.base.validation import (
    check_count,
    check_name,
    check_optional_name,
    content_bytes,
    own_metadata,
    plain,
)
from memory_actors.kinds import episodic
from memory_actors.kinds.compacting import CompactedKind
from memory_actors.kinds.episodic.events import (
    EpisodeStarted,
    EpisodeSummaryAdded,
    StepTexts,
    SummaryEvent,
)
from memory_actors.kinds.episodic.state import Row
from memory_actors.kinds.phrasing import text_digest
from memory_actors.users.handles.episode_parts import (
    checked_episode,
    checked_texts,
    end_of,
    finished,
    restored,
    steps_of,
)
from memory_actors.users.handles.handle import Adding, Written
from memory_actors.users.handles.item_fields import taken
from memory_actors.users.handles.summaries import (
    Summarized,
    SummaryData,
    added_fields,
    checked_data,
)

DEFAULT_AGENT = "default"


class EpisodeSummaryData(SummaryData, frozen=True, kw_only=True):
    """The content of `Memory.data` of a summary of episodes, besides that of any episode."""

    agent_id: str = DEFAULT_AGENT
    status: Literal["done", "failed"] = "done"
    """Failed if all of them had."""


class Episodes(Summarized):
    """Episodes by agent, at most 1,000 each and 50 steps kept of each by default.

    A longer episode keeps its first step, its last, those with an error, and the newest of the
    rest. When an agent has too many episodes, its oldest finished one leaves, failed ones last.
    """

    kind: ClassVar[CompactedKind] = episodic.KIND
    takes = taken(EpisodeStarted)

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
        new = self._new(memory_id, occurred_at)
        episode = EpisodeStarted(
            memory_id=new.memory_id,
            agent_id=self._agent(agent_id),
            size_bytes=content_bytes(goal),
            goal=plain(goal),
            digest=text_digest(goal),
            occurred_at_us=new.occurred_at_us,
            metadata=own_metadata(metadata),
            session_id=check_optional_name(session_id, "session_id") or self._scope.session_id,
            pinned=pinned,
        )
        command = episodic.StartEpisode(
            now_us=new.now_us,
            own_ids=new.own_ids,
            episode=episode,
            auto_prune=self._scope.prunes(auto_prune),
        )
        written = await self._write(command, [episode.goal])
        return self._receipt(episode.memory_id, "add", written, episode)

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
        texts = checked_texts(StepTexts(action, observation, outcome, error))
        step = texts.added(check_name(episode_id, "episode_id"))
        command = episodic.AddStep(now_us=self._scope.now_us(), step=step)
        return self._changed(episode_id, "update", await self._write(command, [texts.line]))

    async def finish(
        self, episode_id: str, result: str | None = None, *, success: bool = True
    ) -> Receipt:
        """End a running episode, with words about it or without.

        :raises NotFoundError: there is no such episode.
        :raises InvalidInputError: it is finished already.
        """
        size_bytes = 0 if result is None else content_bytes(result)
        result = None if result is None else plain(result)
        end = finished(check_name(episode_id, "episode_id"), result, size_bytes, failed=not success)
        command = episodic.FinishEpisode(now_us=self._scope.now_us(), end=end)
        texts = [] if result is None else [result]
        return self._changed(episode_id, "update", await self._write(command, texts))

    async def put(self, episode: Episode) -> Receipt:
        """Put an episode as it is elsewhere: with its id, the steps it kept, and its end.

        In one write, whole or not at all. One that was put or started before adds nothing. When the
        log got it is not taken over; where fewer steps may be kept, the oldest leave.

        :raises QuotaExceededError: no room for it.
        :raises InvalidInputError: the numbers of its steps do not add up, its id is taken, or it is
            a summary of some.
        """
        given, now_us = checked_episode(episode), self._scope.now_us()
        started = restored(given, now_us, self._scope.session_id)
        command = episodic.PutEpisode(
            now_us=now_us,
            own_ids=(started.memory_id,),
            episode=started,
            steps=steps_of(given),
            end=end_of(given),
        )
        said = [StepTexts.of(step).line for step in command.steps]
        ending = [] if given.result is None else [given.result]
        written = await self._write(command, [given.goal, *said, *ending])
        return self._receipt(started.memory_id, "add", written, started)

    async def get(self, episode_id: str) -> Episode:
        """Return an episode. A summary of some is one without steps; its goal is what it says.

        :raises NotFoundError: there is none with this id.
        """
        state = await self._scope.state()
        row = episodic.KIND.find(state.episodic, check_name(episode_id, "episode_id"))
        if row is None:
            raise NotFoundError(
                f"no episode {episode_id!r}: never there, evicted, deleted, or compressed into a "
                "summary; `why` tells what became of it"
            )
        (episode,) = await self._read_as(Episode, [row], state.provenance)
        return episode

    async def recent(self, agent_id: str | None = None, *, limit: int = 20) -> list[Episode]:
        """Return an agent's episodes, newest first."""
        count = check_count(limit, "limit")
        state = await self._scope.state()
        rows = state.episodic.held.of_group(self._agent(agent_id))
        newest = sorted(rows, key=lambda row: (-row.occurred_at_us, -row.version))
        return await self._read_as(Episode, newest[:count], state.provenance)

    # --- as all kinds

    async def _add(self, adding: Adding) -> Receipt:
        """Start an episode with a text as its goal."""
        given = self._taken(adding.item)
        return await self.start(adding.item.content, **given, auto_prune=adding.auto_prune)

    def _checked_summary(self, memory: Memory) -> EpisodeSummaryAdded:
        """Return a summary as an export has it, ready to be added."""
        data = checked_data(memory, EpisodeSummaryData)
        return EpisodeSummaryAdded(
            **added_fields(memory, data),
            agent_id=check_name(data.agent_id, "agent_id"),
            failed=data.status == "failed",
        )

    def _agent(self, agent_id: str | None) -> str:
        """Return the agent that is meant: the one named, the handle's, or the default one."""
        return check_optional_name(agent_id, "agent_id") or self._scope.agent_id or DEFAULT_AGENT

    def _whose(self, row: Row | EpisodeStarted | SummaryEvent) -> str | None:
        """Return the agent."""
        return row.agent_id

    def _changed(self, episode_id: str, operation: str, written: Written) -> Receipt:
        row = self._find(written.reply, episode_id)
        if row is None:
            raise NotFoundError(f"no episode {episode_id!r}: it has gone meanwhile")
        return self._receipt(episode_id, operation, written, row)

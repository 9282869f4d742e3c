"""The way of an episode and its steps into the log and the index."""

from datetime import datetime
from typing import ClassVar

from memory_actors.errors import InvalidInputError, NotFoundError
from memory_actors.kinds import episodic
from memory_actors.kinds.episodic import episode
from memory_actors.kinds.episodic.text import step_bytes, step_sha256, step_text
from memory_actors.kinds.kind import Kind
from memory_actors.phrasing import text_digest
from memory_actors.records import Item, Metadata, Receipt
from memory_actors.validation import (
    CONTENT_BYTES_MAX,
    check_name,
    check_optional_name,
    content_bytes,
    own_metadata,
    text_bytes,
    time_us,
)
from memory_actors.writers.writer import Writer, Written

DEFAULT_AGENT = "default"


class EpisodicWriter(Writer):
    """Starts, continues, ends, changes and deletes episodes."""

    kind: ClassVar[Kind] = episodic
    takes = frozenset({"occurred_at", "session_id", "pinned"})
    delete_command = episodic.DeleteEpisode
    restore_command = episodic.RestoreEpisodes

    async def start(
        self,
        goal: str,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        metadata: Metadata | None = None,
        occurred_at: datetime | str | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        auto_prune: bool = False,
    ) -> Receipt:
        """Start an episode of an agent."""
        now_us, occurred_at_us = self.scope.now_us(), time_us(occurred_at, "occurred_at")
        own_id = check_optional_name(memory_id, "memory_id")
        command = episodic.StartEpisode(
            now_us=now_us,
            memory_id=own_id or self.scope.new_id(now_us),
            own_ids=() if own_id is None else (own_id,),
            agent_id=self.agent(agent_id),
            goal=goal,
            size_bytes=content_bytes(goal),
            digest=text_digest(goal),
            occurred_at_us=now_us if occurred_at_us is None else occurred_at_us,
            metadata=own_metadata(metadata),
            session_id=check_optional_name(session_id, "session_id") or self.scope.session_id,
            pinned=pinned,
            auto_prune=auto_prune,
        )
        written = await self.write(command, [goal])
        return self.receipt(command.memory_id, "add", written, command)

    async def step(
        self,
        episode_id: str,
        action: str,
        observation: str | None = None,
        outcome: str | None = None,
        error: str | None = None,
    ) -> Receipt:
        """Add a step to a running episode."""
        check_name(episode_id, "episode_id")
        text_bytes(action, "action", CONTENT_BYTES_MAX)
        for name, said in (("observation", observation), ("outcome", outcome), ("error", error)):
            if said is not None and not isinstance(said, str):
                raise InvalidInputError(f"{name} must be a string, not {type(said).__name__}")
        texts = (action, observation or None, outcome or None, error or None)
        text = step_text(*texts)
        command = episodic.AddStep(
            now_us=self.scope.now_us(),
            memory_id=episode_id,
            action=action,
            observation=texts[1],
            outcome=texts[2],
            error=texts[3],
            size_bytes=step_bytes(*texts),
            digest=text_digest(text),
            sha256=step_sha256(*texts),
        )
        text_bytes(text, "step", CONTENT_BYTES_MAX)
        return self._changed(episode_id, "update", await self.write(command, [text]))

    async def finish(self, episode_id: str, result: str | None, *, failed: bool) -> Receipt:
        """End a running episode."""
        command = episodic.FinishEpisode(
            now_us=self.scope.now_us(),
            memory_id=check_name(episode_id, "episode_id"),
            failed=failed,
            result=result,
            size_bytes=0 if result is None else content_bytes(result),
            digest=b"" if result is None else text_digest(result),
        )
        texts = [] if result is None else [result]
        return self._changed(episode_id, "update", await self.write(command, texts))

    async def add(
        self, item: Item, *, auto_prune: bool = False, idempotency_key: str | None = None
    ) -> Receipt:
        """Start an episode with a text as its goal."""
        self.check_fields(item, idempotency_key)
        return await self.start(
            item.content,
            session_id=item.session_id,
            metadata=item.metadata,
            occurred_at=item.occurred_at,
            memory_id=item.memory_id,
            pinned=item.pinned,
            auto_prune=auto_prune,
        )

    async def update(
        self, row: episode.Row, content: str | None, metadata: Metadata | None
    ) -> Receipt:
        """Replace an episode's goal, its metadata, or both."""
        command = episodic.UpdateEpisode(
            now_us=self.scope.now_us(),
            memory_id=row.memory_id,
            content=content,
            size_bytes=0 if content is None else content_bytes(content),
            digest=b"" if content is None else text_digest(content),
            metadata=None if metadata is None else own_metadata(metadata),
        )
        texts = [] if content is None else [content]
        return self._changed(row.memory_id, "update", await self.write(command, texts))

    def agent(self, agent_id: str | None) -> str:
        """Return the agent that is meant: the one named, the handle's, or the default one."""
        return check_optional_name(agent_id, "agent_id") or self.scope.agent_id or DEFAULT_AGENT

    def whose(self, row: episode.Row | episodic.StartEpisode) -> str | None:
        """Return the agent."""
        return row.agent_id

    def _changed(self, episode_id: str, operation: str, written: Written) -> Receipt:
        row = self.find(written.reply, episode_id)
        if row is None:
            raise NotFoundError(f"no episode {episode_id!r}: it has gone meanwhile")
        return self.receipt(episode_id, operation, written, row)

"""The way of an episode and its steps into the log and the index."""

from datetime import datetime
from typing import ClassVar, Literal

import msgspec

from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.records import Episode, Item, Memory, Metadata, Receipt, Time
from memory_actors.base.validation import (
    CONTENT_BYTES_MAX,
    check_name,
    check_optional_name,
    content_bytes,
    own_metadata,
    plain,
    text_bytes,
    time_us,
)
from memory_actors.kinds import episodic
from memory_actors.kinds.compression import CompactedKind
from memory_actors.kinds.episodic.events import (
    EpisodeFinished,
    EpisodeStarted,
    EpisodeSummaryAdded,
    Evicted,
    StepAdded,
    SummaryEvent,
    step_bytes,
    step_sha256,
    step_text,
)
from memory_actors.kinds.episodic.state import MARKERS_MAX, Row
from memory_actors.kinds.phrasing import text_digest
from memory_actors.users.writers.summaries import (
    SummaryData,
    SummaryWriter,
    added_fields,
    checked_data,
)
from memory_actors.users.writers.writer import Written

DEFAULT_AGENT = "default"


class EpisodeSummaryData(SummaryData, frozen=True, kw_only=True):
    """What `Memory.data` of a summary of episodes says, besides what it says of any episode."""

    agent_id: str = DEFAULT_AGENT
    status: Literal["done", "failed"] = "done"
    """Failed if all of them had."""


class EpisodicWriter(SummaryWriter):
    """Starts, continues, ends, changes, compresses and deletes episodes."""

    kind: ClassVar[CompactedKind] = episodic
    takes = frozenset({"occurred_at", "session_id", "pinned"})
    delete_command = episodic.DeleteEpisode
    restore_command = episodic.RestoreEpisodes
    compress_command = episodic.CompressEpisodes
    undo_command = episodic.UndoEpisodeCompaction
    add_command = episodic.AddEpisodeSummary

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
        auto_prune: bool = False,
    ) -> Receipt:
        """Start an episode of an agent."""
        now_us, occurred_at_us = self.scope.now_us(), time_us(occurred_at, "occurred_at")
        own_id = check_optional_name(memory_id, "memory_id")
        episode = EpisodeStarted(
            memory_id=own_id or self.scope.new_id(now_us),
            agent_id=self.agent(agent_id),
            size_bytes=content_bytes(goal),
            goal=plain(goal),
            digest=text_digest(goal),
            occurred_at_us=now_us if occurred_at_us is None else occurred_at_us,
            metadata=own_metadata(metadata),
            session_id=check_optional_name(session_id, "session_id") or self.scope.session_id,
            pinned=pinned,
        )
        own_ids = () if own_id is None else (own_id,)
        command = episodic.StartEpisode(
            now_us=now_us, own_ids=own_ids, episode=episode, auto_prune=auto_prune
        )
        written = await self.write(command, [episode.goal])
        return self.receipt(episode.memory_id, "add", written, episode)

    async def put(self, given: Episode) -> Receipt:
        """Put an episode as it is elsewhere, in one event for each of its texts."""
        given = _checked(given)
        now_us, occurred_at_us = self.scope.now_us(), time_us(given.occurred_at, "occurred_at")
        memory_id = check_name(given.memory_id, "memory_id")
        _refuse_summary(given)
        _check_numbers(given)
        episode = EpisodeStarted(
            memory_id=memory_id,
            agent_id=check_name(given.agent_id, "agent_id"),
            goal=given.goal,
            size_bytes=content_bytes(given.goal),
            digest=text_digest(given.goal),
            occurred_at_us=now_us if occurred_at_us is None else occurred_at_us,
            metadata=given.metadata,
            session_id=check_optional_name(given.session_id, "session_id") or self.scope.session_id,
            pinned=given.pinned,
        )
        command = episodic.PutEpisode(
            now_us=now_us,
            own_ids=(memory_id,),
            episode=episode,
            steps=tuple(
                _step(memory_id, s.number, s.action, s.observation, s.outcome, s.error)
                for s in given.steps
            ),
            end=_end(memory_id, given),
            evicted=tuple(
                Evicted(gone.number, _sha256(gone.sha256), gone.snippet)
                for gone in given.evicted[-MARKERS_MAX:]
            ),
            steps_evicted=given.steps_evicted,
        )
        said = [step_text(s.action, s.observation, s.outcome, s.error) for s in command.steps]
        ending = [] if given.result is None else [given.result]
        written = await self.write(command, [given.goal, *said, *ending])
        return self.receipt(memory_id, "add", written, episode)

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
        step = _step(episode_id, 0, action, observation, outcome, error)
        command = episodic.AddStep(now_us=self.scope.now_us(), step=step)
        text = step_text(step.action, step.observation, step.outcome, step.error)
        return self._changed(episode_id, "update", await self.write(command, [text]))

    async def finish(self, episode_id: str, result: str | None, *, failed: bool) -> Receipt:
        """End a running episode."""
        end = _finished(check_name(episode_id, "episode_id"), result, failed=failed)
        command = episodic.FinishEpisode(now_us=self.scope.now_us(), end=end)
        texts = [] if end.result is None else [end.result]
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

    async def update(self, row: Row, content: str | None, metadata: Metadata | None) -> Receipt:
        """Replace an episode's goal, its metadata, or both."""
        size_bytes = 0 if content is None else content_bytes(content)
        content = None if content is None else plain(content)
        command = episodic.UpdateEpisode(
            now_us=self.scope.now_us(),
            memory_id=row.memory_id,
            content=content,
            size_bytes=size_bytes,
            digest=b"" if content is None else text_digest(content),
            metadata=None if metadata is None else own_metadata(metadata, shown=row.compressed),
        )
        texts = [] if content is None else [content]
        return self._changed(row.memory_id, "update", await self.write(command, texts))

    def checked_summary(self, memory: Memory) -> EpisodeSummaryAdded:
        """Return a summary as an export has it, ready to be added."""
        data = checked_data(memory, EpisodeSummaryData)
        return EpisodeSummaryAdded(
            **added_fields(memory, data),
            agent_id=check_name(data.agent_id, "agent_id"),
            failed=data.status == "failed",
        )

    def agent(self, agent_id: str | None) -> str:
        """Return the agent that is meant: the one named, the handle's, or the default one."""
        return check_optional_name(agent_id, "agent_id") or self.scope.agent_id or DEFAULT_AGENT

    def whose(self, row: Row | EpisodeStarted | SummaryEvent) -> str | None:
        """Return the agent."""
        return row.agent_id

    def _changed(self, episode_id: str, operation: str, written: Written) -> Receipt:
        row = self.find(written.reply, episode_id)
        if row is None:
            raise NotFoundError(f"no episode {episode_id!r}: it has gone meanwhile")
        return self.receipt(episode_id, operation, written, row)


def _checked(given: Episode) -> Episode:
    """Return an episode whose parts are what they must be, its texts exact strings.

    :raises InvalidInputError: it is no `Episode`, or a part of it is not what it must be.
    """
    if not isinstance(given, Episode):
        raise InvalidInputError(f"give an Episode, as `episodes.get` returns, not {given!r:.80}")
    given = msgspec.structs.replace(given, metadata=own_metadata(given.metadata, shown=True))
    try:
        parts = msgspec.to_builtins(given, builtin_types=(datetime,), enc_hook=plain)
        return msgspec.convert(parts, Episode)
    except (TypeError, RecursionError, msgspec.ValidationError) as error:
        raise InvalidInputError(f"{given.memory_id!r:.80} is no Episode: {error}") from error


def _refuse_summary(given: Episode) -> None:
    if given.original_count:
        raise InvalidInputError(
            f"{given.memory_id!r} is a summary of {given.original_count} episodes: give "
            "`put_summary` the memory that `get` returns"
        )


def _check_numbers(given: Episode) -> None:
    """See that each number is used once, and that what is missing between them was evicted.

    :raises InvalidInputError: it is not so.
    """
    kept = [step.number for step in given.steps]
    gone = [marker.number for marker in given.evicted]
    total = len(kept) + given.steps_evicted
    used = {*kept, *gone}
    if (
        kept != sorted(kept)
        or len(used) != len(kept) + len(gone)
        or len(gone) > given.steps_evicted
        or any(not 0 < number <= total for number in used)
        or (total and (not kept or kept[-1] != total))
    ):
        raise InvalidInputError(
            f"the numbers of the steps, {len(kept)} kept and {given.steps_evicted} evicted, do not "
            f"add up: each from 1 to {total} once, in order, and the last one kept"
        )


def _step_texts(
    action: str, observation: str | None, outcome: str | None, error: str | None
) -> tuple[str, str | None, str | None, str | None]:
    """Return the texts of a step; one that is empty is none.

    :raises InvalidInputError: one of them is no text, or they are too long together.
    """
    text_bytes(action, "action", CONTENT_BYTES_MAX)
    for name, said in (("observation", observation), ("outcome", outcome), ("error", error)):
        if said:
            text_bytes(said, name, CONTENT_BYTES_MAX)
    texts = plain(action), _said(observation), _said(outcome), _said(error)
    text_bytes(step_text(*texts), "step", CONTENT_BYTES_MAX)
    return texts


def _said(text: str | None) -> str | None:
    return plain(text) if text else None


def _step(
    memory_id: str,
    number: int,
    action: str,
    observation: str | None,
    outcome: str | None,
    error: str | None,
) -> StepAdded:
    texts = _step_texts(action, observation, outcome, error)
    return StepAdded(
        memory_id=memory_id,
        number=number,
        action=texts[0],
        observation=texts[1],
        outcome=texts[2],
        error=texts[3],
        size_bytes=step_bytes(*texts),
        digest=text_digest(step_text(*texts)),
        sha256=step_sha256(*texts),
    )


def _end(memory_id: str, given: Episode) -> EpisodeFinished | None:
    if given.status == "running":
        if given.result is not None:
            raise InvalidInputError("a running episode has no result: say how it ended")
        return None
    return _finished(memory_id, given.result, failed=given.status == "failed")


def _finished(memory_id: str, result: str | None, *, failed: bool) -> EpisodeFinished:
    return EpisodeFinished(
        memory_id=memory_id,
        failed=failed,
        size_bytes=0 if result is None else content_bytes(result),
        result=None if result is None else plain(result),
        digest=b"" if result is None else text_digest(result),
    )


def _sha256(said: str) -> bytes:
    try:
        return bytes.fromhex(said)
    except ValueError as error:
        raise InvalidInputError(f"sha256 {said!r:.80} is not hexadecimal") from error

"""`user.episodes`: what an agent wanted, did, and what came of it."""

from datetime import datetime
from typing import ClassVar, Literal

import msgspec

from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.records import Episode, Item, Memory, Metadata, Receipt, Time
from memory_actors.base.validation import (
    CONTENT_BYTES_MAX,
    check_count,
    check_name,
    check_optional_name,
    content_bytes,
    own_metadata,
    plain,
    text_bytes,
    time_us,
)
from memory_actors.kinds import episodic
from memory_actors.kinds.compacting import CompactedKind, SummaryData
from memory_actors.kinds.episodic.events import (
    EpisodeFinished,
    EpisodeRestored,
    EpisodeStarted,
    EpisodeSummaryAdded,
    StepMarker,
    StepTexts,
)
from memory_actors.kinds.episodic.state import MARKERS_MAX, EpisodeRow
from memory_actors.kinds.passages import text_digest
from memory_actors.users.handles.handle import Adding, Summarized, checked_summary, taken
from memory_actors.users.handles.writing import Written

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
            session_id=check_optional_name(session_id, "session_id") or self._scope.on.session_id,
            pinned=pinned,
        )
        command = episodic.StartEpisode(
            now_us=new.now_us,
            own_ids=new.own_ids,
            episode=episode,
            auto_prune=self._scope.prunes(auto_prune),
        )
        written = await self._write(command, [episode.goal])
        return self._receipt(episode.memory_id, "add", written, whose=episode.agent_id)

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
        texts = _checked_texts(StepTexts(action, observation, outcome, error))
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
        end = _finished(check_name(episode_id, "episode_id"), result, failed=not success)
        command = episodic.FinishEpisode(now_us=self._scope.now_us(), end=end)
        texts = [] if end.result is None else [end.result]
        return self._changed(episode_id, "update", await self._write(command, texts))

    async def put(self, episode: Episode) -> Receipt:
        """Put an episode as it is elsewhere: with its id, the steps it kept, and its end.

        In one write, whole or not at all. One that was put or started before adds nothing. When the
        log got it is not taken over; where fewer steps may be kept, the oldest leave.

        :raises QuotaExceededError: no room for it.
        :raises InvalidInputError: the numbers of its steps do not add up, its id is taken, or it is
            a summary of some.
        """
        given, now_us = _checked_episode(episode), self._scope.now_us()
        started = _restored(given, now_us, self._scope.on.session_id)
        command = episodic.PutEpisode(
            now_us=now_us,
            own_ids=(started.memory_id,),
            episode=started,
            steps=tuple(
                _checked_texts(StepTexts.of(one)).added(given.memory_id, one.number)
                for one in given.steps
            ),
            end=_end_of(given),
        )
        said = [StepTexts.of(step).line for step in command.steps]
        ending = [] if given.result is None else [given.result]
        written = await self._write(command, [given.goal, *said, *ending])
        return self._receipt(started.memory_id, "add", written, whose=started.agent_id)

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
        rows = state.episodic.of_group(self._agent(agent_id))
        newest = sorted(rows, key=lambda row: (-row.occurred_at_us, -row.version))
        return await self._read_as(Episode, newest[:count], state.provenance)

    # --- as all kinds

    async def _add(self, item: Item, adding: Adding) -> Receipt:
        self._check_item(item, adding)
        given = self._taken(item)
        return await self.start(item.content, **given, auto_prune=adding.auto_prune)

    def _checked_summary(self, memory: Memory) -> EpisodeSummaryAdded:
        data, fields = checked_summary(memory, EpisodeSummaryData)
        return EpisodeSummaryAdded(
            **fields,
            agent_id=check_name(data.agent_id, "agent_id"),
            failed=data.status == "failed",
        )

    def _agent(self, agent_id: str | None) -> str:
        return check_optional_name(agent_id, "agent_id") or self._scope.on.agent_id or DEFAULT_AGENT

    def _whose(self, row: EpisodeRow | EpisodeSummaryAdded) -> str | None:
        return row.agent_id

    def _changed(self, episode_id: str, operation: str, written: Written) -> Receipt:
        row = episodic.KIND.find(written.reply.state.episodic, episode_id)
        if row is None:
            raise NotFoundError(f"no episode {episode_id!r}: it has gone meanwhile")
        return self._receipt(episode_id, operation, written, whose=row.agent_id)


# --- episodes as callers have them, and their parts as events have them


def _checked_episode(given: Episode) -> Episode:
    """Return an episode whose parts are what they must be, its texts exact strings."""
    if not isinstance(given, Episode):
        raise InvalidInputError(f"give an Episode, as `episodes.get` returns, not {given!r:.80}")
    given = msgspec.structs.replace(given, metadata=own_metadata(given.metadata, shown=True))
    try:
        parts = msgspec.to_builtins(given, builtin_types=(datetime,), enc_hook=plain)
        given = msgspec.convert(parts, Episode)
    except (TypeError, RecursionError, msgspec.ValidationError) as error:
        raise InvalidInputError(f"{given.memory_id!r:.80} is no Episode: {error}") from error
    if given.original_count:
        raise InvalidInputError(
            f"{given.memory_id!r} is a summary of {given.original_count} episodes: give "
            "`put_summary` the memory that `get` returns"
        )
    _check_numbers(given)
    return given


def _checked_texts(texts: StepTexts) -> StepTexts:
    """Return the texts of a step as exact strings; one that is empty is none."""
    for name, said in texts._asdict().items():
        if said or name == "action":
            text_bytes(said, name, CONTENT_BYTES_MAX)
    exact = StepTexts(plain(texts.action), *(plain(one) if one else None for one in texts[1:]))
    text_bytes(exact.line, "step", CONTENT_BYTES_MAX)
    return exact


def _restored(given: Episode, now_us: int, session_id: str | None) -> EpisodeRestored:
    """Return the event by which an episode comes from elsewhere; `session_id` if it has none."""
    occurred_at_us = time_us(given.occurred_at, "occurred_at")
    return EpisodeRestored(
        memory_id=check_name(given.memory_id, "memory_id"),
        agent_id=check_name(given.agent_id, "agent_id"),
        goal=given.goal,
        size_bytes=content_bytes(given.goal),
        digest=text_digest(given.goal),
        occurred_at_us=now_us if occurred_at_us is None else occurred_at_us,
        metadata=given.metadata,
        session_id=check_optional_name(given.session_id, "session_id") or session_id,
        pinned=given.pinned,
        created_at_us=now_us,
        evicted=tuple(
            StepMarker(gone.number, _sha256(gone.sha256), gone.snippet)
            for gone in given.evicted[-MARKERS_MAX:]
        ),
        steps_evicted=given.steps_evicted,
    )


def _sha256(said: str) -> bytes:
    try:
        return bytes.fromhex(said)
    except ValueError as error:
        raise InvalidInputError(f"sha256 {said!r:.80} is not hexadecimal") from error


def _end_of(given: Episode) -> EpisodeFinished | None:
    if given.status == "running":
        if given.result is not None:
            raise InvalidInputError("a running episode has no result: say how it ended")
        return None
    return _finished(given.memory_id, given.result, failed=given.status == "failed")


def _finished(memory_id: str, result: str | None, *, failed: bool) -> EpisodeFinished:
    if result is None:
        return EpisodeFinished(memory_id=memory_id, failed=failed)
    return EpisodeFinished(
        memory_id=memory_id,
        failed=failed,
        size_bytes=content_bytes(result),
        result=plain(result),
        digest=text_digest(result),
    )


def _check_numbers(given: Episode) -> None:
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

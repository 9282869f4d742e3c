"""Episodic memory, held at a number of episodes or of steps."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

from bench.subjects.base import Call, Subject
from memory_actors import Receipt


class Episodes(Subject):
    """Episodes with all the steps they keep; the older half is finished."""

    name = "episodic"
    refuses = False

    @property
    def full(self) -> int:
        """All episodes of an agent."""
        return self.limits.episodes

    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Start an episode."""
        return self.user.episodes.start(next(self.texts), auto_prune=auto_prune)

    async def fill(self, count: int) -> None:
        """Start episodes, take their steps, finish some."""
        known = set(self.ids)
        await super().fill(count)
        fresh = [episode for episode in self.ids if episode not in known]
        for number, episode in enumerate(fresh):
            await self._use(episode, finish=number < len(fresh) // 2)

    async def _use(self, episode: str, *, finish: bool) -> None:
        steps = range(self.limits.episode_steps)
        await asyncio.gather(*(self.step(episode) for _ in steps))
        if finish:
            await self.user.episodes.finish(episode, next(self.texts))

    def step(self, episode: str) -> Awaitable[Receipt]:
        """Take a step."""
        return self.user.episodes.step(episode, next(self.texts), observation=next(self.texts))

    def queries(self) -> Mapping[str, Call]:
        """Return the queries."""
        episodes = self.user.episodes
        return {
            "episodes.get": lambda: episodes.get(self.any_id()),
            "episodes.recent (20)": lambda: episodes.recent(),
            "retrieve (episodic)": lambda: self.retrieve("episodic"),
        }


class Steps(Episodes):
    """Running episodes; the 51st step of one evicts another of its steps."""

    name = "episodic, steps"
    undoes = False

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._given = 0

    @property
    def full(self) -> int:
        """All steps of all episodes of an agent."""
        return self.limits.episodes * self.limits.episode_steps

    @property
    def held(self) -> int:
        """The number of steps."""
        return min(self._given, self.full)

    async def fill(self, count: int) -> None:
        """Start the episodes that it takes to the limit, then take steps."""
        episodes = min(self.limits.episodes, count // self.limits.episode_steps + 10)
        while len(self.ids) < episodes:
            receipt = await Episodes.add(self)
            self.ids[receipt.memory_id] = None
        await Subject.fill(self, count)

    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Take a step in the first episode that is not full; in any, if all are."""
        del auto_prune
        number, ids = self._given // self.limits.episode_steps, list(self.ids)
        self._given += 1
        return self.step(ids[number] if number < len(ids) else self.rng.choice(ids))

    def note(self, receipt: Receipt) -> None:
        """Nothing: a step has no id."""

    def queries(self) -> Mapping[str, Call]:
        """Return none: they are those of the episodes."""
        return {}

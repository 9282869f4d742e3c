"""One machine over all that a memory system does: model = live = replay.

It has the commands of `system_machine` (every kind, updates, deletes, restores, tiers, races,
compaction and its undoing, restarts) and the looks back of `replay_machine`. It adds operations on
a store: users who leave memory and come back, files made smaller, backups put back in its place,
users who are erased. The model is dictionaries of what receipts have promised (`clients.Held`),
kept with a backup as they were then. Working memory, messages and documents are written and read
through their own handles, too.

After each step the model is what lists, searches and single reads say, the live state is what a
replay of the whole stream gives, totals are the sum of the states. An activation starts from the
last snapshot, a look back from the nearest one.
"""

import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from memory_actors import copy_store
from support.clients import ACTS, ANY, REFUSALS, TEXTS, USERS, Act, Held
from support.counting import counted
from support.replay_machine import Kept, ReplayMachine

NAMES = st.sampled_from(USERS)
KEYS = st.sampled_from(["k1", "k2", "k3"])
EXAMPLE_STEPS, EXAMPLES_AT_ONCE = 50, 100
KEPT_MAX = 6  # of each example: looking back costs a hundred reads


class Backup(NamedTuple):
    """A backup, and what was promised when it was made."""

    path: Path
    held: dict[str, Held]
    keyed: dict[tuple[str, str], tuple[str, str]]
    kept: list[Kept]


class WholeMachine(ReplayMachine):
    """Everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self.backup: Backup | None = None

    @property
    def path(self) -> Path:
        return Path(self.directory.name) / "store"

    # --- kinds by their own handles

    @rule(name=NAMES, key=KEYS, text=TEXTS)
    def sets_a_key(self, name: str, key: str, text: str) -> None:
        act, working = Act("update", "working", text, 0), self.memory.user(name).working
        try:
            receipt = self.run(working.set(key, act.text, auto_prune=True))
        except REFUSALS:
            return
        self.held[name].note([(act, receipt)])
        assert self.run(working.get(key)) == act.text

    @rule(name=NAMES, text=TEXTS, number=ANY)
    def says_something(self, name: str, text: str, number: int) -> None:
        act = Act("add", "short_term", text, number)
        user = self.memory.user(name, session_id=f"s{number % 3}", source=act.source)
        messages = user.short_term
        try:
            receipt = self.run(messages.add_message(act.text, role="user"))
        except REFUSALS:
            return
        self.held[name].note([(act, receipt)])
        assert self.run(messages.messages())[-1].memory_id == receipt.memory_id

    @rule(name=NAMES, key=KEYS, text=TEXTS, prune=st.booleans())
    def puts_a_document(self, name: str, key: str, text: str, prune: bool) -> None:
        act, documents = Act("update", "structured", text, 0), self.memory.user(name).documents
        value = {"text": act.text, "words": len(act.text)}
        try:
            receipt = self.run(documents.put("things", value, key=key, auto_prune=prune))
        except REFUSALS:
            return
        self.held[name].note([(act, receipt)])
        assert self.run(documents.get(key, "things")).value == value
        found = self.run(documents.find("things", {"words": len(act.text)}))
        assert receipt.memory_id in {document.memory_id for document in found}

    @rule(name=NAMES, number=ANY)
    def reads_one(self, name: str, number: int) -> None:
        held, user = self.held[name], self.memory.user(name)
        lasting = [one for one in sorted(held.kinds) if held.kinds[one] != "short_term"]
        if lasting:
            memory_id = lasting[number % len(lasting)]
            held.check(self.run(user.get(memory_id)))
            assert self.run(user.history(memory_id))

    # --- what is done to a store

    @rule(name=NAMES)
    def leaves_memory(self, name: str) -> None:
        self.run(self.memory._services.runtime._passivate_idle())
        assert self.version(name) >= 0, "it is active again, from its snapshot"

    @rule()
    def becomes_smaller(self) -> None:
        self.run(self.memory._log.shrink(force=True))
        self.seen.clear()

    @rule()
    def backs_up(self) -> None:
        if self.backup is not None:
            shutil.rmtree(self.backup.path)
        path = Path(self.directory.name) / "backup"
        self.run(self.memory._log.flush())
        self.run(self.memory.backup(path))
        self.backup = Backup(path, deepcopy(self.held), dict(self.keyed), list(self.kept))

    @precondition(lambda self: self.backup is not None)
    @rule(acts=st.lists(st.tuples(NAMES, ACTS), max_size=3))
    def goes_back_to_the_backup(self, acts: list[tuple[str, Act]]) -> None:
        for name, act in acts:  # what comes between is gone
            self.one_client_acts(name, act)
        self.run(self.stack.aclose())
        restored = copy_store(self.backup.path, self.path)
        shutil.rmtree(restored.replaced)
        _, held, keyed, kept = self.backup
        self.held, self.keyed, self.kept = deepcopy(held), dict(keyed), list(kept)
        self.seen.clear()
        self.run(self.open())

    @rule(name=NAMES)
    def is_erased(self, name: str) -> None:
        self.run(self.memory.erase(name))
        self.held[name] = Held()
        self.keyed = {of: first for of, first in self.keyed.items() if of[0] != name}
        self.kept = [kept for kept in self.kept if kept.name != name]
        assert self.run(self.memory.user(name).list_memories()) == []

    @precondition(lambda self: len(self.kept) < KEPT_MAX)
    @rule(name=NAMES, number=ANY)
    def keeps_what_it_answers(self, name: str, number: int) -> None:
        self.run(self.keep(name, f"s{number % 3}"))

    def teardown(self) -> None:
        try:
            assert self.run(self.memory.verify()).ok
        finally:
            super().teardown()


def many_steps(wanted: int, seed: int) -> Iterator[tuple[int, int]]:
    """Take at least so many steps; yield how many more there are, and in how many examples.

    One run of Hypothesis after another, each with the next seed: an example often ends early, at a
    limit of what it may draw, so nobody knows beforehand how many it takes.
    """
    while wanted > 0:
        machine = counted(WholeMachine)
        some = settings(
            max_examples=min(EXAMPLES_AT_ONCE, -(-wanted // EXAMPLE_STEPS)),
            stateful_step_count=EXAMPLE_STEPS, deadline=None, database=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        run_state_machine_as_test(seeded(seed)(machine), settings=some)
        yield machine.steps(), machine.examples
        wanted, seed = wanted - machine.steps(), seed + 1

"""Properties of context documents under any sequence of commands.

Never above the hard limit; archive and restore lose nothing and give the bytes back; a document's
text is taken apart into just its blocks, so that no sync and no edit of the text loses one; the
live state is the replay is snapshot and tail.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.fakes import Words
from support.given import recorded

from memory_actors import (
    EditBlock,
    InsertBlock,
    Limits,
    MemoryActorsError,
    RemoveBlock,
    text_digest,
)
from memory_actors.base.tokens import TokenBudget
from memory_actors.integrations.context_files.merge import merge
from memory_actors.kinds import context
from memory_actors.kinds.context import commands
from memory_actors.kinds.context.alignment import Placed, align
from memory_actors.kinds.context.commands import DocumentRoom
from memory_actors.kinds.context.events import BlockEdited, BlockInserted, EntriesArchived
from memory_actors.kinds.context.markdown import parse, render, shown
from memory_actors.kinds.context.state import blocks, everything, text

if TYPE_CHECKING:
    from memory_actors.base.context_documents import BlockChange

SOFT, HARD = 14, 20
NOW_US = 1 << 60
LIMITS = Limits(context_entries=24, context_documents=3, context_document_bytes=120)
DOCUMENTS = st.sampled_from(["m", "m", "m", "n"])
SECTIONS = st.sampled_from(["", "A", "B"])
SAID = st.sampled_from(["x", "one two", "one\ntwo", "a b c d e f", "w" * 50, "# h", "```\nz"])
RAWS = st.sampled_from(
    [
        "- x\n", "- x\n\n", "para", "para\n\n", "* a\n  b\r\n\r\n", "\n", "w " * 9, "## H\n",
        "```\nx\n```\n", "```\nopen", "~~~~\nopen\n\n", "  in\n", " - i\n", "    - i\n",
        "\n\nlate\n",
    ]
)  # fmt: skip
LINES = st.sampled_from(["- l\n", "m\n", "\n", "  n\n", "# L\n", "```\n"])
ANY = st.integers(0, 1 << 16)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(context.KIND.Dump).decode


BUDGET = TokenBudget(soft_tokens=SOFT, hard_tokens=HARD, counter=Words())


def dumped(state: Any) -> bytes:
    return _encode(context.KIND.dump(state))


class ContextMachine(RuleBasedStateMachine):
    """The decider, run as an actor would, beside a replay, a snapshot and the texts ever said."""

    def __init__(self) -> None:
        super().__init__()
        self.state = context.KIND.initial
        self.log: list[Any] = []
        self.snapshot = (dumped(self.state), 0)
        self.now_us = 0
        self.made = 0
        self.raws: dict[str, str] = {}
        """The text of each block that is alive or archived, by the commands."""
        self.files: dict[str, tuple[str, Any]] = {}
        """The content of a document's file when both were last in step, and its base."""

    # --- how a command is carried out

    def ask(self, command: Any) -> bool:
        before, bytes_before = self.state, dumped(self.state)
        try:
            events = context.KIND.decide(command, before, LIMITS)
        except MemoryActorsError:
            assert dumped(before) == bytes_before, "a refused command changes nothing"
            return False
        assert dumped(before) == bytes_before, "a decision changes nothing"
        if getattr(getattr(command, "room", None), "auto_archive", False):
            self.check_archived(command, events)
        for event in events:
            self.record(event)
        return True

    def check_archived(self, command: Any, events: Sequence[Any]) -> None:
        """To make room, the fewest of the least recently used go, and what is new goes last.

        If part of the soft limit can be freed, it is; if not, what is enough.
        """
        others = [one for one in events if not isinstance(one, EntriesArchived)]
        archived = {one.memory_id for event in events for one in getattr(event, "entries", ())}
        own = getattr(command, "memory_id", None)
        new = {one.memory_id for one in others if isinstance(one, BlockInserted | BlockEdited)}
        entries = [recorded(one, len(self.log) + n) for n, one in enumerate(others, start=1)]
        state = context.KIND.fold(self.state, entries)
        name = getattr(command, "document", None) or context.KIND.find(state, own).document
        rows = blocks(state, name)
        may_go = [row for row in rows if row.heading is None and not row.pinned]
        may_go = [row for row in may_go if row.memory_id != own]
        may_go.sort(key=lambda row: NOW_US if row.memory_id in new else row.touched_at_us)
        order = [row.memory_id for row in may_go]

        def fits(gone: Collection[str], words_max: int) -> bool:
            left = text(row for row in rows if row.memory_id not in gone)
            small = len(left.encode()) <= LIMITS.context_document_bytes
            return small and len(left.split()) <= words_max

        enough = [] if fits((), HARD - 1) else [round(SOFT * (1 - command.room.free)), HARD - 1]
        choices = (set(order[:count]) for most in enough for count in range(len(order) + 1)
                   if fits(order[:count], most))  # fmt: skip
        assert archived == next(choices, set())

    def record(self, event: Any) -> None:
        entry = recorded(event, len(self.log) + 1)
        self.log.append(entry)
        if isinstance(event, EntriesArchived):
            rows = [context.KIND.find(self.state, one.memory_id) for one in event.entries]
            assert event.cause == "asked" or not any(row.pinned for row in rows)
        self.state = context.KIND.fold(self.state, [entry])
        if getattr(event, "raw", None) is not None:
            self.raws[event.memory_id] = event.raw

    def new(self) -> str:
        self.made += 1
        return f"e{self.made}"

    def past(self, ids: tuple[str, ...]) -> dict[str, list[Any]]:
        keys = context.KIND.registry.keys
        return {name: [one for one in self.log if name in keys(one.data)] for name in ids}

    def now(self) -> int:
        self.now_us += 1
        return self.now_us

    def room(self, auto_archive: bool = False, free: float = 0.4) -> DocumentRoom:
        return DocumentRoom(budget=BUDGET, auto_archive=auto_archive, free=free)

    def entries(self) -> list[str]:
        return [row.memory_id for row in context.KIND.rows(self.state)]

    def one(self, number: int) -> str:
        ids = self.entries()
        return ids[number % len(ids)] if ids else "none"

    def restore(self, *ids: str) -> bool:
        command = commands.RestoreEntries(
            now_us=self.now(), memory_ids=ids, past=self.past(ids), budget=BUDGET
        )
        return self.ask(command)

    # --- rules

    @rule(document=DOCUMENTS, section=SECTIONS, said=SAID, pin=st.booleans(), auto=st.booleans())
    def adds(self, document: str, section: str, said: str, pin: bool, auto: bool) -> None:
        self.ask(
            commands.AddEntry(
                now_us=self.now(), memory_id=self.new(), document=document, section=section,
                text=said, heading_id=self.new(), pinned=pin, room=self.room(auto),
            )
        )  # fmt: skip

    @rule(number=ANY, said=SAID, auto=st.booleans())
    def edits(self, number: int, said: str, auto: bool) -> None:
        self.ask(
            commands.EditEntry(
                now_us=self.now(), memory_id=self.one(number), text=said, room=self.room(auto)
            )
        )

    @rule(
        document=DOCUMENTS, raws=st.lists(RAWS, max_size=3), number=ANY, does=ANY,
        auto=st.booleans(),
    )  # fmt: skip
    def changes_blocks(
        self, document: str, raws: list[str], number: int, does: int, auto: bool
    ) -> None:
        expected = [(row.memory_id, row.raw) for row in blocks(self.state, document)]
        changes: list[BlockChange] = []
        for raw in raws:
            at = number % (len(expected) + 1)
            after = expected[at - 1][0] if at else None
            if does % 3 == 0 or after is None:
                changes.append(InsertBlock(self.new(), raw, parse(raw)[0].heading, after))
                expected.insert(at, (changes[-1].block_id, raw))
                if raw.strip():  # blank lines are a block only where there is no other
                    expected = [one for one in expected if one[1].strip()]
            elif does % 3 == 1:
                changes.append(EditBlock(after, raw))
                expected[at - 1] = (after, raw)
            else:
                changes.append(RemoveBlock(after))
                del expected[at - 1]
            number, does = number // 3, does // 3
        done = self.ask(
            commands.ChangeDocument(
                now_us=self.now(), document=document, changes=tuple(changes), room=self.room(auto)
            )
        )
        if done and not auto:
            assert text(blocks(self.state, document)) == render(raw for _, raw in expected)

    @rule(document=DOCUMENTS, lines=st.lists(LINES, max_size=2), at=ANY)
    def edits_its_text(self, document: str, lines: list[str], at: int) -> None:
        before = self.text_of(document)
        wanted = put(before, lines, at)
        changes = align(self.placed(document), wanted, self.new)
        assert lines or not changes
        if self.ask(
            commands.ChangeDocument(
                now_us=self.now(), document=document, changes=tuple(changes), room=self.room(),
                expected=text_digest(before),
            )
        ):  # fmt: skip
            assert self.text_of(document) == wanted

    @rule(document=DOCUMENTS, lines=st.lists(LINES, max_size=2), at=ANY)
    def is_synced(self, document: str, lines: list[str], at: int) -> None:
        held, base = self.files.get(document, (self.text_of(document), None))
        file, live = put(held, lines, at), self.placed(document)
        merged = merge(live, file, base, self.archived(document), self.new)
        assert lines or not merged.changes, "nobody edited the file"
        if self.ask(
            commands.ChangeDocument(
                now_us=self.now(), document=document, changes=merged.changes, room=self.room(),
                base=merged.base,
            )
        ):  # fmt: skip
            assert self.text_of(document) == merged.text
            self.files[document] = merged.text, merged.base
            again = merge(self.placed(document), merged.text, merged.base, {}, self.new)
            assert (again.changes, again.base) == ((), merged.base)

    def placed(self, document: str) -> list[Placed]:
        rows = blocks(self.state, document)
        return [Placed(row.memory_id, row.raw or "", row.heading) for row in rows]

    def archived(self, document: str) -> dict[str, Placed]:
        events = {one.version: one for one in self.log}
        return {
            row.memory_id: Placed(row.memory_id, context.raw_of(row, events), None)
            for row in context.KIND.rows(self.state)
            if row.archived and row.document == document
        }

    @rule(number=ANY, pin=st.booleans())
    def touches_and_pins(self, number: int, pin: bool) -> None:
        ids = (self.one(number),)
        self.ask(commands.TouchEntries(now_us=self.now(), memory_ids=ids))
        self.ask(commands.PinEntries(now_us=self.now(), memory_ids=ids, pinned=pin))

    @rule(number=ANY)
    def removes_and_maybe_regrets(self, number: int) -> None:
        memory_id, before = self.one(number), self.state
        if self.ask(commands.DeleteEntry(now_us=self.now(), memory_id=memory_id)) and number % 2:
            row = context.KIND.find(before, memory_id)
            if not row.archived:
                assert self.restore(memory_id)
                assert self.text_of(row.document) == text(blocks(before, row.document))
            return
        self.raws.pop(memory_id, None)

    @rule(document=DOCUMENTS, free=st.sampled_from([0.3, 0.4, 0.5]))
    def archives_the_stalest(self, document: str, free: float) -> None:
        before = Words().count(self.text_of(document))
        if not self.ask(
            commands.ArchiveEntries(now_us=self.now(), document=document, room=self.room(free=free))
        ):
            return
        left = [row for row in blocks(self.state, document) if row.heading is None]
        now = Words().count(self.text_of(document))
        if before <= round(SOFT * (1 - free)):
            assert now == before
        else:
            assert now <= 0.7 * before or all(row.pinned for row in left)

    @rule(document=DOCUMENTS, numbers=st.lists(ANY, min_size=1, max_size=5), order=ANY)
    def archives_some_and_brings_them_back(
        self, document: str, numbers: list[int], order: int
    ) -> None:
        before = self.text_of(document)
        living = [row.memory_id for row in blocks(self.state, document) if row.heading is None]
        if not living:
            return
        ids = tuple(dict.fromkeys(living[number % len(living)] for number in numbers))
        command = commands.ArchiveEntries(
            now_us=self.now(), document=document, memory_ids=ids, room=self.room()
        )
        assert self.ask(command)
        for one in ids[::-1] if order % 2 else ids:
            assert self.restore(one)
        assert self.text_of(document) == before

    @rule(numbers=st.lists(ANY, min_size=1, max_size=3))
    def restores(self, numbers: list[int]) -> None:
        archived = [row.memory_id for row in context.KIND.rows(self.state) if row.archived]
        if archived:
            self.restore(*{archived[number % len(archived)] for number in numbers})

    @rule(document=DOCUMENTS, to=DOCUMENTS)
    def renames(self, document: str, to: str) -> None:
        self.ask(commands.RenameDocuments(now_us=self.now(), names=((document, to),)))

    @rule()
    def takes_a_snapshot(self) -> None:
        self.snapshot = dumped(self.state), len(self.log)

    # --- what always holds

    def text_of(self, document: str) -> str:
        return text(blocks(self.state, document))

    @invariant()
    def no_document_is_above_a_limit(self) -> None:
        for name in self.state.documents:
            said = self.text_of(name)
            assert Words().count(said) < HARD
            assert len(said.encode()) <= LIMITS.context_document_bytes
        assert self.state.entries <= LIMITS.context_entries
        assert len(self.state.documents) <= LIMITS.context_documents

    @invariant()
    def its_text_is_taken_apart_into_its_blocks(self) -> None:
        for name in self.state.documents:
            rows, found = blocks(self.state, name), parse(self.text_of(name))
            assert [block.raw for block in found] == shown(row.raw or "" for row in rows)
            assert [block.heading for block in found] == [row.heading for row in rows]

    @invariant()
    def nothing_is_lost_but_what_was_removed(self) -> None:
        events = {one.version: one for one in self.log}
        for row in context.KIND.rows(self.state):
            assert context.raw_of(row, events) == self.raws[row.memory_id]
        removed = {one.data.memory_id for one in self.log if _removes(one.data)}
        kept = {name for name, raw in self.raws.items() if name not in removed}
        assert kept <= set(self.state.rows)

    @invariant()
    def ranks_are_all_different(self) -> None:
        for document in self.state.documents:
            rows = everything(self.state, document)
            assert len({row.rank for row in rows}) == len(rows)

    @invariant()
    def sums_are_those_of_the_rows(self) -> None:
        rows = [row for row in context.KIND.exported(self.state) if row.rank]
        living = [row for row in rows if not row.archived]
        assert self.state.entries == sum(row.heading is None for row in rows)
        assert self.state.size_bytes == sum(row.size_bytes for row in rows)
        assert self.state.stored_bytes == sum(row.stored_bytes for row in rows)
        assert self.state.living_bytes == sum(len(row.raw.encode()) for row in living)

    @precondition(lambda self: len(self.log) % 4 == 0)
    @invariant()
    def live_is_replay_is_snapshot_and_tail(self) -> None:
        self.check_replay()

    def check_replay(self) -> None:
        live = dumped(self.state)
        assert dumped(context.KIND.fold(context.KIND.initial, self.log)) == live
        data, version = self.snapshot
        assert (
            dumped(context.KIND.fold(context.KIND.load(_decode(data)), self.log[version:])) == live
        )
        assert dumped(context.KIND.load(_decode(live))) == live

    def teardown(self) -> None:
        self.check_replay()
        for entry in self.log:
            prepared = context.KIND.registry.prepare(entry.data)
            decoded = context.KIND.registry.decode(prepared.tag, prepared.schema, prepared.raw)
            assert decoded[0] == entry.data


def put(text: str, lines: list[str], at: int) -> str:
    """Return a text with more lines somewhere."""
    own = text.splitlines(keepends=True)
    at %= len(own) + 1
    return "".join([*own[:at], *lines, *own[at:]])


def _removes(event: Any) -> bool:
    return isinstance(event, context.events.BlockRemoved)


TestContext = ContextMachine.TestCase
TestContext.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)

"""Rules by which a stateful test gives commands about context documents to a user's decider."""

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from memory_actors import EditBlock, InsertBlock, RemoveBlock, WordEstimate, text_digest
from memory_actors.base.tokens import TokenBudget
from memory_actors.kinds import context
from memory_actors.kinds.context import commands, state
from support.kind_rules import CHANGED, CHANGES, GROUPS, METADATA, OWN, PINNED, RARELY, TIMES, WORDS
from support.proposing import proposing
from support.user_rules import ANY, UserRules, about, some

if TYPE_CHECKING:
    from memory_actors.base.context_documents import BlockChange

SECTIONS = st.sampled_from(["", "Tastes", "Work"])


class ContextRules(UserRules):
    """Entries of documents are added, changed, touched, pinned and archived; documents renamed."""

    @about(context.KIND)
    @rule(
        document=GROUPS, section=SECTIONS, text=WORDS, own=OWN, at=TIMES, metadata=METADATA,
        pinned=PINNED, archive=st.booleans(),
    )  # fmt: skip
    def adds_an_entry(
        self, document: str, section: str, text: str, own: Any, at: int, metadata: Any,
        pinned: bool, archive: bool,
    ) -> None:  # fmt: skip
        memory_id = self.id(own)
        self.ask(
            commands.AddEntry(
                now_us=self.now_us, memory_id=memory_id, document=document, section=section,
                text=text, heading_id=self.id(None), pinned=pinned, metadata=metadata,
                occurred_at_us=at, room=commands.DocumentRoom(auto_archive=archive),
                own_ids=() if own is None else (memory_id,),
            )
        )  # fmt: skip

    def fills_context(self, number: int, text: str) -> None:
        self.adds_an_entry(
            document="sstu"[number % 4], section=("", "Work")[number % 2], text=text, own=None,
            at=number, metadata={}, pinned=False, archive=True,
        )  # fmt: skip

    @some(context.KIND)
    @rule(number=ANY, text=CHANGES, metadata=CHANGED)
    def edits_an_entry(self, number: int, text: Any, metadata: Any) -> None:
        memory_id = self.one_of(context.KIND, number)
        self.ask(
            commands.EditEntry(
                now_us=self.now_us, memory_id=memory_id, text=text, metadata=metadata
            )
        )

    @some(context.KIND)
    @rule(number=ANY, pinned=st.booleans())
    def touches_and_pins_an_entry(self, number: int, pinned: bool) -> None:
        ids = (self.one_of(context.KIND, number),)
        self.ask(commands.TouchEntries(now_us=self.now_us, memory_ids=ids))
        self.ask(commands.PinEntries(now_us=self.now_us, memory_ids=ids, pinned=pinned))

    @some(context.KIND)
    @rule(document=GROUPS, number=ANY, named=st.booleans(), limit=st.integers(1, 30))
    def archives(self, document: str, number: int, named: bool, limit: int) -> None:
        budget = TokenBudget(soft_tokens=limit, hard_tokens=limit, counter=WordEstimate())
        ids = (self.one_of(context.KIND, number),) if named else None
        room = commands.DocumentRoom(budget=budget)
        self.ask(
            commands.ArchiveEntries(
                now_us=self.now_us, document=document, memory_ids=ids, room=room
            )
        )

    @some(context.KIND)
    @rule(document=GROUPS, kinds=st.lists(st.integers(0, 2), max_size=4), text=WORDS, number=ANY)
    def changes_a_document(self, document: str, kinds: list[int], text: str, number: int) -> None:
        blocks = [row.memory_id for row in state.blocks(self.deciding.state.context, document)]
        changes: list[BlockChange] = []
        for kind in kinds:
            one = blocks[number % len(blocks)] if blocks else None
            if kind == 0 or one is None:
                changes.append(InsertBlock(self.id(None), f"{text}\n", None, one))
            elif kind == 1:
                changes.append(EditBlock(one, f"- {text}\n"))
            else:
                changes.append(RemoveBlock(one))
                blocks.remove(one)
        self.ask(
            commands.ChangeDocument(
                now_us=self.now_us, document=document, changes=tuple(changes),
                base=(("m", b"d"),) if number % 3 else None,
            )
        )  # fmt: skip

    @some(context.KIND)
    @rule(document=GROUPS, to=GROUPS, delete=RARELY)
    def renames_or_deletes_a_document(self, document: str, to: str, delete: bool) -> None:
        command: Any = commands.RenameDocuments(now_us=self.now_us, names=((document, to),))
        if delete:
            command = commands.DeleteDocuments(now_us=self.now_us, documents=(document,))
        self.ask(command)

    @about(context.KIND)
    @rule(
        document=GROUPS, text=WORDS, own=OWN, at=TIMES, archived=st.booleans(),
        rank=st.sampled_from(["V", "V01", "k", "Uzz"]), heading=st.none() | st.just("s"),
    )  # fmt: skip
    def imports_a_block(
        self, document: str, text: str, own: Any, at: int, archived: bool, rank: str, heading: Any
    ) -> None:
        memory_id = self.id(own)
        raw = f"{text}\n" if heading is None else f"## {heading}\n"  # as handles see to
        self.ask(
            proposing(
                commands.ImportBlock,
                now_us=self.now_us, memory_id=memory_id, document=document, raw=raw,
                rank=rank, heading=heading, occurred_at_us=at, touched_at_us=at,
                archived=archived and heading is None, digest=text_digest(text),
                own_ids=() if own is None else (memory_id,),
            )
        )  # fmt: skip

"""The checks of what an extractor proposes: it is data, and may be anything."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, get_args

import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.validation import check_text, content_bytes, time_us
from memory_actors.extraction.batches import MessageShown
from memory_actors.extraction.protocol import Action, Proposal, Spoken
from memory_actors.kinds.extracting import Proposed, Target
from memory_actors.kinds.long_term import MemoryAdded

FACT_CHARACTERS_MAX: Final = 2_000
"""A fact is a sentence: what is longer is no fact."""
REASON_CHARACTERS_MAX: Final = 200


def checked(
    said: Proposal, seen: MessageShown, spoken: Mapping[str, Spoken]
) -> tuple[Proposal, str]:
    """Return a proposal, and why it is not carried out; "" if it may be.

    One whose fields are not what they must be comes back as one that says nothing.
    """
    try:
        one = _well_formed(said)
    except InvalidInputError as error:
        action = next((one for one in get_args(Action) if one == said.action), "unknown")
        return msgspec.structs.replace(Proposal(), action=action), str(error)
    return one, _refused(one, seen, spoken)


def _well_formed(said: Proposal) -> Proposal:
    """Return a proposal with fields of its types, which nothing has checked until now.

    :raises InvalidInputError: one of them is of another type, or no Unicode.
    """
    if said.action not in get_args(Action):
        raise InvalidInputError(f"there is no such action: {said.action!r:.80}")
    if not isinstance(said.message_ids, list | tuple):
        raise InvalidInputError("message_ids must be a list of ids")
    if not isinstance(said.occurred_at, datetime | None):
        raise InvalidInputError("occurred_at must be a datetime")
    time_us(said.occurred_at, "occurred_at")
    return msgspec.structs.replace(
        said,
        action=check_text(said.action, "action"),
        text=None if said.text is None else check_text(said.text, "text"),
        replaces=None if said.replaces is None else check_text(said.replaces, "replaces"),
        message_ids=tuple(check_text(one, "message_ids") for one in said.message_ids),
        reason=check_text(said.reason, "reason"),
    )


def _refused(one: Proposal, seen: MessageShown, said: Mapping[str, Spoken]) -> str:
    if not set(one.message_ids) <= said.keys():
        return "it names a message that is not among those that were read"
    if one.action != "add" and one.replaces not in seen.digests:
        known = one.replaces in {fact.memory_id for fact in seen.conversation.facts}
        return "that fact is more trusted than the messages" if known else "it names no known fact"
    if one.action == "forget":
        return ""
    if one.text is None or len(one.text) > FACT_CHARACTERS_MAX:
        return f"a fact needs a text of at most {FACT_CHARACTERS_MAX:,} characters"
    try:
        content_bytes(one.text)
    except InvalidInputError as error:
        return str(error)
    return ""


def proposed(one: Proposal, new: MemoryAdded | None, seen: MessageShown, why: str) -> Proposed:
    """Return the log's record of a proposal: its outcome, or `why` it was refused."""
    target = None
    if not why and one.action != "add" and one.replaces is not None:
        target = Target(memory_id=one.replaces, digest=seen.digests[one.replaces])
    shown_ids = [each.memory_id for each in seen.conversation.messages]
    named = [each for each in shown_ids if not one.message_ids or each in one.message_ids]
    return Proposed(
        action=one.action,
        memory_id=None if new is None else new.memory_id,
        target=target,
        message_ids=tuple(named),
        reason=one.reason[:REASON_CHARACTERS_MAX],
        refused=why[:REASON_CHARACTERS_MAX],
    )

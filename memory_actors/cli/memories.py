"""Memories of any kind; those that wait for a review; facts that are found in messages."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from memory_actors.api.finding import SEARCHED
from memory_actors.api.user import TAKES
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import Hit, Memory, MemoryType, Receipt
from memory_actors.base.reports import Extraction, ProposedFact, Undone
from memory_actors.base.weights import Weights, weights_of
from memory_actors.cli import options
from memory_actors.cli.deriving import done, flag_of, mirrors
from memory_actors.cli.options import App
from memory_actors.cli.output import counted, local, print_table, say, shortened, table
from memory_actors.cli.showing import memory_table, print_memory, say_added
from memory_actors.extraction.llm import OpenAIExtractor


def _check(_app: App, given: Mapping[str, Any]) -> None:
    kind = MemoryType(given["memory_type"])
    for name in sorted(set().union(*TAKES.values()) - TAKES[kind]):
        if given.get(name) not in (None, False):
            raise click.UsageError(f"{flag_of(name)} does not go with --type {kind}")


@mirrors(
    "add", new=True, embeds=True, check=_check, more=[options.agent],
    content=click.argument("content", type=options.given_text),
    memory_type=click.option(
        "--type", "memory_type", type=options.MEMORY_TYPE, default="long_term", show_default=True
    ),
)  # fmt: skip
def add(receipt: Receipt) -> None:
    """Add a memory. CONTENT is its text, or - to read it from stdin.

    The type decides the meaning of the text: a fact (long_term), a message (short_term), the value
    of --key (working), the name of an entity (entity; with --key that is the name, and the text is
    observed of it), the goal of a new episode (episodic), a JSON document (structured), or an entry
    of MEMORY.md (context; in the section --key).
    """
    say_added(receipt)


ALL_TYPES = tuple(MemoryType)
SEARCHED_TYPES = tuple(kind.NAME for kind in SEARCHED)

filters = options.filters("fields of the metadata")
IDS = click.argument("memory_ids", nargs=-1, required=True)


def _weights(given: str) -> Weights:
    try:
        return weights_of(options.json_object(given))
    except InvalidInputError as error:
        raise click.BadParameter(str(error)) from error


@mirrors(
    "retrieve",
    embeds=True,
    filters=filters,
    top_k=click.option(
        "--top-k", type=int, default=5, show_default=True, help="How many at most."
    ),
    session_id=click.option(
        "--session", "session_id", help="Short-term memory: only this session's."
    ),
    as_of=options.a_time("--as-of", help="Only memories recorded by then."),
    token_budget=click.option(
        "--token-budget", type=options.Count(min=0), metavar="N",
        help="As many as fit so many tokens, instead of --top-k.",
    ),
    weights=click.option(
        "--weights", type=_weights, metavar="JSON",
        help="""Weights of signals, such as '{"words": 0}'.  [default: as measured]""",
    ),
)  # fmt: skip
def search(hits: Sequence[Hit], app: App, memory_types: Sequence[str] | None) -> None:
    """Find the memories closest in meaning to QUERY."""
    nothing = f"Nothing found {_where(app, memory_types or SEARCHED_TYPES)}."
    print_table(memory_table(hits), nothing)


def _where(app: App, kinds: Iterable[str]) -> str:
    """Name the user and the kinds that a search covered."""
    return f"for user {app.user_id} in {', '.join(kinds)}"


@mirrors("list_memories", name="list", filters=filters, limit=options.limit)
def list_(
    memories: Sequence[Memory],
    app: App,
    memory_types: Sequence[str] | None,
    limit: int,
    offset: int,
) -> None:
    """List memories, newest first."""
    nothing = f"Nothing there {_where(app, memory_types or ALL_TYPES)}."
    print_table(memory_table(memories), nothing)
    say_more(len(memories), limit, offset)


def say_more(shown: int, limit: int, offset: int) -> None:
    """Say how to go on after a full page."""
    if shown == limit:
        say(f"More may follow: --offset {offset + limit}", "dim")


@mirrors("get")
def get(memory: Memory) -> None:
    """Show one memory with all there is to it."""
    print_memory(memory)


@mirrors(
    "update", embeds=True, filters=options.filters("fields of the metadata, as it is now,"),
    content=click.argument("content", type=options.given_text, required=False),
    pinned=click.option("--pin/--unpin", "pinned", default=None, help="Never prune it, or again."),
    metadata=click.option(
        "--metadata", type=options.json_object, metavar="JSON", help="Its metadata from now on."
    ),
)  # fmt: skip
def update(receipt: Receipt) -> None:
    """Replace the text of a memory by CONTENT (- is stdin), or its metadata; pin it or not."""
    changed = "Updated" if receipt.operation == "update" else "Unchanged"
    say(f"{changed}: {receipt.memory_id}")


delete = mirrors("delete")(done("Deleted"))
delete_many = mirrors(
    "delete_many", filters=options.filters("fields of the metadata", {}),
    help="Delete the memories that match; `count` says how many do.",
)(done("Deleted"))  # fmt: skip
reject = mirrors("reject", memory_ids=IDS)(done("Rejected"))


@mirrors("count", filters=filters, as_json=lambda found: {"count": found})
def count(found: int) -> None:
    """Say how many memories there are, or match."""
    say(f"{found:,}")


@mirrors("restore", memory_ids=IDS)
def restore(receipts: Sequence[Receipt], memory_ids: Sequence[str]) -> None:
    """Bring back what was pruned, evicted or deleted.

    All or none of those of one type. Working and short-term memory does not come back.
    """
    came = {receipt.memory_id for receipt in receipts}
    for memory_id in dict.fromkeys(memory_ids):
        say(f"{'Restored' if memory_id in came else 'Already there'}: {memory_id}")


@mirrors("pending", limit=options.limit)
def pending(memories: Sequence[Memory], app: App, limit: int, offset: int) -> None:
    """List the memories that wait for a review, the last that was added first."""
    print_table(memory_table(memories), f"Nothing waits for a review for user {app.user_id}.")
    say_more(len(memories), limit, offset)


@mirrors("approve", memory_ids=IDS)
def approve(receipts: Sequence[Receipt]) -> None:
    """Add pending memories, one by one."""
    for receipt in receipts:
        say(f"Approved: {receipt.memory_id}")


# --- extract


EXTRACTOR_VARIABLE = "MEMORY_ACTORS_EXTRACTOR"
MODEL_VARIABLE = "MEMORY_ACTORS_LLM_MODEL"
FACT_CHARACTERS_MAX = 100
WORDS = {"add": "+", "supersede": "→", "forget": "-"}


def with_model(app: App, _given: Mapping[str, object]) -> None:
    """Have the model that the environment names extract, where the store is open nowhere else."""
    app.extractor = app.extractor or os.environ.get(EXTRACTOR_VARIABLE) or None
    if app.extractor is None and os.environ.get(MODEL_VARIABLE, "").strip():
        app.extractor = OpenAIExtractor()


@mirrors("extract", embeds=True, check=with_model)
def extract(found: Extraction) -> None:
    """Find facts in messages that are new, and remember them.

    It asks the model of MEMORY_ACTORS_EXTRACTOR, such as ollama:MODEL, or that of the
    MEMORY_ACTORS_LLM_… variables, or the extractor of the process that has the store open. `undo`
    takes it all back.
    """
    for fact in found.facts:
        say(_told(fact), "dim" if fact.came in ("refused", "known") else "")
    read = f"{counted(len(found.message_ids), 'message')} read by {found.extractor}"
    left = f"; {found.messages_left:,} new ones left: run it again" if found.messages_left else ""
    say(f"{read}{left}.")
    if found.dry_run:
        say("Nothing was changed: that is what would be remembered.", "dim")
    elif found.extraction_id is not None:
        say(f"To take it back: memory-actors undo {found.extraction_id}", "dim")


def _told(fact: ProposedFact) -> str:
    text = shortened(fact.content or "", FACT_CHARACTERS_MAX)
    what = f"{WORDS.get(fact.action, '?')} {text}".rstrip()
    if fact.came == "refused":
        return f"{what}  (refused: {fact.reason})"
    return f"{what}  (known already)" if fact.came == "known" else what


@mirrors("extractions")
def extractions(found: Sequence[Extraction]) -> None:
    """List what was found in messages, the newest extraction first."""
    rows = table("extraction", "at", "by", "messages", "facts", "undone")
    for one in found:
        rows.add_row(
            one.extraction_id or "",
            local(one.at),
            one.extractor,
            f"{len(one.message_ids):,}",
            f"{sum(fact.came != 'refused' for fact in one.facts):,}",
            "" if one.undone_at is None else local(one.undone_at),
        )
    print_table(rows, "Nothing was extracted yet.")


@mirrors("undo")
def undo(done: Undone) -> None:
    """Take back what the extraction ID has done. Its messages are not read again."""
    what = {
        "gone": done.gone,
        "back": done.came_back,
        "said to hold again": done.reinstated,
        "left, as they were reworded since": done.left,
        "lost to retention": done.lost,
    }
    said = [f"{counted(len(ids), 'fact')} {how}" for how, ids in what.items() if ids]
    say(f"Undone: {', '.join(said)}." if said else "There was nothing to undo.")

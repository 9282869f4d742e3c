"""extract, extractions, undo."""

import os
from collections.abc import Mapping, Sequence

from memory_actors.base.reports import Extraction, ProposedFact, Undone
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.options import App
from memory_actors.cli.output import counted, local, print_table, say, shortened, table
from memory_actors.extraction.llm import OpenAIExtractor

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

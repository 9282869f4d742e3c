"""How far the estimate of tokens is from a real tokenizer, by kind of text.

The estimate is 1.3 tokens a word. It is compared on documents of about 1,500 tokens: the turns of a
LoCoMo file, this project's own Markdown and code, and one text of an agent's memory in several
languages (`languages.json`, written for this; a few hundred tokens each). An error of -50 % says
that the estimate is half of the tokens there are.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from bench.report import Options, Report, Table, facts
from memory_actors import TokenCounter, TokenizerCounter, WordEstimate
from memory_actors.interchange.locomo import read_locomo
from memory_actors.phrasing import spoken

DOCUMENT_TOKENS = 1_500  # the soft limit of a context document
ROOT = Path(__file__).parents[1]
LANGUAGES = Path(__file__).with_name("languages.json")
COLUMNS = ("text", "documents", "tokens", "tokens a word", "mean error %", "worst error %")

Row = tuple[str, int, int, float, float, float]


def run(locomo: Path | None, tokenizers: Sequence[Path], options: Options) -> Report:
    """Compare the estimate with each tokenizer; none named: that of the installed model."""
    counters = [TokenizerCounter(path) for path in tokenizers] or [TokenizerCounter()]
    tables = [
        Table(f"words * 1.3 against {counter.name}", COLUMNS, list(_rows(counter, locomo)))
        for counter in counters
    ]
    return Report(
        name="tokens",
        facts=facts(ROOT, options, ("tokenizers",)),
        tables=tables,
        notes=["beyond 10 % either way: count with TokenizerCounter"],
    )


def _rows(counter: TokenCounter, locomo: Path | None) -> Iterator[Row]:
    if locomo is not None:
        yield row("LoCoMo turns", _turns(locomo), counter)
    yield row("Markdown (docs)", _lines("docs/**/*.md"), counter)
    yield row("Python (memory_actors)", _lines("memory_actors/**/*.py"), counter)
    languages = msgspec.json.decode(LANGUAGES.read_bytes(), type=dict[str, list[str]])
    for language, said in languages.items():
        yield row(language, [f"- {entry}\n" for entry in said], counter)


def _turns(path: Path) -> Iterator[str]:
    for conversation in read_locomo(path):
        yield from (f"- {spoken(turn.content, turn.speaker)}\n" for turn in conversation.turns)


def _lines(pattern: str) -> Iterator[str]:
    for path in sorted(ROOT.glob(pattern)):
        yield from path.read_text("utf-8").splitlines(keepends=True)


def row(name: str, lines: Iterable[str], counter: TokenCounter) -> Row:
    """Return how the estimate does on documents made of these lines."""
    texts = list(documents(lines, counter))
    exact = [counter.count(text) for text in texts]
    errors = [
        100 * (WordEstimate().count(text) / tokens - 1)
        for text, tokens in zip(texts, exact, strict=True)
    ]
    words = sum(len(text.split()) for text in texts)
    worst = max(errors, key=abs)
    return name, len(texts), sum(exact), sum(exact) / words, fmean(errors), worst


def documents(lines: Iterable[str], counter: TokenCounter) -> Iterator[str]:
    """Yield texts of about 1,500 tokens; what is left over at the end only if it is all."""
    text, tokens, any_yet = [], 0, False
    for line in lines:
        text.append(line)
        tokens += counter.count(line)
        if tokens >= DOCUMENT_TOKENS:
            yield "".join(text)
            text, tokens, any_yet = [], 0, True
    if text and not any_yet:
        yield "".join(text)

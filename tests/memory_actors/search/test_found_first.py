"""The first results with the default model: themes, names, dates, other languages, scores."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memory_actors import Item, MemorySystem, UserMemory
from memory_actors.search.embedding.default import DefaultEmbedder

pytestmark = pytest.mark.anyio

OTHERS = (
    "User drives a Toyota",
    "User's dog is called Biscuit",
    "User is allergic to nuts",
    "User works at Monzo as an analyst",
    "User was born in Leeds",
    "User is learning to play the banjo",
    "User's sister is called Anita",
)
NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def embedder() -> DefaultEmbedder:
    return DefaultEmbedder()


@pytest.fixture
async def memory(tmp_path: Path, embedder: DefaultEmbedder):
    async with MemorySystem.open(tmp_path, embedder=embedder) as memory:
        yield memory


async def remembering(memory: MemorySystem, texts: Sequence[str], name: str = "ada") -> UserMemory:
    user = memory.user(name)
    await user.add_many([Item(content=text) for text in texts])
    return user


async def first(user: UserMemory, query: str, **options) -> str:
    return (await user.retrieve(query, top_k=3, **options))[0].content


@pytest.mark.parametrize("lines", [3, 12, 60])
async def test_a_theme_is_found_however_often_it_is_repeated(memory, lines: int) -> None:
    runs = [f"Ran {5 + n % 9} km along the river in {40 + n} minutes" for n in range(lines)]
    user = await remembering(memory, [*runs, *OTHERS])
    for query in ("what exercise do I do?", "cardio", "how do I keep fit?"):
        assert (await first(user, query)).startswith("Ran "), query


@pytest.mark.parametrize(
    ("fact", "query"),
    [
        ("\uff21\uff22\uff23株式会社の契約", "ABC"),
        ("The \ufb01nancial of\ufb01ce is on \ufb02oor 3", "financial office"),
        ("الرقم ٤٥٦٧ للطلب", "4567"),
        ("Łódź branch opens", "lodz"),
        ("Went out on Sunday 🎿", "🎿"),
        ("Press ⬅\ufe0f to return", "⬅"),
        ("Family day 👨\u200d👩\u200d👧 at the zoo", "👨\u200d👩\u200d👧"),
        ("The ticket is JIRA\u20111234", "JIRA-1234"),
        ("من کتاب دارم", "كتاب"),
    ],
)
async def test_another_spelling_of_the_same_letters_finds_it(memory, fact, query) -> None:
    user = await remembering(memory, [fact, *OTHERS])
    assert await first(user, query) == fact


@pytest.mark.parametrize(
    "query",
    ["2026-04-04", "\uff12\uff10\uff12\uff16-04-04", "٤ April ٢٠٢٦", "2026\u201104\u201104"],
)
async def test_a_date_is_understood_in_the_digits_of_any_script(memory, query: str) -> None:
    user = memory.user("ada")
    for day, fact in (("03-01", "went sailing"), ("04-04", "went climbing"), ("05-21", "cooked")):
        await user.add(fact, occurred_at=f"2026-{day}T10:00:00Z")
    assert await first(user, f"What did I do on {query}?") == "went climbing"


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ("Call ٤٥٦٧", "Call 4567"),
        ("of\ufb01ce", "office"),
        ("I\u2019m an \u201cartist\u201d", 'I\'m an "artist"'),
        ("a well\u2011known band", "a well-known band"),
        ("loves ❤\ufe0f tea", "loves ❤ tea"),
        ("\u200esuper\u200bnova", "supernova"),
    ],
)
async def test_a_fact_in_another_spelling_is_the_same_fact(memory, first, again) -> None:
    user = memory.user("ada")
    await user.add(first)
    assert (await user.add(again)).operation == "seen"


async def test_other_facts_are_found_beside_a_theme(memory) -> None:
    runs = [f"Ran {5 + n % 9} km along the river in {40 + n} minutes" for n in range(60)]
    user = await remembering(memory, [*runs, *OTHERS])
    assert await first(user, "What car do I have?") == OTHERS[0]
    assert await first(user, "What is my pet's name?") == OTHERS[1]
    assert await first(user, "Who is my employer?") == OTHERS[3]


async def test_a_bare_name_stands_behind_the_facts_about_it(memory) -> None:
    user = memory.user("ada")
    for name, entity_type in (("Ada", "person"), ("Cardiff", "city"), ("Bristol", "city")):
        await user.entities.add_entity(name, entity_type)
    await user.entities.relate("Ada", "lives in", "Cardiff")
    assert await first(user, "Who lives in Cardiff?") == "Ada lives in Cardiff"
    assert await first(user, "Cardiff") == "Cardiff (city)"


async def test_two_days_ago_is_a_day(memory) -> None:
    user = memory.user("ada")
    for days, text in (
        (1, "I repaired the bike chain."),
        (2, "I presented the quarterly numbers to the board."),
        (3, "I slept until noon and watched football."),
        (21, "I lost my wallet on the tram."),
        (23, "I got a raise of eight percent."),
    ):
        await user.add(text, occurred_at=NOW - timedelta(days=days))
    asked = {
        "What happened two days ago?": "I presented the quarterly numbers to the board.",
        "What did I do yesterday?": "I repaired the bike chain.",
        "What did I do three weeks ago?": "I lost my wallet on the tram.",
    }
    for query, answer in asked.items():
        assert await first(user, query, reference_time=NOW) == answer


async def test_where_the_model_reads_little_a_texts_own_words_decide(memory) -> None:
    user = await remembering(
        memory,
        ["用户住在杭州。", "用户对海鲜过敏。", "用户的猫叫豆豆。", "用户的妹妹在北京当老师。"],
    )
    assert await first(user, "用户对什么过敏") == "用户对海鲜过敏。"
    user = await remembering(
        memory,
        ["Ирина живёт в Казани.", "Олег работает врачом.", "Собаку Олега зовут Шарик."],
        "leon",
    )
    assert await first(user, "Как зовут собаку?") == "Собаку Олега зовут Шарик."


async def test_words_rank_turns_and_meaning_ranks_facts(memory) -> None:
    user = memory.user("ada")
    turns = [
        ("Leon", "I told everybody at the harbour about the new boat and how we painted it green."),
        ("Ada", "My sister calls every Sunday evening, and then we talk about the harvest."),
        ("Leon", "We painted the kitchen yellow last month, and the neighbours came to help us."),
    ]
    await user.add_many([Item(content=text, role=role) for role, text in turns])
    assert "kitchen yellow" in await first(user, "Which colour did they paint the kitchen?")


async def test_a_score_is_low_where_nothing_answers(memory) -> None:
    user = await remembering(memory, OTHERS)
    answered = (await user.retrieve("What is my dog called?"))[0].score
    in_vain = (await user.retrieve("How high is the Eiffel tower?"))[0].score
    assert answered > 0.5 > 0.35 > in_vain


async def test_the_best_score_hardly_depends_on_the_number(memory) -> None:
    """The score of the best depends little on how many there are."""
    scores = []
    for count in (0, 2, 7):
        user = await remembering(memory, ["User enjoys skiing", *OTHERS[:count]], f"user {count}")
        scores.append((await user.retrieve("winter sports"))[0].score)
    assert max(scores) - min(scores) < 0.25


async def test_a_kind_that_was_emptied_changes_no_score(memory) -> None:
    user = memory.user("ada")
    for name in ("Beethoven", "Schubert", "Mahler"):
        await user.entities.add_entity(name, "composer")
    query = "Which tyres fit a mountain bike?"
    before = [(hit.memory_id, hit.score) for hit in await user.retrieve(query)]
    added = await user.add("User owns a red mountain bike", "long_term")
    await user.delete(added.memory_id)
    assert [(hit.memory_id, hit.score) for hit in await user.retrieve(query)] == before

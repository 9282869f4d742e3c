"""LoCoMo files."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory_actors import InvalidInputError
from memory_actors.interchange import import_locomo, read_locomo


def turn(dia_id: str, text: str = "hi", **more: str) -> dict[str, str]:
    return {"speaker": "Ada", "dia_id": dia_id, "text": text, **more}


def conversation(**changes) -> dict:
    return {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ada",
            "speaker_b": "Bob",
            "session_10_date_time": "12:09 am on 3 June, 2023",
            "session_10": [turn("D10:1", "last")],
            "session_2_date_time": "1:56 pm on 8 May, 2023",
            "session_2": [
                turn("D2:1", "first"),
                turn("D2:2", "look", blip_caption="a dog", query="dog", img_url="u"),
            ],
            "session_11_date_time": "1:00 pm on 4 June, 2023",
        },
        "qa": [
            {"question": "who?", "evidence": ["D2:1", "D2:2; D99:1", "D2:1"], "category": 1},
            {"question": "none?", "evidence": ["D99:1", "nothing"], "category": 2},
            {"question": "empty?", "evidence": [], "category": 5},
            {"question": "bare?", "category": 3},
        ],
        **changes,
    }


@pytest.fixture
def locomo(tmp_path: Path):
    def write(content: object) -> Path:
        path = tmp_path / "locomo.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def test_turns_come_in_order_of_sessions(locomo) -> None:
    """Turns come in order of sessions, with speaker, photo and date."""
    (one,) = read_locomo(locomo([conversation()]))
    assert [(t.memory_id, t.session, t.content) for t in one.turns] == [
        ("D2:1", 2, "Ada: first"),
        ("D2:2", 2, "Ada: look [photo: a dog]"),
        ("D10:1", 10, "Ada: last"),
    ]
    assert [t.occurred_at for t in one.turns] == [
        datetime(2023, 5, 8, 13, 56, 0, tzinfo=UTC),
        datetime(2023, 5, 8, 13, 56, 1, tzinfo=UTC),
        datetime(2023, 6, 3, 0, 9, 0, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not JSON"),
        ('{"content": "x"}\n{"content": "y"}\n', "--format jsonl"),
        ("[" * 100_000, "not JSON"),
        ("7", "no LoCoMo file"),
        ([{"sample_id": "c"}], "`conversation`"),
        ([conversation(qa="none")], "`qa`|qa"),
        (
            [conversation(conversation={"session_1": [{"speaker": "A"}]})],
            "conv-1, session_1: .*dia_id",
        ),
        ([conversation(conversation={"session_1": "x"})], "conv-1, session_1"),
        (
            [conversation(conversation={"session_1": [], "session_1_date_time": "May 8"})],
            "'May 8' is not like",
        ),
    ],
)
def test_what_is_no_locomo_file_is_refused_with_the_place(locomo, content, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as caught:
        read_locomo(locomo(content))
    assert "locomo.json" in str(caught.value)


@pytest.mark.anyio
async def test_each_conversation_becomes_a_user_and_each_turn_a_memory(store, locomo) -> None:
    path, told = locomo([conversation(), conversation(sample_id="conv-2")]), []
    async with store() as memory:
        report = await import_locomo(memory, path, progress=lambda *told_: told.append(told_))
        again = await import_locomo(memory, path)
        got = await memory.user("conv-2").get("D2:2")
        assert await memory.users() == ["conv-1", "conv-2"]
    assert (report.users, report.added) == (["conv-1", "conv-2"], 6)
    assert (again.added, again.unchanged) == (0, 6)
    assert told == [(3, 6), (6, 6)]
    assert (got.content, got.role, got.session_id) == (
        "Ada: look [photo: a dog]",
        "Ada",
        "session_2",
    )
    assert got.metadata == {"dia_id": "D2:2", "session": 2}


def test_nothing_is_added_of_a_file_that_is_bad_somewhere(locomo) -> None:
    bad = conversation(sample_id="conv-2", conversation={"session_1": "x"})
    with pytest.raises(InvalidInputError, match="conv-2"):
        read_locomo(locomo([conversation(), bad]))

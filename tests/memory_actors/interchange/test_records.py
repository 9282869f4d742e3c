"""The format of a line, without files or stores."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import strategies as st

from memory_actors import InvalidInputError, Memory, Origin, Trust
from memory_actors.interchange.records import LineReader, line_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LINE = b'{"session": "s1", "timestamp": "2024-05-01T12:00:00Z", "role": "user", "content": "tea"}'
RELATED = b'{"memory_type": "entity", "data": {"relation": "r", "source": "A", "target": "B"'

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)


def read(line: bytes, place: str = "chat.jsonl, line 1"):
    return LineReader().read(line, place)


def memory(**changes) -> Memory:
    fields = {
        "memory_id": "m1",
        "content": "likes tea",
        "memory_type": "long_term",
        "metadata": {},
        "created_at": EPOCH,
        "occurred_at": EPOCH + timedelta(microseconds=1),
    }
    return Memory(**{**fields, **changes})


def test_a_line_without_an_id_always_gets_the_same() -> None:
    assert read(LINE).item.memory_id == "imp_1af524d99ae93cb059be7258595767b7b57245f2"


def test_a_line_says_the_agent_and_the_end_of_a_memory() -> None:
    at = EPOCH + timedelta(days=1, microseconds=1)
    line = line_of(memory(agent_id="planner", expires_at=at))
    assert msgspec.json.decode(line)["agent"] == "planner"
    assert (read(line).agent_id, read(line).expires_at_us) == ("planner", 86_400_000_001)
    told = read(b'{"content": "a", "agent_id": "planner", "expires_at": 86400.5}')
    assert (told.agent_id, told.expires_at_us) == ("planner", 86_400_500_000)


@pytest.mark.parametrize(
    "same",
    [
        LINE.replace(b"Z", b"+00:00"),
        LINE.replace(b"12:00:00Z", b"14:00:00+02:00"),
        LINE.replace(b'"2024-05-01T12:00:00Z"', b"1714564800"),
        LINE.replace(b"}", b', "metadata": {}}'),
    ],
)
def test_the_id_ignores_how_a_line_is_written(same: bytes) -> None:
    assert read(same).item.memory_id == read(LINE).item.memory_id


def test_foreign_fields_become_metadata() -> None:
    """Fields of others become metadata, and their names for ours are known."""
    entry = read(
        b'{"text": "x", "session_id": "s", "occurred_at": "2024-01-01", "memory_id": "m", '
        b'"topic": "tea", "a": 1, "metadata": {"a": 2}}'
    )
    item = entry.item
    assert (item.content, item.session_id, item.memory_id) == ("x", "s", "m")
    assert item.occurred_at == "2024-01-01"
    assert item.metadata == {"topic": "tea", "a": 2}


@pytest.mark.parametrize(
    ("said", "origins"),
    [
        (b'"source": "web", "trust": "untrusted"', (Origin("web", Trust.UNTRUSTED),)),
        (b'"source": "web"', (Origin("web"),)),
        (b'"trust": "trusted"', (Origin(None, Trust.TRUSTED),)),
        (b'"source": null, "trust": null', ()),
        (b'"origins": [{"source": "web"}, {"trust": "trusted"}]',
         (Origin("web"), Origin(None, Trust.TRUSTED))),
    ],
)  # fmt: skip
def test_a_line_says_where_it_comes_from(said: bytes, origins: tuple[Origin, ...]) -> None:
    entry = read(b'{"content": "x", ' + said + b"}")
    assert entry.origins == origins
    assert entry.item.metadata == {}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "not JSON"),
        (b"\x00\x01\x02", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1]", "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
        (b"{}", "no 'content'"),
        (b'{"content": null}', "no 'content'"),
        (b'{"content": "  "}', "content is empty"),
        (b'{"content": 7}', "`content`"),
        (b'{"content": "x", "session": 7}', "`session`"),
        (b'{"content": "x", "session": ""}', "session is empty"),
        (b'{"content": "x", "timestamp": "yesterday"}', "ISO 8601"),
        (b'{"content": "x", "timestamp": 1714564800000000}', "seconds"),
        (b'{"content": "x", "timestamp": true}', "`timestamp`"),
        (b'{"content": "x", "metadata": [1]}', "`metadata`"),
        (b'{"content": "x", "metadata": {"a": 123456789012345678901}}', "not JSON"),
        (b'{"content": "x", "memory_type": "dream"}', "use one of working"),
        (b'{"content": "x", "key": "k"}', "no 'key'"),
        (b'{"value": 1}', "no 'value'"),
        (b'{"content": "x", "memory_type": "working", "role": "r"}', "no 'role'"),
        (b'{"content": "x", "memory_type": "working", "value": 1}', "keep one"),
        (b'{"content": "x", "memory_type": "short_term", "pinned": true}', "no 'pinned'"),
        (b'{"content": "x", "memory_type": "entity", "session": "s"}', "no 'session'"),
        (b'{"memory_type": "entity"}', "no 'content' and no 'data'"),
        (b'{"memory_type": [], "data": {}}', "`memory_type`"),
        (b'{"memory_type": "entity", "data": 7}', "must be a JSON object"),
        (b'{"memory_type": "entity", "data": {"name": 7}}', "`data.name`"),
        (b'{"memory_type": "entity", "data": {"name": "A", "observation": []}}', "`observation`"),
        (b'{"memory_type": "entity", "content": "x", "data": {"name": "A"}}', "keep one"),
        (b'{"memory_type": "entity", "data": {"relation": "r", "source": "A"}}', "no 'target'"),
        (RELATED + b', "valid_to": "soon"}}', "valid_to 'soon' is not ISO 8601"),
        (RELATED + b', "valid_from": 1e300}}', "valid_from 1e+300 is no number of seconds"),
        (
            b'{"memory_type": "episodic", "data": {"goal": "g", "steps": [{"action": " "}]}}',
            "action",
        ),
        (b'{"memory_type": "episodic", "data": {"goal": "g", "status": "lost"}}', "`data.status`"),
        (b'{"memory_type": "structured", "value": [1]}', "must be a JSON object"),
        (b'{"memory_type": "structured", "data": {"value": [1]}}', "`data.value`"),
        (b'{"content": "x", "id": ""}', "id is empty"),
        (b'{"content": "x", "source": 7}', "`source`"),
        (b'{"content": "x", "source": "*"}', "name one"),
        (b'{"content": "x", "trust": "some"}', "unknown trust 'some'"),
        (b'{"content": "x", "origins": "web"}', "`origins`"),
        (b'{"content": "x", "origins": ["web"]}', "`origins["),
        (b'{"content": "x", "origins": [{"trust": "some"}]}', "trust"),
        (b'{"content": "x", "origins": [{"source": "web", "url": "u"}]}', "more than 'source'"),
        (b'{"content": "x", "origins": [], "source": "web"}', "'origins' and 'source'"),
        (b'{"content": "x", "origins": [], "trust": "trusted"}', "'origins' and 'trust'"),
        (b'{"content": "' + b"x" * ((15 << 20) + 1) + b'"}', "shorten it"),
    ],
)
def test_a_bad_line_is_refused_with_the_reason(line: bytes, said: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read(line, "chat.jsonl, line 7")
    message = str(caught.value)
    assert said in message
    assert len(message) < 600


def test_the_flag_of_compression_is_not_exported() -> None:
    line = line_of(memory(metadata={"is_compressed": True, "a": [1]}, pinned=True, role="r"))
    assert msgspec.json.decode(line) == {
        "id": "m1",
        "timestamp": "1970-01-01T00:00:00.000001+00:00",
        "role": "r",
        "content": "likes tea",
        "metadata": {"a": [1]},
        "pinned": True,
    }

"""document put, get, find, delete."""

import pytest


@pytest.fixture
def trips(program) -> None:
    for key, to, price in (("t1", "Porto", 120), ("t2", "Rome", 80), ("t3", "Oslo", 200)):
        program.ok("document", "put", "trips", f'{{"to": "{to}", "price": {price}}}', "--key", key)


def test_a_document_is_put_got_and_deleted(program) -> None:
    receipt = program.json(
        "document", "put", "trips", '{"to": "Porto"}', "--key", "t1", "--pin",
        "--metadata", '{"a": 1}', "--at", "2024-05-01T12:00:00Z",
    )  # fmt: skip
    found = program.json("document", "get", "t1", "--collection", "trips")
    assert (found["memory_id"], found["value"]) == (receipt["memory_id"], {"to": "Porto"})
    assert (found["metadata"], found["pinned"]) == ({"a": 1}, True)
    assert found["occurred_at"] == "2024-05-01T12:00:00Z"
    said = program.ok("document", "get", receipt["memory_id"])
    for part in ("trips / t1", '  "to": "Porto"', "pinned", "2024-05-01 17:30"):
        assert part in said
    assert "Deleted" in program.ok("document", "delete", "t1", "--collection", "trips")
    for command in ("get", "delete"):
        error = program.refused("document", command, "t1", "--collection", "trips")
        assert error["type"] == "NotFoundError"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ([], ["t1", "t2", "t3"]),
        (["--filter", '{"price": {"lt": 150}}', "--order", "price"], ["t2", "t1"]),
        (["--order", "-price"], ["t3", "t1", "t2"]),
        (["--filter", "to=Rome"], ["t2"]),
        (["--filter", '{"price": {"gt": 100}}', "--filter", '{"to": {"ne": "Oslo"}}'], ["t1"]),
        (["--order", "to", "--limit", "1", "--offset", "1"], ["t1"]),
    ],
)
def test_documents_are_found_by_field(program, trips, options: list[str], found) -> None:
    assert [one["key"] for one in program.json("document", "find", "trips", *options)] == found


def test_people_see_keys_and_documents_and_how_to_go_on(program, trips) -> None:
    said = program.ok("document", "find", "trips", "--limit", "2")
    assert '{"to":"Porto","price":120}' in said
    assert "t3" not in said
    assert "--offset 2" in said
    assert "Nothing found for user default in collection default." in program.ok("document", "find")
    assert program.json("document", "find") == []

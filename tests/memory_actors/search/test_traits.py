"""Names of entities in texts, with or without their types."""

import pytest

from memory_actors.search.indexes.traits import spoken


@pytest.mark.parametrize(
    "name",
    ["Cardiff", "Cardiff (city)", "Halden & Moss (company)", "Dr. Okafor", "杭州 (城市)", "GPT 4"],
)
def test_a_name_with_or_without_its_type_is_bare(name: str) -> None:
    assert spoken(name).bare


@pytest.mark.parametrize(
    "text",
    [
        "Ada lives in Cardiff",
        "User enjoys skiing",
        "用户住在杭州",
        "Ada: Cardiff",
        "Who?",
        "One Two Three Four Five",
        "42",
        "",
        "( )",
    ],
)
def test_what_says_anything_is_not_bare(text: str) -> None:
    assert not spoken(text).bare

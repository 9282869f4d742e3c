"""The measurement of the estimate's error."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from bench.report import Options
from bench.tokens import documents, row, run


class Letters:
    """A token a letter."""

    name = "letters"

    def count(self, text: str) -> int:
        return len(text.replace(" ", "").replace("\n", ""))


def test_documents_are_of_about_the_soft_limit() -> None:
    """Documents are of about the soft limit and leave out the rest."""
    lines = ["x" * 400 + "\n"] * 10
    assert [len(text) for text in documents(lines, Letters())] == [4 * 401, 4 * 401]
    assert list(documents(lines[:1], Letters())) == [lines[0]]
    assert list(documents([], Letters())) == []


def test_an_error_is_the_part_that_the_estimate_is_off() -> None:
    found = row("all", ["ab " * 750, "abcd " * 375], Letters())
    assert found[:4] == ("all", 2, 3_000, pytest.approx(3_000 / 1_125))
    assert found[4] == pytest.approx((-35 - 67.466) / 2, abs=0.1)
    assert found[5] == pytest.approx(-67.466, abs=0.1)


def test_tokenizers_have_tables_and_kinds_have_rows(tmp_path) -> None:
    """Each tokenizer has a table and each kind of text a row."""
    path = tmp_path / "tokenizer.json"
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(path))
    said = tmp_path / "mine.json"
    said.write_text('{"users": [{"memories": [{"text": "one two three"}]}]}', "utf-8")
    report = run(None, [said], [path], Options(None, 1, 1))
    names = [one[0] for one in report.tables[0].rows]
    assert names[:3] == ["mine", "Markdown (docs/*)", "Python (memory_actors)"]
    assert {"Chinese", "German", "Spanish", "Arabic", "Hindi", "Japanese"} <= set(names)
    assert all(len(one) == len(report.tables[0].columns) for one in report.tables[0].rows)

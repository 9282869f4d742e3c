"""Where in its session a passage belongs."""

from memory_actors.indexes.ends import Ends, Place
from memory_actors.indexes.lexical import LexicalIndex


class Session:
    """One session of an index, changed as a memory index changes it."""

    def __init__(self) -> None:
        self.words, self.ends = LexicalIndex(), Ends()

    def add(self, label: int) -> None:
        self.words.add(label, f"text {label}", *self.ends.place(label, "s", self.words))

    def drop(self, label: int) -> None:
        self.ends.leave(label, "s", self.words)
        self.words.remove(label)

    def reword(self, gone: int, fresh: int) -> None:
        self.ends.replace(gone, fresh, self.words)
        self.drop(gone)
        self.add(fresh)

    @property
    def order(self) -> list[int]:
        labels = set(self.words.labels())
        at = next(iter(one for one in labels if self.words.previous(one) is None), None)
        order = []
        while at is not None:
            order.append(at)
            at = self.words.following(at)
        assert set(order) == labels, "it is one session"
        return order


def filled() -> Session:
    session = Session()
    for label in (1, 2, 3):
        session.add(label)
    return session


def test_a_reworded_passage_stands_where_it_stood() -> None:
    for gone, order in ((1, [9, 2, 3]), (2, [1, 9, 3]), (3, [1, 2, 9])):
        session = filled()
        session.reword(gone, 9)
        session.add(10)
        assert session.order == [*order, 10]


def test_what_comes_next_follows_what_is_left() -> None:
    session = filled()
    session.drop(3)
    session.add(4)
    assert session.order == [1, 2, 4]
    for label in (1, 2, 4):
        session.drop(label)
    session.add(5)
    session.reword(5, 6)
    session.add(7)
    assert session.order == [6, 7]


def test_what_was_embedded_late_stands_where_it_belongs() -> None:
    session = Session()
    for label in (4, 6, 5, 1, 7):
        session.add(label)
    assert session.order == [1, 4, 5, 6, 7]


def test_what_has_no_session_stands_alone() -> None:
    session = filled()
    assert session.ends.place(9, None, session.words) == Place()

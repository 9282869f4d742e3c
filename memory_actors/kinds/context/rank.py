"""Ranks: texts that sort, with room for another one between any two.

A rank is a fraction: `V` is 31/62, `V01` a little more. Ranks compare as bytes, as the digits do.
No rank ends in the lowest digit, so there is always one below it too.

Which of the many ranks between two is taken decides how long ranks get. Digits are used three at a
time, a level. At the end of all, and at the start of all, the next number of the first level is
taken. In between, levels take turns: the second takes numbers from its low end, the third from its
high end, and so on. A run of insertions at the end of a section, or at its start, uses up 238,327
numbers of one level before ranks grow by three characters. If each insertion halved the gap, ranks
would grow by a character every six insertions.
"""

from itertools import count

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
LEVEL_DIGITS = 3
RANK_CHARACTERS_MAX = 512  # more than any run of insertions leads to: a bound for imports
FIRST = "V"  # the middle: as much room before as behind
_VALUES = {digit: value for value, digit in enumerate(DIGITS)}


def between(before: str | None, after: str | None) -> str:
    """Return a rank greater than `before` and less than `after`; None is no bound.

    :raises ValueError: they are not in order, or one is no rank.
    """
    for rank in (before, after):
        if rank is not None and not is_rank(rank):
            raise ValueError(f"{rank!r:.80} is no rank")
    if before is None and after is None:
        return FIRST
    if before is not None and after is not None and before >= after:
        raise ValueError(f"rank {before!r} does not come before {after!r}")
    return next(filter(None, (_at_level(before, after, level) for level in count(1))))


def is_rank(text: str) -> bool:
    """Say whether a text is a rank."""
    return bool(text) and text[-1] != DIGITS[0] and all(digit in _VALUES for digit in text)


def _at_level(before: str | None, after: str | None, level: int) -> str | None:
    """Return a rank of at most so many levels between two, None if there is none."""
    digits = level * LEVEL_DIGITS
    low = _number(before or "", digits) + 1
    high = len(DIGITS) ** digits if after is None else _number(after, digits)
    if after is None or len(after) <= digits:
        high -= 1  # where it has more digits, its first ones alone are less than it
    if low > high:
        return None
    from_the_end = before is None or (after is not None and level % 2 == 1)
    return _rank(high if from_the_end else low, digits)


def _number(rank: str, digits: int) -> int:
    number = 0
    for digit in rank[:digits].ljust(digits, DIGITS[0]):
        number = number * len(DIGITS) + _VALUES[digit]
    return number


def _rank(number: int, digits: int) -> str:
    text = ""
    for _ in range(digits):
        number, digit = divmod(number, len(DIGITS))
        text = DIGITS[digit] + text
    return text.rstrip(DIGITS[0])

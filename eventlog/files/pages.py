"""The pages of an LMDB file, checked before LMDB sees them.

LMDB trusts its tree. An offset that leads out of a page, a length that leads beyond the end of the
file or a page of another kind than it expects end the process, so this file checks first:

- from the newest meta page, every page that can be reached is in the file, says that it is that
  page, is of the kind that its depth asks for, and is reached once;
- in a page, the table of offsets and every node, key and value lie within the page, and a value
  with pages of its own has as many as it needs;
- what the list of free pages names cannot be reached.

A file may be shorter than its meta page says and still be whole: free pages at its end have never
been written. The content of keys and values is for the CRCs. C (eventlog/core/pages.c) checks all
of this in one pass. If it finds damage, or is not compiled, the checks below name the damage: they
look at pages of one depth together, as arrays, in 1 to 3 microseconds a page.

Layout: mdb.c of LMDB 0.9 (data version 1), in this machine's byte order.

    page   number u64 | - u16 | flags u16 | lower u16, upper u16 (or: how many pages u32) | offsets
    node   low u16 | high u16 | flags u16 | key bytes u16 | key | value
           (low, high: bytes of the value; in a branch, with flags: the page of the child)
    tree   - u32 | flags u16 | depth u16 | branches, leaves, overflows, rows u64 | root u64
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from eventlog.core.compiled import INT, LOG_LIBRARY, LONG, POINTER
from eventlog.core.errors import CorruptLog, LogUnavailable
from eventlog.files.datafile import advice, opened

CHECKED_BYTES_MAX = 1 << 30  # of a file whose pages are checked at its opening, in 0.1 to 0.5 s
PAGE_BYTES = tuple(1 << shift for shift in range(9, 17))  # that LMDB knows
STATED_BYTES_MAX = 1 << 40  # the address space that a file is given
META_PAGES = 2
BRANCH, LEAF, OVERFLOW = 0x01, 0x02, 0x04
BIG_VALUE, SUB_TREE = 0x01, 0x02
DEPTH_MAX = 32  # LMDB's own limit
EMPTY = 2**64 - 1
PAGES_AT_ONCE = 512  # some MiB of arrays

Bytes: TypeAlias = npt.NDArray[np.uint8]
Numbers: TypeAlias = npt.NDArray[np.uint32]
_Numbers: TypeAlias = npt.NDArray[np.int64]
_Where: TypeAlias = npt.NDArray[np.bool_]

_HOLD = POINTER, LONG, LONG, LONG, LONG, POINTER
_COPY = POINTER, LONG, LONG, POINTER, LONG, POINTER, LONG, LONG, LONG, POINTER
_HEAD_BYTES, _NODE_BYTES, _NUMBER_BYTES = 16, 8, 8
_FLAGS_AT, _LOWER_AT, _UPPER_AT, _OFFSETS_AT = 5, 6, 7, 8  # in a page, in units of two bytes
_COUNT_AT = 3  # in a page, in units of four bytes
_META_MAGIC = 0xBEEFC0DE
_PAGE_HEADER = struct.Struct("=QHHHH")
_META = struct.Struct("=IIQQ I36x8x 48x QQ")  # magic version addr mapsize psize … last_pgno txnid
_META_FLAG = 0x08
_TREE = struct.Struct("=IHHQQQQQ")
_TREES_AT = _HEAD_BYTES + 24  # in a meta page: magic, version, address and size of the map before


class Meta(NamedTuple):
    """The content of a meta page."""

    page: int
    page_bytes: int
    last_page: int

    @property
    def stated_bytes(self) -> int:
        """The length of the file by its meta page."""
        return (self.last_page + 1) * self.page_bytes


class _Tree(NamedTuple):
    depth: int
    root: int


class _Nodes(NamedTuple):
    """Nodes of many pages, one in each place of the arrays."""

    page: _Numbers
    low: _Numbers
    """Its bytes 0 to 3: how long the value is, or a part of the child's number."""
    flags: _Numbers
    value_at: _Numbers
    """In the page."""

    def where(self, chosen: _Where) -> "_Nodes":
        return _Nodes(*(each[chosen] for each in self))


def check_file(path: Path, checked_bytes_max: int = CHECKED_BYTES_MAX) -> None:
    """Check the pages of a file that is no larger, or shorter than its newest meta page says.

    :raises CorruptLog: it has no readable meta page, or lacks a page, or has one that would end the
        process that follows it.
    """
    try:
        with opened(path) as file:
            head = file.read(2 * 65536)  # two meta pages of the largest page size LMDB knows
            size = file.seek(0, os.SEEK_END)
    except FileNotFoundError:
        return
    except OSError as error:
        raise LogUnavailable(f"cannot open {path}: {error.strerror}{advice(error)}") from error
    if size == 0:
        return  # created and killed before LMDB wrote its meta pages: nothing was acknowledged
    meta = _newest(path, head)
    if size <= checked_bytes_max or size < meta.stated_bytes:
        data = np.asarray(np.memmap(path, np.uint8, "r"))
        try:
            if not _hold(data, meta):
                _check_pages(data, meta)
        except CorruptLog as error:
            raise CorruptLog(f"{path}: {error}") from error


def copy_values(
    value: bytes, page_bytes: int, transaction: int, table: str, numbers: Numbers, begin: int,
    into: npt.NDArray[np.int8],
) -> bool:  # fmt: skip
    """Copy a part of the value of each key into a row of `into`; return False if one is missing.

    The part starts at `begin`; `into` is [n, bytes]. `numbers` are the keys, sorted, without
    duplicates. `value` is a view of any value of the table, in the mapped file, and `transaction`
    the number of the read transaction that is open. LMDB takes five times as long, one by one.
    """
    if not LOG_LIBRARY.instruction_set:
        return False
    return bool(
        LOG_LIBRARY.function("copy_values", *_COPY, result=INT)(
            np.frombuffer(value, np.uint8).ctypes.data, page_bytes, transaction, table.encode(),
            len(table), numbers.ctypes.data, len(numbers), begin, into.shape[1], into.ctypes.data,
        )
    )  # fmt: skip


def pad(path: Path) -> None:
    """Make a copy that is cut short as long as it says it is, with zeros, so that it can be mapped.

    :raises CorruptLog: it has no readable meta page.
    """
    with opened(path, os.O_RDWR) as file:
        meta = _newest(path, file.read(2 * 65536))
        file.truncate(max(meta.stated_bytes, file.seek(0, os.SEEK_END)))


def _newest(path: Path, head: bytes) -> Meta:
    metas = list(_metas(head))
    if not metas:
        raise CorruptLog(f"{path} has no readable meta page: restore a backup")
    newest = max(metas)[1]
    if newest.stated_bytes > STATED_BYTES_MAX:
        raise CorruptLog(f"{path} has a meta page that cannot be true: restore a backup")
    return newest


def _metas(head: bytes) -> Iterator[tuple[int, Meta]]:
    """Yield each readable meta page, with the number of its transaction."""
    for at in (0, *PAGE_BYTES):
        if len(head) < at + _PAGE_HEADER.size + _META.size:
            return
        flags = _PAGE_HEADER.unpack_from(head, at)[2]
        magic, _, _, _, page_bytes, last_page, txn_id = _META.unpack_from(
            head, at + _PAGE_HEADER.size
        )
        whole = magic == _META_MAGIC and flags & _META_FLAG and page_bytes in PAGE_BYTES
        if whole and at in (0, page_bytes):
            yield txn_id, Meta(at and 1, page_bytes, last_page)


def _hold(data: Bytes, meta: Meta) -> bool:
    """Return True if C finds no damage; it takes half a microsecond a page."""
    if not LOG_LIBRARY.instruction_set:
        return False
    used, there = np.zeros(meta.last_page + 1, np.bool_), len(data) // meta.page_bytes
    return bool(
        LOG_LIBRARY.function("pages_hold", *_HOLD, result=INT)(
            data.ctypes.data, meta.page_bytes, there, meta.last_page, meta.page, used.ctypes.data
        )
    )


def _check_pages(data: Bytes, meta: Meta) -> None:
    at = meta.page * meta.page_bytes + _TREES_AT
    free, main = (_tree(data, at + n * _TREE.size) for n in range(2))
    pages = _FilePages(data, meta)
    for tree in pages.check_tree(main, is_main=True):
        pages.check_tree(tree)
    pages.check_free(free)


def _tree(data: Bytes, at: int) -> _Tree:
    fields = _TREE.unpack(data[at : at + _TREE.size].tobytes())
    return _Tree(fields[2], fields[7])


def _chunks(pages: _Numbers) -> Iterator[_Numbers]:
    for start in range(0, len(pages), PAGES_AT_ONCE):
        yield pages[start : start + PAGES_AT_ONCE]


def _stretches(starts: _Numbers, counts: _Numbers) -> _Numbers:
    """Return ranges of consecutive numbers: so many from each start, one range after another."""
    before = np.cumsum(counts) - counts
    stretches: _Numbers = np.arange(int(counts.sum())) + np.repeat(starts - before, counts)
    return stretches


class _FilePages:
    def __init__(self, data: Bytes, meta: Meta):
        self._bytes = meta.page_bytes
        self._there = len(data) // meta.page_bytes
        self._last = meta.last_page
        self._data = data[: self._there * self._bytes]
        self._twos = self._data.view(np.uint16)
        self._fours = self._data.view(np.uint32)
        self._eights = self._data.view(np.int64)
        self._reached = np.zeros(meta.last_page + 1, np.bool_)
        self._values: list[tuple[int, int]] = []
        """Place and length of each value: of the main tree and of the free list."""

    def check_tree(self, tree: _Tree, *, is_main: bool = False) -> list[_Tree]:
        """Check a tree; return those that are in it, if it is the main one."""
        self._check_tree(tree, SUB_TREE if is_main else 0, note=is_main)
        return [_tree(self._data, at) for at, _ in self._values] if is_main else []

    def check_free(self, tree: _Tree) -> None:
        self._check_tree(tree, 0, note=True)
        for at, size in self._values:
            numbers = self._data[at : at + size - size % _NUMBER_BYTES].copy().view(np.int64)
            if not len(numbers) or not 0 <= numbers[0] < len(numbers):
                self._damaged(at // self._bytes, "the list of free pages has no end")
            free = numbers[1 : numbers[0] + 1]
            self._use(free, np.ones_like(free))

    def _check_tree(self, tree: _Tree, kind: int, *, note: bool) -> None:
        """Check a tree with nodes of a kind; note where its values are, if asked to."""
        self._values = []
        if tree.root == EMPTY:
            return
        if not 0 < tree.depth <= DEPTH_MAX or tree.root > self._last:
            self._damaged(tree.root, f"a tree of depth {tree.depth} begins there")
        level = np.array([tree.root], np.int64)
        for _ in range(tree.depth - 1):
            branches = (self._nodes(pages, BRANCH) for pages in _chunks(level))
            level = np.concatenate([nodes.low | nodes.flags << 32 for nodes in branches])
        for pages in _chunks(level):
            self._check_leaves(pages, kind, note=note)

    def _check_leaves(self, pages: _Numbers, kind: int, *, note: bool) -> None:
        nodes = self._nodes(pages, LEAF)
        is_big = nodes.flags == BIG_VALUE
        big, small = nodes.where(is_big), nodes.where(~is_big)
        self._refuse(small.page, small.flags != kind, "a node is of another kind")
        size = np.full_like(small.low, _TREE.size) if kind == SUB_TREE else small.low
        self._refuse(small.page, small.low != size, "a tree takes another number of bytes")
        self._refuse(small.page, small.value_at + size > self._bytes, "a value leads out of it")
        starts = self._check_big(big)
        if note:
            self._note(small.page * self._bytes + small.value_at, small.low)
            self._note(starts * self._bytes + _HEAD_BYTES, big.low)

    def _note(self, at: _Numbers, size: _Numbers) -> None:
        self._values += zip(at.tolist(), size.tolist(), strict=True)

    def _nodes(self, pages: _Numbers, kind: int) -> _Nodes:
        """Check pages of a kind; return their nodes, of which each begins and has a key in them."""
        page, offset = self._offsets(pages, kind)
        at = (page * self._bytes + offset) // 2
        low, high, flags, key_bytes = (self._twos[at + n].astype(np.int64) for n in range(4))
        value_at = offset + _NODE_BYTES + key_bytes
        self._refuse(page, value_at > self._bytes, "a key leads out of it")
        return _Nodes(page, low | high << 16, flags, value_at)

    def _offsets(self, pages: _Numbers, kind: int) -> tuple[_Numbers, _Numbers]:
        self._reach(pages, np.ones_like(pages))
        self._check_kind(pages, kind)
        at = pages * self._bytes // 2
        lower = self._twos[at + _LOWER_AT].astype(np.int64)
        upper = self._twos[at + _UPPER_AT].astype(np.int64)
        fits = (lower > _HEAD_BYTES) & (lower % 2 == 0) & (lower <= upper) & (upper <= self._bytes)
        self._refuse(pages, ~fits, "its offsets do not fit")
        counts = (lower - _HEAD_BYTES) // 2
        page = np.repeat(pages, counts)
        offset = self._twos[_stretches(at + _OFFSETS_AT, counts)].astype(np.int64)
        out = (offset < np.repeat(upper, counts)) | (offset > self._bytes - _NODE_BYTES)
        self._refuse(page, out | (offset % 2 == 1), "an offset leads out of it")
        return page, offset

    def _check_kind(self, pages: _Numbers, kind: int) -> None:
        number = self._eights[pages * self._bytes // 8]
        flags = self._twos[pages * self._bytes // 2 + _FLAGS_AT]
        wrong = (number != pages) | (flags != kind)
        self._refuse(pages, wrong, "it says that it is another page, or of another kind")

    def _check_big(self, nodes: _Nodes) -> _Numbers:
        """Check values that have pages of their own; return the first one of each."""
        outside = nodes.value_at + _NUMBER_BYTES > self._bytes
        self._refuse(nodes.page, outside, "a value leads out of it")
        at = nodes.page * self._bytes + nodes.value_at
        read = self._data[at[:, None] + np.arange(_NUMBER_BYTES)]
        first: _Numbers = read.view(np.int64)[:, 0]
        self._check_there(first, np.ones_like(first))
        self._check_kind(first, OVERFLOW)
        counts = self._fours[first * self._bytes // 4 + _COUNT_AT].astype(np.int64)
        too_long = nodes.low > counts * self._bytes - _HEAD_BYTES
        self._refuse(first, too_long, "a value is longer than its pages")
        self._reach(first, counts)
        return first

    def _reach(self, first: _Numbers, counts: _Numbers) -> None:
        """Note that so many pages from each one on are read: in the file, and once."""
        self._check_there(first, counts)
        self._use(first, counts)

    def _check_there(self, first: _Numbers, counts: _Numbers) -> None:
        cut = first > self._there - counts
        self._refuse(first, (first < META_PAGES) | cut, "it is not there: the file is cut short")

    def _use(self, first: _Numbers, counts: _Numbers) -> None:
        """Check that these runs of pages are in the file, and that no page is used twice."""
        outside = (first < META_PAGES) | (first > self._last + 1 - counts)
        self._refuse(first, outside, "there is no such page")
        if counts.sum() > len(self._reached):
            self._damaged(int(first[counts.argmax()]), "some of its pages are used twice")
        pages = np.sort(_stretches(first, counts))
        twice = self._reached[pages]
        twice[1:] |= pages[1:] == pages[:-1]
        self._refuse(pages, twice, "it is used twice")
        self._reached[pages] = True

    def _refuse(self, pages: _Numbers, wrong: _Where, why: str) -> None:
        if wrong.any():
            self._damaged(int(pages[wrong.argmax()]), why)

    def _damaged(self, page: int, why: str) -> NoReturn:
        raise CorruptLog(f"page {page} of the file is damaged: {why}: restore a backup")

"""The pages of an LMDB file, checked before LMDB sees them.

LMDB trusts its tree. An offset that leads out of a page, a length that leads beyond the end of the
file or a page of another kind than it expects end the process: by SIGBUS, by SIGSEGV or by an
assertion. Nothing can be caught then, so what LMDB takes for granted is looked at here first:

- from the newest meta page, every page that can be reached is in the file, says that it is that
  page, is of the kind that its depth asks for, and is reached once;
- in a page, the table of offsets and every node, key and value lie within the page, and a value
  with pages of its own has as many as it needs;
- what the list of free pages names cannot be reached.

A file may be shorter than its meta page says and still be whole: pages at the end that were taken
and given back within one transaction have never been written. They are free, and nobody reads them.

The check costs some 30 microseconds a page. What keys and values say is no part of it: that is for
the CRCs. Layout: mdb.c of LMDB 0.9 (data version 1), in this machine's byte order.

    page   number u64 | - u16 | flags u16 | lower u16, upper u16 (or: how many pages u32) | offsets
    node   low u16 | high u16 | flags u16 | key bytes u16 | key | value
           (low, high: bytes of the value; in a branch, with flags: the page of the child)
    tree   - u32 | flags u16 | depth u16 | branches, leaves, overflows, rows u64 | root u64
"""

import mmap
import struct
from typing import NamedTuple, NoReturn

from eventlog.errors import CorruptLog

META_PAGES = 2
BRANCH, LEAF, OVERFLOW = 0x01, 0x02, 0x04
BIG_VALUE, SUB_TREE = 0x01, 0x02
DEPTH_MAX = 32  # LMDB's own limit
EMPTY = 2**64 - 1

_PAGE = struct.Struct("=QHHHH")
_PAGES = struct.Struct("=I")
_NODE = struct.Struct("=HHHH")
_NUMBER = struct.Struct("=Q")
_TREE = struct.Struct("=IHHQQQQQ")
_TREES_AT = _PAGE.size + 24  # in a meta page: magic, version, address and size of the map before
_NUMBERS = struct.Struct("=QQ")


class Meta(NamedTuple):
    """What a meta page says."""

    page: int
    page_bytes: int
    last_page: int

    @property
    def stated_bytes(self) -> int:
        """How long the file is by what it says."""
        return (self.last_page + 1) * self.page_bytes


class _Tree(NamedTuple):
    depth: int
    root: int


def check_pages(data: mmap.mmap, meta: Meta) -> None:
    """Check all of a file that LMDB would walk through, from one of its meta pages.

    :raises CorruptLog: something is not as LMDB takes it to be.
    """
    at = meta.page * meta.page_bytes + _TREES_AT
    free, main = (_tree(data, at + n * _TREE.size) for n in range(2))
    pages = _Pages(data, meta)
    for tree in pages.check_tree(main, is_main=True):
        pages.check_tree(tree)
    pages.check_free(free)


def _tree(data: mmap.mmap, at: int) -> _Tree:
    fields = _TREE.unpack_from(data, at)
    return _Tree(fields[2], fields[7])


class _Pages:
    """The pages of one file, and which of them have been reached."""

    def __init__(self, data: mmap.mmap, meta: Meta):
        self._data = data
        self._bytes = meta.page_bytes
        self._there = len(data) // meta.page_bytes
        self._last = meta.last_page
        self._reached = bytearray(meta.last_page + 1)
        self._trees: list[_Tree] = []
        self._values: list[tuple[int, int]] = []

    def check_tree(self, tree: _Tree, *, is_main: bool = False) -> list[_Tree]:
        """Check a tree; return those that are in it, if it is the main one."""
        self._trees, self._values = [], []
        if tree.root == EMPTY:
            return []
        if not 0 < tree.depth <= DEPTH_MAX:
            self._damaged(tree.root, f"a tree is {tree.depth} deep")
        self._check(tree.root, tree.depth, is_main=is_main)
        return self._trees

    def check_free(self, tree: _Tree) -> None:
        """Check the list of free pages, after all trees."""
        self.check_tree(tree)
        for at, size in self._values:
            count = _NUMBER.unpack_from(self._data, at)[0] if size >= _NUMBER.size else EMPTY
            if (count + 1) * _NUMBER.size > size:
                self._damaged(at // self._bytes, "the list of free pages has no end")
            for (page,) in _NUMBER.iter_unpack(
                self._data[at + _NUMBER.size : at + (count + 1) * _NUMBER.size]
            ):
                self._use(page, 1)

    def _check(self, page: int, depth: int, *, is_main: bool) -> None:
        self._reach(page, 1)
        base = page * self._bytes
        number, _, flags, lower, upper = _PAGE.unpack_from(self._data, base)
        if number != page or flags != (LEAF if depth == 1 else BRANCH):
            self._damaged(page, f"it says that it is page {number} of kind {flags}")
        if not _PAGE.size < lower <= upper <= self._bytes:
            self._damaged(page, "its offsets do not fit")
        for (offset,) in struct.iter_unpack("=H", self._data[base + _PAGE.size : base + lower]):
            if not upper <= offset <= self._bytes - _NODE.size:
                self._damaged(page, "an offset leads out of it")
            self._check_node(page, offset, depth, is_main=is_main)

    def _check_node(self, page: int, offset: int, depth: int, *, is_main: bool) -> None:
        """Check a node and what it leads to."""
        base = page * self._bytes
        low, high, flags, key_bytes = _NODE.unpack_from(self._data, base + offset)
        value_at = offset + _NODE.size + key_bytes
        if value_at > self._bytes:
            self._damaged(page, "a key leads out of it")
        if depth > 1:
            self._check(low | high << 16 | flags << 32, depth - 1, is_main=is_main)
        elif flags == BIG_VALUE:
            self._check_big(page, value_at, low | high << 16)
        else:
            self._check_value(page, value_at, low | high << 16, flags, is_main=is_main)

    def _check_big(self, page: int, at: int, size: int) -> None:
        """Check a value that has pages of its own."""
        if at + _NUMBER.size > self._bytes:
            self._damaged(page, "a value leads out of it")
        first: int = _NUMBER.unpack_from(self._data, page * self._bytes + at)[0]
        self._reach(first, 1)
        base = first * self._bytes
        number, _, flags, _, _ = _PAGE.unpack_from(self._data, base)
        count = _PAGES.unpack_from(self._data, base + _PAGE.size - _PAGES.size)[0]
        if number != first or flags != OVERFLOW:
            self._damaged(first, f"it says that it is page {number} of kind {flags}")
        if size > count * self._bytes - _PAGE.size:
            self._damaged(first, "a value is longer than its pages")
        self._reach(first + 1, count - 1)
        self._values.append((base + _PAGE.size, size))

    def _check_value(self, page: int, at: int, size: int, flags: int, *, is_main: bool) -> None:
        if at + size > self._bytes:
            self._damaged(page, "a value leads out of it")
        if flags != (SUB_TREE if is_main else 0):
            self._damaged(page, f"a node is of kind {flags}")
        if is_main and size != _TREE.size:
            self._damaged(page, f"a tree takes {size} bytes")
        if is_main:
            self._trees.append(_tree(self._data, page * self._bytes + at))
        else:
            self._values.append((page * self._bytes + at, size))

    def _reach(self, page: int, count: int) -> None:
        """Note that pages are read; each is in the file, and is read once."""
        if page + count > self._there:
            self._damaged(page, "it is not there: the file is cut short")
        self._use(page, count)

    def _use(self, page: int, count: int) -> None:
        """Note that pages have a use, each of them one."""
        if not META_PAGES <= page <= page + count <= self._last + 1:
            self._damaged(page, "there is no such page")
        if any(self._reached[page : page + count]):
            self._damaged(page, "it is used twice")
        self._reached[page : page + count] = b"\1" * count

    def _damaged(self, page: int, why: str) -> NoReturn:
        raise CorruptLog(f"page {page} of the file is damaged: {why}: restore a backup")

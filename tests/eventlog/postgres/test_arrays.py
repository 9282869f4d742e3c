"""The rows of a batch: what is packed by one struct is what is packed field by field."""

SID, KEY, CHAIN = b"s" * 16, b"k" * 16, b"c" * 32


def test_the_rows_that_every_batch_has_are_packed_as_all_others():
    from eventlog.postgres.arrays import BatchRows
    from eventlog.postgres.plan import Believed

    rows = BatchRows()
    rows.put_event(3, SID, 7, b"header", b"and payload")
    rows.put_key(3, SID, KEY, 7)
    was = Believed(1, 2, 0, CHAIN, erased_version=3)
    rows.put_stream(SID, b"name", was, Believed(4, 5, 6, CHAIN), -7)

    assert rows.events == [rows.row(3, SID, 7, b"header", b"and payload")]
    assert rows.keys == [rows.row(3, SID, KEY, 7)]
    assert rows.streams == [rows.row(SID, 1, 2, 3, CHAIN, 4, 5, 6, CHAIN, -7, b"name")]

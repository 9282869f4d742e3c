"""The names of a user's streams in the log."""

STREAM_PREFIX = "user:"
RECALL_PREFIX = "recall:"


def stream_of(user_id: str) -> str:
    """Return the name of a user's stream."""
    return STREAM_PREFIX + user_id


def user_of(stream: str) -> str:
    """Return whose stream it is."""
    return stream.removeprefix(STREAM_PREFIX)


def recall_stream_of(user_id: str) -> str:
    """Return the name of the stream that says what was returned to whom of a user's memory."""
    return RECALL_PREFIX + stream_of(user_id)

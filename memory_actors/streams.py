"""The name of a user's stream in the log."""

STREAM_PREFIX = "user:"


def stream_of(user_id: str) -> str:
    """Return the name of a user's stream."""
    return STREAM_PREFIX + user_id


def user_of(stream: str) -> str:
    """Return whose stream it is."""
    return stream.removeprefix(STREAM_PREFIX)

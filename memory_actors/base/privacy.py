"""Privacy in logs, and in whatever else leaves the process.

Never content, and no id but a hash of it. The message of an exception may quote either, so a log
line has its type and where it came from; the caller gets the exception itself.
"""

import hashlib
import traceback
from pathlib import Path


def hashed(user_id: str) -> str:
    """Return the first 12 hex digits of the SHA-256 of a user's id.

    The same user has the same one everywhere, so log lines can be joined. It is a pseudonym: who
    has a list of ids can find the one it belongs to.
    """
    return hashlib.sha256(user_id.encode(errors="surrogatepass")).hexdigest()[:12]


def reason(error: BaseException) -> str:
    """Return the loggable part of an exception: its type, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    cause = f" from {type(error.__cause__).__name__}" if error.__cause__ is not None else ""
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{cause}{place}"

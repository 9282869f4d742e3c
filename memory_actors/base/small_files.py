"""Reading a small file with the standard library alone: a hook of a coding agent loads no more."""

import errno
import os
import stat


def read_small(path: str, bytes_max: int) -> bytes:
    """Return the first bytes of a regular file. Never waits for a pipe.

    :raises OSError: there is none, it cannot be read, or it is no regular file.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file: move it away", path)
        return file.read(bytes_max)

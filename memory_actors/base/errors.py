"""Errors of the memory. Each message says what to do next.

Split by what the caller does next: change the input, make room, look elsewhere, or try again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eventlog import LogBusy, WrongLoop


class MemoryActorsError(Exception):
    """Root of every error this package raises on purpose."""


class InvalidInputError(MemoryActorsError, ValueError):
    """The request can never succeed as it is: change the input."""


class SensitiveTextError(InvalidInputError):
    """A text holds what this store refuses: leave it out. The message has its label only."""

    def __init__(self, label: str):
        super().__init__(
            f"the text holds {label}, which this store refuses (Settings.redact): leave it out"
        )
        self.label = label


class NotFoundError(MemoryActorsError, LookupError):
    """No such memory, key or session: it was never there, or it has gone."""


class ForgottenError(InvalidInputError):
    """The text, or a part of it, was forgotten: leave it out, or let it in with `unforget`."""


class ReadOnlyError(MemoryActorsError):
    """A past self takes no writes: write to `memory.user(...)`."""


class QuotaExceededError(MemoryActorsError):
    """A limit of this user would be passed: the message says what makes room, if anything does."""

    def __init__(self, message: str, *, kind: str, used: int, limit: int, unit: str, tier: str):
        super().__init__(message)
        self.kind = kind
        self.used = used
        self.limit = limit
        self.unit = unit
        self.tier = tier


class GlobalQuotaExceededError(QuotaExceededError):
    """A limit over all users would be passed: delete memories, or raise the limit."""


class ContextLimitError(QuotaExceededError):
    """A context document would pass its hard limit: archive entries of it, or remove some."""


class HeldError(MemoryActorsError):
    """The user is under a legal hold: release it first, or say `despite_hold`."""


class StaleDocumentError(MemoryActorsError):
    """A context document is not what the caller saw: read it again, then decide anew."""


class EmbedderError(MemoryActorsError):
    """The embedding model is missing or failed: see the message, then try again."""


class ModelMismatchError(EmbedderError):
    """The store was indexed with another model: reindex, or open it with that model."""


class ModelInstallError(EmbedderError):
    """The model could not be fetched or built: the message says what to run next."""


class WrongVectorsError(EmbedderError):
    """The embedder answered, with what no index can hold: asking again would not help."""


class EmbeddingNeededError(EmbedderError):
    """A text has to be compared with forgotten ones by its embedding: embed it, and ask again."""


class EmbedderClosedError(EmbedderError):
    """A request came too late: nothing has failed."""


class RerankerError(MemoryActorsError):
    """The reranker failed, which a search survives: the message says what to change."""


class LLMError(MemoryActorsError):
    """A language model gave no answer that can be used: see the message for what to change."""


class EmptyAnswerError(LLMError):
    """A model answered with no text."""


class ImprovementError(MemoryActorsError):
    """A run of `improve` failed: `__cause__` says how, `result` has what was reached."""

    def __init__(self, message: str, *, result: Any):
        super().__init__(message)
        self.result = result


class SummarizerError(MemoryActorsError):
    """There is no summary of a cluster: its originals stay; it is tried again with the next run."""


class ExtractorError(MemoryActorsError):
    """The extractor proposed nothing that can be used: its messages are new still; ask again."""


class UnusableProposalsError(ExtractorError):
    """The extractor answered, with what is no proposals: asking the same again would not help."""


class UnavailableError(MemoryActorsError):
    """The work could not be taken on now: try again later."""


class MovedError(UnavailableError):
    """Another process has this user's memory, or may have it: ask again, and it is asked there."""

    def __init__(self, message: str, *, address: str | None = None):
        super().__init__(message)
        self.address = address
        """Address of the process that has it, if known."""


class DeadlineExceededError(UnavailableError, TimeoutError):
    """No answer within the deadline. The command may still be carried out."""


class QuarantinedError(UnavailableError):
    """This user's actor keeps failing and takes no writes; reads and export still work."""


class BeingErasedError(UnavailableError):
    """This user's memory, or a fact of it, is being erased: try again when that is done."""


class SystemClosedError(UnavailableError):
    """The memory system is closed or closing: open it again."""


class WrongLoopError(MemoryActorsError, WrongLoop):
    """The memory system was opened on another event loop: call it there, or open it here."""


class NotOpenError(MemoryActorsError, AttributeError):
    """The result of `MemorySystem.open` is used before it is open: see the message for the fix."""


class CommandCrashedError(MemoryActorsError):
    """A decision raised an unexpected error, a bug: report it. Nothing was written."""


class StateDivergedError(AssertionError):
    """A live state is not what a replay of its stream gives: a bug in an evolve."""


class StoreBusyError(UnavailableError, LogBusy):
    """The store cannot be read at this moment, after a write that failed: try again."""


class StorageFullError(UnavailableError):
    """The disk, or the limit set for the store, is full: make room, then try again."""


class MemoryLimitError(MemoryActorsError, MemoryError):
    """The process holds more memory than it was allowed: let some go, or raise the limit."""

    def __init__(self, message: str, *, used_bytes: int, limit_bytes: int, result: Any = None):
        super().__init__(message)
        self.used_bytes = used_bytes
        self.limit_bytes = limit_bytes
        self.result = result
        """Of `improve`: what was reached; otherwise None."""


class ReaderFailedError(MemoryActorsError):
    """The process that was to read a closed store failed: nothing is known of the store."""


class MissingExtraError(MemoryActorsError, ImportError):
    """An optional package is not installed: the message names the extra that brings it."""


@contextmanager
def importing(needs: str, extra: str) -> Iterator[None]:
    """Import packages of an extra inside the block; `needs` says what needs which package.

    :raises MissingExtraError: one is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(
            f"{needs.format(error.name)}: run `pip install 'memory-actors[{extra}]'`"
        ) from error


class ContextFileError(MemoryActorsError):
    """A file cannot be synchronised with a document as it is: the message says what to change."""


class AccessDeniedError(MemoryActorsError):
    """The server does not take this key, or the caller has no grant: see the message."""


class NotOfferedError(MemoryActorsError, NotImplementedError):
    """A server over HTTP does not carry this out: ask a process that opens the store."""

    def __init__(self, operation: str, what: str | None = None):
        super().__init__(
            f"the server does not offer {what or operation} over HTTP: do it where the store is, "
            "with MemorySystem.open(directory)"
        )
        self.operation = operation


class KeyFileError(MemoryActorsError):
    """The file of API keys cannot be read or written: the message says which and why."""


class AlertNotDeliveredError(MemoryActorsError):
    """A sink gave an alert up: see the message for what the other side said."""

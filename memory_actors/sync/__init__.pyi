# ruff: noqa
"""Made by scripts/sync_stub.py from the async API: do not edit."""

from pathlib import Path
from memory_actors.search.embedding.protocol import Embedder
from memory_actors.compaction.summarizers import Summarizer
from memory_actors.search.superseding import Supersedes
from memory_actors.search.superseding import Superseding
from memory_actors.extraction.protocol import Extractor
from memory_actors.extraction.protocol import Extract
from memory_actors.search.reranking import Reranker
from collections.abc import Callable
from memory_actors.base.settings import Settings
from collections.abc import Sequence
from memory_actors.observing.alerts import AlertSink
from memory_actors.observing.metrics import Metrics
from memory_actors.base.settings import Encrypt
from memory_actors.base.reports import EraseReceipt
from memory_actors.base.records import Trust
from eventlog import Progress
from memory_actors.base.reports import PurgeReport
from memory_actors.base.reports import ModelSwitch
from eventlog import Copied
from eventlog import Heads
from eventlog import VerifyReport
from memory_actors.base.records import AsOf
from eventlog import OnDropped
from memory_actors.base.reports import Diff
from memory_actors.base.records import Time
from collections.abc import Iterator
from memory_actors.base.reports import LogEntry
from memory_actors.base.reports import Recall
from datetime import timedelta
from memory_actors.base.reports import CompactionProgress
import asyncio
from memory_actors.base.reports import CompactionReport
from memory_actors.base.reports import CompactionStats
from memory_actors.base.statistics import SystemUsage
from memory_actors.base.statistics import SystemStatistics
from typing import Self
from memory_actors.base.records import Metadata
from memory_actors.base.records import Receipt
from typing import Any
from memory_actors.base.records import JsonObject
from memory_actors.base.records import Memory
from memory_actors.base.records import Entity
from memory_actors.base.records import Direction
from memory_actors.base.records import Relationship
from memory_actors.base.records import Neighbour
from collections.abc import Mapping
from memory_actors.base.records import Document
from memory_actors.base.records import MemoryType
from memory_actors.base.records import Order
from memory_actors.base.weights import Weights
from memory_actors.base.records import Hits
from memory_actors.base.records import HistoryEntry
from memory_actors.base.reports import Extraction
from memory_actors.base.reports import Why
from memory_actors.base.records import Right
from memory_actors.base.statistics import Usage
from memory_actors.base.statistics import CostEstimate
from memory_actors.base.reports import Purged
from memory_actors.base.reports import Forgotten
from memory_actors.base.reports import ForgottenFact
from memory_actors.base.reports import Hold
from memory_actors.base.reports import Retained
from memory_actors.base.records import OnDuplicate
from memory_actors.base.records import Item
from memory_actors.base.reports import Undone
from memory_actors.base.records import Tier
from memory_actors.base.records import Episode
from memory_actors.base.context_documents import ContextReceipt
from memory_actors.base.context_documents import BlockChange
from memory_actors.base.context_documents import ContextEntry
from memory_actors.base.context_documents import ContextHit
from memory_actors.base.context_documents import ContextSize
from memory_actors.base.context_documents import DocumentBlock
from memory_actors.base.reports import Context as Prompt
from memory_actors.base.context_documents import DocumentInfo
from memory_actors.base.reports import Moment
from memory_actors.sync.blocking import on_loop as on_loop

class MemorySystem:
    @classmethod
    def open(
        cls,
        directory: str | Path,
        *,
        share: bool = True,
        embedder: Embedder | str | None = None,
        summarizer: Summarizer | None = None,
        supersedes: Supersedes | Superseding | bool | None = None,
        extractor: Extractor | Extract | str | None = None,
        reranker: Reranker | str | None = None,
        clock: Callable[[], int] | None = None,
        new_id: Callable[[int], str] | None = None,
        settings: Settings | None = None,
        alerts: Sequence[AlertSink] | None = None,
        metrics: Metrics | None = None,
        reindex: bool = False,
        encrypt: Encrypt = False,
    ) -> MemorySystem:
        'Open a data directory, made if missing, and close it at the end of the block.\n\nThe first process that opens it owns it, and the others are its clients: they have the same\noperations, carried out by the owner. When the owner ends, one of its clients takes over.\nThe owner\'s options apply, so a client leaves them out, or gives the same; a client with the\nsame options can take over. `share=False` opens it for this process and no other.\n\nInstead of a directory, a URL opens a store in PostgreSQL: "postgresql://…?schema=…". Each\nprocess that opens it, on whatever machine, is one of its nodes, with all of the engine.\nEach user is live at one of them, and reached from all (docs/internals/nodes.md). It needs\nthe extra `postgres`; `encrypt` and `share=False` are for directories. Settings that decide\nwhat becomes of a write are kept in the database: those of the nodes that live have to be\ngiven again, or none, which takes them as they are; where no node lives, those that are\ngiven replace them.\n\nThe http:// or https:// URL of a server is a client of it, with the API key in the variable\nMEMORY_ACTORS_API_KEY: see `connect`. All other options are the server\'s.\n\n`async with MemorySystem.open(...) as memory:` does that; so does\n`memory = await MemorySystem.open(...)`, until `await memory.close()`. It belongs to the\nevent loop that it was opened on.\n\n`embedder` defaults to the one that the store was opened with last, or switched to, if that\nhas a name; for a new store it is all-MiniLM-L6-v2, which is loaded here, or where it is not\nthere yet installed and loaded on first use. A text names another one: "multilingual" (extra\n`multilingual`), "openai:MODEL", "ollama:MODEL" or the URL of an endpoint (extra `llm`),\n"fastembed:MODEL", "sentence-transformers:MODEL", "onnx:FOLDER": its vectors are joined with\nMiniLM\'s token states. One of yours is tried with one text. `switch_model` changes the model\nof a store.\n`summarizer` makes the summaries of compacted memories: of their own sentences, if None; its\n`aclose()` is called at the end, if it has one. `supersedes` decides which older facts hold\nno more when one is added: by rules about their form, if None; by a function of the newer\n`Statement` and the older ones near it that returns their ids; by a language model\n(`OpenAISuperseding`); nothing is looked for, if False. `extractor` finds facts in messages\nwhen `UserMemory.extract` is called: a function of a `Conversation` that returns proposals,\nor a language model (`OpenAIExtractor`, or by name: "ollama:MODEL", "openai:MODEL",\n"http://HOST/v1#MODEL"); its `aclose()` is called at the end, if it has one.\n`reranker` orders the first `Settings.reranker_hits` hits of each search anew: by a\ncross-encoder, "fastembed:MODEL" (extra `fastembed`), or an object of yours with\n`score(query, texts)`; nothing does, if None. `clock` gives microseconds since 1970,\n`new_id` an unused memory id. `alerts` says where quota alerts go: to the log, if None.\n`metrics` may be a `PrometheusMetrics`.\n`reindex=True` accepts another model than the one the store was indexed with; each user\'s\nmemories are then embedded again when that user is next active.\n\n`encrypt` makes a new store encrypted, with a key for each user, and opens one that is: True\nfor the keys in `<directory>.keys`, which is made with a new store, or the path of another\nfile of them. It needs the extra `crypto`. Losing that file means losing the memories: keep\na copy of it, apart from backups. docs/security.md says what is encrypted.\n\n:raises InvalidInputError: a setting is not what it must be, or not the owner\'s; or no\n    embedder has that name; or no store can be opened by such a URL.\n:raises EmbedderError: the package that has the model is not installed.\n:raises LogLocked: another process has it for itself.\n:raises DeadlineExceededError: the process that has it is stopped, or its loop is blocked.\n:raises LogUnavailable: the directory cannot be used: it is the root, say.\n:raises CorruptLog: its files are damaged.\n:raises ClockOutOfRange: `clock` says a time that no date can have, now or later.\n:raises ModelMismatchError: it was indexed with another model.\n:raises EmbedderError: an embedder of yours returns what no index can hold: vectors of\n    another shape, numbers that are not finite, a vector of length 0.\n:raises EncryptionMismatch: it is encrypted and `encrypt` is not set, or the reverse.\n:raises KeysUnavailable: its keys are missing, damaged, another store\'s, or readable by\n    others: see the message. In all these cases nothing was touched.'
    @classmethod
    def connect(cls, url: str, *, key: str | None = None, timeout_s: float = 30.0) -> MemorySystem:
        "Use the store of a server, over HTTP: `memory-actors serve`, or one of your own.\n\nIt has the same operations, carried out by the server: those that it offers, see\ndocs/server.md. `key` is an API key: a user's for that user's memory, a root key for\neverybody's and for compaction. A request that may have reached the server, and has no\nanswer in `timeout_s`, is sent again only if it reads or has an idempotency key.\n\nIt is used as what `open` returns; closing it ends the connections, and no more. It needs\nthe extra `http`.\n\n:raises InvalidInputError: no URL, or none of http or https; a key that cannot be one.\n:raises MissingExtraError: httpx is not installed.\n:raises UnavailableError: nobody answers there, or somebody else does."
    def erase(self, user_id: str, *, despite_hold: bool = False) -> EraseReceipt:
        "Erase a user, for good: memories, history, vectors, indexes, archive, keys.\n\nPayloads go from the log, its file and the archive; what stays of each event is its place,\ntype, times, sizes and digest, so that the log still verifies. The user's id is in no file\nany more, only its hash; afterwards the user reads as one who never was, and may come back.\nBackups made before are not touched; of an encrypted store they cannot be read any more, as\nfar as this user goes: the key is deleted, and reading gives `KeyGone`.\n\nUntil it is done, the user is refused; others go on, but for the moments in which files are\nreplaced (see `EventLog.shrink`). It goes on when the caller is cancelled. After a crash or\nan error, repeat it: what was erased before is erased. A cluster of the user that is just\nbeing compacted is finished first.\n\nA legal hold refuses it, and `despite_hold=True` overrides that: who erases decides which\nduty is the stronger. The receipt counts the holds, which are erased with the rest.\n\n:raises InvalidInputError: that is no user's id.\n:raises HeldError: the user is under a legal hold; nothing was erased.\n:raises BeingErasedError: it is under way.\n:raises LogUnavailable: the archive cannot be read now, so that nothing was begun.\n:raises StorageFailed: a file could not be looked for, removed or written: there may be more\n    of the user in it. Repeat it when that is mended.\n:raises DiskFull: the disk is full. Free some space, then repeat it.\n:raises CorruptLog: the log is damaged. See the message, then repeat it.\n:raises KeyFileError: the key file cannot be used. See the message, then repeat it."
    def purge(
        self,
        source: str | None = None,
        *,
        trust: Trust | str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> PurgeReport:
        "Remove everything from a source, or of a trust level, from every user's memory.\n\nUser by user, as `UserMemory.purge` does it; `progress(done, total)` is called after each.\nA user who cannot be read or written is in `failed`. After a crash, repeat it.\n\n:raises InvalidInputError: neither a source nor a trust, or an unknown one."
    def switch_model(self, embedder: str, *, progress: Progress | None = None) -> ModelSwitch:
        "Give the store another embedding model, by name, and remove the vectors of the old one.\n\nAll memories are embedded anew while searches answer from the old vectors. Then the store\nrecords the model: it is opened with it from now on, without naming it. Cut off, it changes\nnothing; call it again, and it embeds what is left. `progress(done, total)` counts memories.\nA second call waits.\n\n:raises InvalidInputError: no embedder has that name, or the store is in a database.\n:raises EmbedderError: the model is not installed, or embedded none of many texts in a row."
    def backup(self, directory: str | Path, *, derived: bool = False) -> Copied:
        "Write a backup of all memories as they are at one moment, and verify it.\n\nReads and writes go on meanwhile. With `derived` vectors and token states are in it too;\nwithout, the model makes them again after a restore. API keys are not, and no keys that it\nis encrypted with: whoever restores it has to have those. `directory` must not\nbe there yet; it appears whole, or not at all. It is a store of its own: open it, or put it\nin the place of another one with `copy_store`.\n\n:raises LogUnavailable: there is something at `directory`, or it cannot be made.\n:raises CorruptLog: what is backed up is damaged.\n:raises DiskFull: the disk is full; no backup was made.\n:raises StorageFailed: a file cannot be read or written; no backup was made."
    def watch_erasures(self, forget: Callable[[str], object]) -> None:
        "Have `forget(user_id)` called on the loop when a user is erased.\n\nFor what a program remembers of users beside the store. One that raises is logged, by type\nalone, and the erasure goes on.\n\n:raises InvalidInputError: it is no function, or an `async` one."
    def heads(self) -> Heads:
        "Return where the log and each user's stream stand, to be published. Reads all of it."
    def verify(
        self, progress: Progress | None = None, *, against: Heads | None = None
    ) -> VerifyReport:
        "Check every event, chain and index of the log; `progress(done, total)` in a thread.\n\nWith `against`, heads that were published, also whether history up to them is unchanged. A\nbadly damaged file can end the process that reads it: `verify_store` reads in a child."
    def check_replay(self) -> list[str]:
        'Return the users whose live state is not what a replay of their stream gives: none.\n\n"all users" is among them if the totals are not the sum of their states. Activates every\nuser and reads every event: for audits and tests, while nobody writes.'
    def close(self) -> None:
        "Close the system, as the end of its block does; once is enough, and more does no harm.\n\nIt takes nothing new on, waits for work in hand and closes the files. If the caller is\ncancelled, closing continues, and the cancellation is raised at the end.\n\n:raises WrongLoopError: it was opened on another event loop."
    def user(
        self,
        user_id: str,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        source: str | None = None,
        trust: Trust | str | None = None,
        auto_prune: bool = False,
        by: str | Sequence[str] | None = None,
    ) -> UserMemory:
        'Return a handle on one user\'s memory, for one agent and session. No I/O.\n\n`source` and `trust` say where all that is written with it comes from: see\n`UserMemory.from_source`. With `auto_prune` all that is added with it makes room if there is\nnone, as with `add_with_auto_prune`, unless a call says otherwise. `by` says who speaks: a\nperson ("ada"), an agent ("agent:planner"), an API key ("key:" and its id) or several of\nthem. Their grants are checked, and the first is an origin of all that is written. With\nNone, the process itself speaks, and may do everything. See `UserMemory.grant`.\n\n:raises InvalidInputError: a name that is empty, over 512 bytes, or not Unicode.'
    def replay(
        self,
        user_id: str,
        as_of: AsOf = None,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        dropped: OnDropped = "raise",
    ) -> PastMemory:
        'Hold a user\'s memory as it was at a position of the log or at a time (None: now).\n\nIt answers every read as it would have then, searches included; see `PastMemory`. Any\nposition will do, also one of another user\'s event; of a time, all that was recorded by\nthen. Opening it reads the nearest snapshot before it and the events since; the first\nsearch makes its index, in memory. The live user is not touched.\n\nIf retention has dropped the text of a memory that existed then, opening it raises\n`PayloadDropped`. `dropped="mark"` opens what is left, and `lost` counts what is not.\n\n:raises NotFoundError: there is no such user, or what they had at that moment is erased.\n:raises InvalidInputError: the log has no such position, it is no time, or `dropped` is\n    neither "raise" nor "mark".\n:raises PayloadDropped: retention has dropped something that was there then.'
    def diff(self, user_id: str, a: AsOf, b: AsOf = None, *, dropped: OnDropped = "raise") -> Diff:
        'Return the changes of a user\'s memories between two moments, `a` the earlier one.\n\nEach memory that was added, changed or lost, as it was before and after, with every event\nabout it in between: by whom, and why. Moments are given as in `replay`.\n\n:raises NotFoundError: there is no such user, or what they had at a moment is erased.\n:raises InvalidInputError: `a` is later than `b`, or an argument is not what it must be.\n:raises PayloadDropped: retention has dropped something that was there at one of them;\n    `dropped="mark"` compares what is left.'
    def events(
        self,
        user_id: str | None = None,
        *,
        after: int = 0,
        since: Time | None = None,
        until: Time | None = None,
        follow: bool = False,
    ) -> Iterator[LogEntry]:
        "Yield the events of one user, or of all, behind a position, in the order of the log.\n\n`since` and `until` are about when the log got them. With `follow` it goes on with each new\none as it becomes durable, until the system closes.\n\n:raises InvalidInputError: an argument is not what it must be."
    def recalls(
        self,
        user_id: str,
        *,
        query: str | None = None,
        memory_id: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        limit: int = 100,
    ) -> list[Recall]:
        'Return the audit of a user\'s searches, newest first: query, caller and returned memories.\n\nKept by `Settings(recall_audit="hashed")` or "plain", for `recall_audit_days`; see\ndocs/audit.md. `query` and `memory_id` ask for one query, as it was written, or one memory,\nalso where only hashes were kept. Searches are kept, not reads by id and not lists.\n\n:raises InvalidInputError: an argument is not what it must be.'
    def users(self) -> list[str]:
        "Return the id of every user who ever had a memory, sorted."
    def compact(
        self,
        user_id: str | None = None,
        *,
        dry_run: bool = False,
        older_than: timedelta | str | None = None,
        episodes: bool | None = None,
        progress: Callable[[CompactionProgress], object] | None = None,
        stop: asyncio.Event | None = None,
    ) -> CompactionReport:
        'Replace old long-term memories by summaries, of one user or of all.\n\nClusters of memories that are about the same thing and were true longer ago than the\nsettings say, or `older_than` (a timedelta or "90d"), become one memory each. The originals\nare in the log: `expand` reads them, `undo_compaction` brings them back. A cluster that has\nno good summary stays as it is. With `dry_run` nothing changes. `episodes` says whether\nepisodes that have ended are compressed, too, an agent\'s own together (None: as the settings\nsay).\n\n`progress` is called on the loop after each cluster, and awaited if it is `async`.\nCancelling, or setting `stop`, ends the run after the cluster in hand; what was replaced\nstays replaced. A second run waits.\n\n:raises NotFoundError: there is no such user.\n:raises InvalidInputError: `older_than` is no age, or a flag neither True nor False.'
    def compaction_stats(self, user_id: str | None = None) -> CompactionStats:
        "Return the totals of compaction: exact, and for all without looking at any user.\n\n:raises NotFoundError: there is no such user."
    def usage(self) -> SystemUsage:
        "Return how much all users hold together: exact, and without looking at any of them."
    def statistics(self) -> SystemStatistics:
        "Return counters of each part since the system was opened."

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

class WorkingMemory:
    def lasting(self, ttl_s: float | None) -> Self:
        "Return a handle whose adds expire after some seconds; None: as the settings say.\n\n:raises InvalidInputError: it is not above 0."
    def set(
        self,
        key: str,
        value: object,
        *,
        metadata: Metadata | None = None,
        memory_id: str | None = None,
        auto_prune: bool | None = None,
        ttl_s: float | None = None,
    ) -> Receipt:
        "Set a key to a JSON value. `memory_id` is for a new key; an old one keeps its own.\n\nIt expires after `ttl_s` seconds; by default (None) the settings decide.\n\nWhen the sizes no longer fit, the least recently used entries go. When the number of keys is\nat its limit, a new key is refused unless `auto_prune`, which makes the least recently used\none go.\n\n:raises QuotaExceededError: too many keys, or a value that could never fit.\n:raises InvalidInputError: the key or value is not what it must be."
    def get(self, key: str, default: object = None) -> Any:
        "Return a key's value, which counts as a use of it; `default` if there is none."
    def delete(self, key: str) -> Receipt:
        "Delete a key.\n\n:raises NotFoundError: there is none."
    def items(self) -> JsonObject:
        "Return all keys and values, in the order they were last set; a use of none of them."

class ShortTermMemory:
    def lasting(self, ttl_s: float | None) -> Self:
        "Return a handle whose adds expire after some seconds; None: as the settings say.\n\n:raises InvalidInputError: it is not above 0."
    @property
    def ttl(self) -> int:
        "Seconds a session lives after its last message, of a user whose tier was never set.\n\nOther tiers have it in their limits: `settings.plan(tier).limits.short_term_ttl_s`."
    def add_message(
        self,
        content: str,
        *,
        role: str | None = None,
        session_id: str | None = None,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        memory_id: str | None = None,
    ) -> Receipt:
        "Add a message; the oldest leave when the session is full. Durable when it returns.\n\n:raises QuotaExceededError: it is larger than a session may be.\n:raises InvalidInputError: it is empty, or something else is not what it must be."
    def messages(self, session_id: str | None = None, *, last: int | None = None) -> list[Memory]:
        "Return a session's messages, oldest first; only the `last` so many, if given.\n\n`ttl_s` of each says how many seconds it has left."

class EntityGraph:
    def lasting(self, ttl_s: float | None) -> Self:
        "Return a handle whose adds expire after some seconds; None: as the settings say.\n\n:raises InvalidInputError: it is not above 0."
    def add_entity(
        self,
        name: str,
        type: str = ...,
        observations: Sequence[str] = ...,
        *,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        auto_prune: bool | None = None,
    ) -> Receipt:
        "Add an entity, or add to the one that has this name and type what is new.\n\nNames are the same whatever their case and blanks. Observations it has are not repeated,\nmetadata is merged key by key.\n\n:raises QuotaExceededError: too many entities (`auto_prune` lets the oldest tenth go, with\n    their relationships), or too many bytes."
    def observe(self, entity_ref: str, *observations: str) -> Receipt:
        "Add observations to an entity.\n\n:raises NotFoundError: there is no such entity."
    def remove_observation(self, entity_ref: str, observation: str) -> Receipt:
        "Delete one observation of an entity, given as it reads.\n\n:raises NotFoundError: there is no such entity, or no such observation."
    def relate(
        self,
        source: str,
        relation: str,
        target: str,
        *,
        fact: str | None = None,
        valid_from: Time | None = None,
        valid_to: Time | None = None,
        exclusive: bool | None = None,
        metadata: Metadata | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        auto_prune: bool | None = None,
    ) -> Receipt:
        "Relate one entity to another from a time on (None: from now).\n\n`exclusive` says that the source has one such relationship at a time: those that contradict\nthis one then end when it begins. By default (None), `Settings.exclusive_relations` decides\n(lives_in, works_at, …). A relationship that is already true is updated, not duplicated.\n`fact` puts it in words that are found by meaning.\n\n:raises NotFoundError: one of the entities is not there: add it first.\n:raises QuotaExceededError: too many relationships (`auto_prune` lets the oldest tenth go)."
    def end(self, relationship_id: str, at: Time | None = None) -> Receipt:
        "End a relationship at a time (None: now). It stays, as a thing of the past.\n\n:raises NotFoundError: there is no such relationship."
    def delete(self, entity_ref: str) -> Receipt:
        "Delete an entity with its relationships, or one relationship by its id.\n\n:raises NotFoundError: there is neither."
    def get(self, entity_ref: str, type: str | None = None) -> Entity:
        "Return an entity by id or name; `type` tells entities of one name apart.\n\n:raises NotFoundError: there is no such entity.\n:raises InvalidInputError: several have this name, and no type is given."
    def relationships(
        self,
        entity_ref: str,
        *,
        relation: str | None = None,
        direction: Direction = "both",
        as_of: Time | None = None,
        ended: bool = False,
    ) -> list[Relationship]:
        "Return the relationships of an entity that are true at a time (None: now), newest first.\n\nWith `ended`, those that were ever true."
    def neighbours(
        self,
        entity_ref: str,
        depth: int = 1,
        *,
        relation: str | None = None,
        direction: Direction = "both",
        as_of: Time | None = None,
        ended: bool = False,
        limit: int = 100,
    ) -> list[Neighbour]:
        "Return the entities within `depth` relationships, the nearest first.\n\nIt follows relationships that are true at `as_of` (None: now), with `ended` all."

class Documents:
    def lasting(self, ttl_s: float | None) -> Self:
        "Return a handle whose adds expire after some seconds; None: as the settings say.\n\n:raises InvalidInputError: it is not above 0."
    def put(
        self,
        collection: str,
        document: Mapping[str, object],
        *,
        key: str | None = None,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        memory_id: str | None = None,
        pinned: bool | None = None,
        auto_prune: bool | None = None,
        ttl_s: float | None = None,
    ) -> Receipt:
        "Put a document under a key of a collection, in place of the one that is there.\n\nIt expires after `ttl_s` seconds; by default (None) the settings decide.\n\nWithout a key it is kept under its own memory id. `metadata` and `pinned` None keep what\nwas. With `auto_prune` the oldest tenth of all documents makes room if there is none.\n\n:raises QuotaExceededError: too many documents, or too many bytes.\n:raises InvalidInputError: it is not a JSON object, or over 15 MiB."
    def get(self, key: str, collection: str = ...) -> Document:
        "Return a document by key, or by memory id whatever its collection.\n\n:raises NotFoundError: there is none."
    def find(
        self,
        collection: str = ...,
        filters: Mapping[str, object] | None = None,
        *,
        order_by: str | Sequence[str] | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Document]:
        "Return the documents of a collection that match, a page of them.\n\n`filters` are those of docs/reference.md, on the fields of the documents. `order_by` names\nfields, `-price` for descending; without one, in the order they were first put.\n\n:raises InvalidInputError: a bad filter, field or page."
    def count(self, collection: str = ..., filters: Mapping[str, object] | None = None) -> int:
        "Return how many documents of a collection match: `filters` is as in `find`.\n\n:raises InvalidInputError: a bad filter."
    def delete(self, key: str, collection: str = ...) -> Receipt:
        "Delete a document by key, or by memory id whatever its collection.\n\n:raises NotFoundError: there is none."
    def collections(self) -> dict[str, int]:
        "Return how many documents each collection has, by name."

class UserMemory:
    context: UserContext
    working: WorkingMemory
    short_term: ShortTermMemory
    entities: EntityGraph
    episodes: Episodes
    documents: Documents
    @property
    def user_id(self) -> str:
        "The id of the user whose memory it is."
    def retrieve(
        self,
        query: str,
        *,
        memory_types: Sequence[MemoryType | str] | None = None,
        memory_type: MemoryType | str | None = None,
        top_k: int | None = None,
        filters: Mapping[str, object] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        as_of: Time | None = None,
        session_id: str | None = None,
        exclude_ids: Sequence[str] = ...,
        exclude_session: str | None = None,
        min_score: float = 0.0,
        token_budget: int | None = None,
        diversity: float = 0.0,
        order: Order | None = None,
        explain: bool = False,
        weights: Weights | None = None,
        reference_time: Time | None = None,
        compressed: bool = True,
        sources: Sequence[str] | None = None,
        min_trust: Trust | str | None = None,
        agent_id: str | None = None,
    ) -> Hits:
        'Return the `top_k` memories that best answer a query.\n\n`top_k` defaults to 5, or with a `token_budget` to as many as fit. `memory_types` None means\nall but context documents: named, their archives are searched; `memory_type` names one. The\nbest comes first. If you name several kinds, results are grouped by kind, working memory\nfirst, with the best of each among the `top_k`; `order` ("score", "kind") says otherwise.\nShort-term memory is searched in `session_id`, the handle\'s session, or the three used\nlast.\n\nFilters are exact and apply before ranking: `filters` on metadata (see docs/reference.md),\n`since` and `until` on when a memory was true (first, last, or in between; for a summary,\nfrom its first original to its last), `as_of` (memories recorded until then; relationships\nthat were true at it), `exclude_ids` and `exclude_session` (the message that was just stored\nis no answer to itself).\n\nMessages and facts that say the same are one hit; `near_duplicates` names the others.\n`token_budget` returns as many hits as fit, a line each: up to 1,000, and about one for four\ntokens; `Settings.token_counter` counts. `diversity` (0 to 1) makes results that are like\nbetter ones give way: then they come in the order in which they were chosen. `explain` gives\neach hit its signals. `weights` multiplies what a signal counts for; 0 switches it\noff.\n`reference_time` is what "last week" in a query is relative to (None: now).\n\n`sources` finds only what came from these and from nobody else, `min_trust` only what nobody\nless trusted had a say in: "unknown" leaves out what is untrusted, "trusted" all but that.\n`agent_id` finds only what this agent wrote (None: what any wrote).\n\nUp to two summaries of compressed memories (`source="compressed"`) are among the `top_k`,\nlast, if they score more than the memories they displace; `compressed=False` leaves them\nout. `hits.answered` is the chance that the first hits answer at all. If the store has a\nreranker, it orders the best `Settings.reranker_hits`, summaries too; `score` stays as it\nwas. It has no say with a `diversity`, or kind by kind.\n\nA handle of `reads` searches its other scopes, too: all hits are ranked together, and each\nnames its `scope`.\n\n:raises InvalidInputError: an empty query, an unknown type, a bad filter or number.\n:raises EmbedderError: the query could not be embedded.\n:raises AccessDeniedError: one of the scopes may not be read.'
    def get(self, memory_id: str) -> Memory:
        "Return one memory.\n\n:raises NotFoundError: there is none with this id: never was, deleted, evicted, expired, or\n    compressed into a summary: `why` tells."
    def list_memories(
        self,
        memory_types: Sequence[MemoryType | str] | None = None,
        *,
        filters: Mapping[str, object] | None = None,
        sources: Sequence[str] | None = None,
        min_trust: Trust | str | None = None,
        limit: int = 100,
        offset: int = 0,
        agent_id: str | None = None,
        session_id: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        contains: str | None = None,
    ) -> list[Memory]:
        "Return memories, newest first by the time they were true.\n\n`sources`, `min_trust` and `agent_id` are as in `retrieve`. `since` and `until` bound the\ntime at which a memory was true, `session_id` names its session. `contains` is a text in its\ncontent, in any case: contents are read until enough are found."
    def count(
        self,
        filters: Mapping[str, object] | None = None,
        *,
        memory_types: Sequence[MemoryType | str] | None = None,
        sources: Sequence[str] | None = None,
        min_trust: Trust | str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        contains: str | None = None,
    ) -> int:
        "Return how many memories `list_memories` would list with the same arguments.\n\n:raises InvalidInputError: an unknown type, a bad filter, source, trust or time."
    def history(self, memory_id: str) -> list[HistoryEntry]:
        "Return every event that touched a memory, oldest first; also of one that is deleted.\n\nIf retention has dropped an event's payload, `data` says since when.\n\n:raises NotFoundError: no event ever named it."
    def extractions(self, *, limit: int = 100) -> list[Extraction]:
        "Return past extractions with the facts they found, newest first.\n\n`undone_at` is set if an extraction was undone."
    def why(self, memory_id: str) -> Why:
        "Return why a memory is there, or no longer is: each event of its life in words.\n\nFor a compressed memory it includes the fate of its summary; for a summary, the ids of\nits originals. Entities, relationships, episodes and documents alike.\n\n:raises NotFoundError: no event ever named it."
    def grants(self) -> dict[str, Right]:
        "Return the right of each subject that has a grant, by subject, in order.\n\n:raises AccessDeniedError: the subjects of the handle may not read here."
    def right(self) -> Right | None:
        "Return the right of the subjects of the handle, as it is now; None: they have none."
    def usage(self) -> Usage:
        "Return how much of each kind this user holds, and how full each limit is."
    def estimate_monthly_cost(self) -> CostEstimate:
        "Return the monthly cost of this user's memory at the prices in the settings."
    def export(self) -> Iterator[Memory]:
        "Yield every living memory as it was when the export began, kind by kind.\n\nThe order is that of api/finding.py: what a memory needs comes before it."
    def purge(
        self, source: str | None = None, *, trust: Trust | str | None = None, dry_run: bool = False
    ) -> Purged:
        "Remove everything from a source, of a trust level, or both, from memory.\n\nEach memory becomes what it would be had the source not spoken: what it wrote goes, what it\nchanged says again what others have said. Summaries that have anything of it go, and their\nother originals come back, as far as there is room. The log keeps all of it, for audits.\n\nIt is done in batches of up to 100 memories, each whole or not at all; after a crash, or an\nerror, repeat it. With `dry_run` nothing changes.\n\n:raises InvalidInputError: neither a source nor a trust, or an unknown one."
    def forget(
        self,
        what: str,
        *,
        everywhere: bool = True,
        similar: float | None = None,
        reason: str = "",
        dry_run: bool = False,
    ) -> Forgotten:
        "Forget a fact: take it out of all kinds and out of the log, and refuse it from now on.\n\n`what` is the id of a memory that says it, also of one that was deleted, or the fact in\nwords. The memory goes, and with `everywhere` whatever else says the same: the same words\nbut for case, white space and punctuation at the end, as a text, sentence or clause of its\nown. A text that says more loses that part; where that cannot be done, the memory is `kept`.\nSummaries of it go, and their other originals come back.\n\nThe log keeps the events, with `[forgotten]` in the place of the words; no file has them any\nmore. A tombstone stays: a digest by which the fact is refused when it is added, captured,\nimported or extracted again (`ForgottenError`; in bulk, the receipt's operation is\n`forgotten`). With `similar`, a cosine from 0 to 1, it also has the embedding of the fact,\nand refuses facts at least that similar. `unforget` lifts it. With `dry_run` nothing\nchanges.\n\nOther calls of this user get `BeingErasedError` while the log is rewritten; another `forget`\nwaits. After a crash, or an error, repeat it.\n\n:raises NotFoundError: nothing says that: give the id of a memory.\n:raises HeldError: the user is under a legal hold.\n:raises InvalidInputError: an argument is not what it must be.\n:raises MissingCapability: the store cannot take words out of the log.\n:raises EmbedderError: `similar` is given, and the fact could not be embedded."
    def unforget(self, what: str) -> ForgottenFact:
        "Let something that was forgotten come again: by its digest, or in its words.\n\nReturn its tombstone, which is gone.\n\n:raises NotFoundError: it was not forgotten."
    def forgotten(self) -> list[ForgottenFact]:
        "Return the forgotten facts that are refused, newest first: digests and times, no text.\n\n:raises AccessDeniedError: the subjects of the handle may not manage here: whoever has the\n    key of a digest can test a guess."
    def hold(self, reason: str) -> Hold:
        "Put this user under a legal hold, until `release`; there may be several.\n\nMeanwhile no retention rule applies and nothing expires by its time to live. The log\ndrops no event, recalls included, and `erase` and `forget` are refused. Writes,\ndeletes and quotas work as ever, and the sessions of short-term memory end: the log keeps\nwhat leaves. It keeps who placed the hold, too: the subject of this handle, or its agent.\n\n:raises InvalidInputError: a reason that is empty or over 512 bytes."
    def release(self, hold_id: str) -> Hold:
        "Release a legal hold. With the last one, memories that are due go.\n\n:raises NotFoundError: it is not in force."
    def holds(self, *, released: bool = False) -> list[Hold]:
        "Return the legal holds in force, oldest first; with `released`, former ones, too."
    def apply_retention(self, *, dry_run: bool = False, from_log: bool = False) -> Retained:
        "Delete what the retention rules no longer allow, now: see `Settings.retention`.\n\nWith `dry_run` nothing changes: the result is what would go. The log keeps what a memory\nwas, for audits, as after a `delete`. With `from_log` the words of all that rules have ever\ndeleted leave the log, too, as with `forget`: replays show that something was there. This\nrewrites the file of the log.\n\n:raises MissingCapability: the store cannot take words out of the log."
    def delete_many(
        self,
        filters: Mapping[str, object],
        *,
        memory_types: Sequence[MemoryType | str] | None = None,
        sources: Sequence[str] | None = None,
        min_trust: Trust | str | None = None,
        agent_id: str | None = None,
    ) -> list[Receipt]:
        "Delete the memories that match; return a receipt for each. `count` says how many do.\n\nThe arguments choose as in `list_memories`. It is done in batches: each memory is deleted or\nnot, and after a crash, or an error, repeat it. One that is changed meanwhile, and no longer\nmatches `filters`, stays. Memories that are deleted along with another (an entity's\nrelationships) have no receipt.\n\n:raises InvalidInputError: an unknown type, a bad filter, source or trust; or `{}`, which\n    matches everything, without `memory_types`."
    def restore(self, memory_ids: Sequence[str]) -> list[Receipt]:
        "Bring back memories that were pruned, evicted or deleted, as they were.\n\nA memory with a time to live keeps its expiry. If that is over, it lives as long again.\nAll or none: a refused call changes nothing. Living memories stay unchanged. Working and\nshort-term memory does not come back. Each kind is one append: where the process dies\nbetween two of them, or another write takes the room meanwhile, those of the first kinds are\nback; repeat it.\n\n:raises QuotaExceededError: there is no room for them.\n:raises NotFoundError: one of them never was.\n:raises InvalidInputError: one is a summary whose originals all live."
    def full_id(self, beginning: str) -> str:
        "Return the id that begins so, of a memory that is there or, if none is, that was.\n\nIf no living memory matches, this reads all events of the user.\n\n:raises NotFoundError: none does.\n:raises InvalidInputError: several do."
    def expand(self, compressed_id: str) -> list[Memory]:
        "Return the originals of a summary as they were, from the log, in order of time.\n\n:raises NotFoundError: it is no summary, or its originals are not here (any more)."
    def undo_compaction(self, compressed_id: str) -> list[Receipt]:
        "Bring the originals of a summary back, all or none; the summary goes.\n\nThey are left alone by compaction from then on.\n\n:raises QuotaExceededError: there is no room for all of them.\n:raises NotFoundError: it is no summary, or its originals are not here (any more)."
    def pending(
        self,
        memory_types: Sequence[MemoryType | str] | None = None,
        *,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Memory]:
        "Return the memories that wait for a review, the last that was added first.\n\nNo other read returns them. `expires_at` is when the wait ends: what nobody has approved by\nthen is rejected. `Settings.review` says what has to wait."
    def approve(self, memory_ids: Sequence[str]) -> list[Receipt]:
        "Add pending memories, as if they were added now by the one who had added them.\n\nOne by one: where one is refused, those before it are there. A fact that is there by now is\n`seen`, and an observation goes to the entity that has its name: the receipt has its id.\n\n:raises NotFoundError: one of them is not pending; nothing was approved.\n:raises QuotaExceededError: the context document has no room for it."
    def reject(self, memory_ids: Sequence[str]) -> list[Receipt]:
        "Reject pending memories, all or none: they never begin.\n\nTheir facts are refused from now on, as if forgotten (`forgotten` lists it, and\n`unforget` lets one come again). The log keeps the words, unless you `forget` them.\n\n:raises NotFoundError: one of them is not pending."
    def from_source(self, source: str | None, trust: Trust | str | None = None) -> Self:
        'Return a handle for what a source says: all that is written with it comes from there.\n\n`source` is a name of yours for it: a URL, a tool, a person. `trust` is "trusted" (the user\nor the operator vouches for it), "untrusted" (anybody may have written it: a page, a mail,\nthe output of a tool), or "unknown". No I/O.\n\n:raises InvalidInputError: a source that is empty or over 512 bytes, or an unknown trust.'
    def reads(self, *scopes: str) -> Self:
        "Return a handle whose `retrieve` and `context` ask other users or scopes, too. No I/O.\n\nThey ask in the name of the handle's subjects; if it names none, of this user. Everything\nelse, writes above all, is still about this user.\n\n:raises InvalidInputError: a name that is empty or over 512 bytes, or more than 16 scopes."
    def add(
        self,
        content: str,
        memory_type: MemoryType | str = ...,
        *,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        session_id: str | None = None,
        role: str | None = None,
        key: str | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        auto_prune: bool | None = None,
        idempotency_key: str | None = None,
        on_duplicate: OnDuplicate | None = None,
        ttl_s: float | None = None,
    ) -> Receipt:
        'Add one memory, given as a text.\n\nThe meaning of the text depends on the type: a fact (long_term), a message (short_term), the\nvalue of `key` (working; without one, kept under its own id), an entity\'s name (entity; with\n`key`, that is the name and the text an observation), the goal of a new episode (episodic),\na JSON document (structured; a text that is no JSON object becomes {"text": …}), or an entry\nof MEMORY.md (context; in the section `key`). `session_id` and `role` are for messages and\nfacts, `pinned` for what can be pruned, `idempotency_key` for long-term memory; what means\nnothing for a type is refused. All but working memory is durable when this returns; that is\non disk within 50 ms. `auto_prune` makes room as `add_with_auto_prune` does (None: as the\nhandle says).\n\nA fact in the words of one that is there, of the same session, metadata and source, is that\none: it was seen once more (`times_seen`), the receipt\'s operation is `seen`, and its id the\nknown one. `on_duplicate` says otherwise: "keep" makes it a memory of its own, "skip" leaves\nall as it was. If it says nothing (the settings do, then), what has a session or an id of\nyour own is kept.\n\n`ttl_s` is the time to live in seconds: after it the memory is deleted, and until then\ncompaction leaves it alone. By default (None) the kind\'s default applies (`Settings.ttl_s`);\ninfinity keeps it. A fact that is said again lives as long as the longer of the two.\n\n:raises InvalidInputError: empty content, an unknown type, metadata that is not JSON, …\n:raises QuotaExceededError: no room for it, and no leave to make some (`auto_prune`).'
    def turn(
        self,
        content: str,
        role: str = "user",
        *,
        session_id: str | None = None,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        memory_id: str | None = None,
        auto_prune: bool | None = None,
    ) -> Receipt:
        'Add a turn of a chat to the messages of its session and to long-term memory, at once.\n\nBoth or neither, in one append. `role` says who speaks: "user", "assistant", or a name. The\nsession is `session_id`, else the handle\'s, else "default". `context(query)` then has the\nturn among the last messages of the session, and every session can find it. The receipt is\nthat of the memory; an id of your own that was used before adds nothing.\n\n:raises InvalidInputError: empty content, metadata that is not JSON, …\n:raises QuotaExceededError: long-term memory has no room and may make none (`auto_prune`),\n    or the turn is larger than a session may be.'
    def add_with_auto_prune(
        self,
        content: str,
        memory_type: MemoryType | str = ...,
        *,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        session_id: str | None = None,
        role: str | None = None,
        key: str | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        idempotency_key: str | None = None,
        on_duplicate: OnDuplicate | None = None,
        ttl_s: float | None = None,
    ) -> Receipt:
        "Add one memory, and make room first if there is none; the fields are those of `add`.\n\nThe oldest tenth (at least one, never a pinned one) of its kind is pruned: the receipt's\noperation is then `add_with_prune`, and `restore(receipt.pruned)` brings them back. Working\nmemory lets the least recently used entries go, short-term memory always makes room.\n\n:raises QuotaExceededError: everything else is pinned, or it could never fit."
    def add_many(
        self,
        items: Sequence[Item],
        *,
        auto_prune: bool | None = None,
        idempotency_key: str | None = None,
        on_duplicate: OnDuplicate | None = None,
        ttl_s: float | None = None,
    ) -> list[Receipt]:
        "Add up to 1,000 long-term memories in one embedding batch and one commit, all or none.\n\nAn item with a `memory_id` that this user has used before adds nothing (its receipt says\n`unchanged`), so an interrupted run can be repeated. `on_duplicate` and `ttl_s` are as for\n`add`.\n\n:raises QuotaExceededError: they do not all fit; none was added."
    def update(
        self,
        memory_id: str,
        *,
        content: str | None = None,
        metadata: Metadata | None = None,
        pinned: bool | None = None,
        filters: Mapping[str, object] | None = None,
    ) -> Receipt:
        "Replace what a memory says or its metadata (as a whole); pin it, or let it go again.\n\nPinned memories are never pruned; of working and short-term memory nothing can be pinned,\nand entries of context documents are with `user.context.pin`. With `filters` on its metadata\n(see docs/reference.md) it is changed only if it matches them at the moment of the change:\nwhat somebody else has written since it was read is not overwritten.\n\n:raises NotFoundError: there is no such memory, or it does not match.\n:raises InvalidInputError: nothing is given, or it cannot be pinned."
    def delete(self, memory_id: str, *, filters: Mapping[str, object] | None = None) -> Receipt:
        "Delete a memory: it is never returned again. The log keeps what it was, for audits.\n\nWith `filters` on its metadata it is deleted only if it matches them at that moment.\n\n:raises NotFoundError: there is no such memory, or it does not match."
    def extract(
        self,
        session_id: str | None = None,
        *,
        message_ids: Sequence[str] | None = None,
        metadata: Metadata | None = None,
        within: Metadata | None = None,
        batches_max: int = ...,
        dry_run: bool = False,
    ) -> Extraction:
        "Have the extractor find facts in the messages that are new, and remember them.\n\nMessages are those of short-term memory, and long-term memories with a role; of a session\n(None: the handle's, or all), or only those of `message_ids`. Each is read once. Facts\nbecome long-term memories with the origins of the messages and with `metadata`; older facts\nare superseded or forgotten where the extractor proposes that, and `undo` takes it all back.\n`within` is metadata that sets facts apart from others: those that are found have it, and\nonly facts that have it are shown to the extractor, changed, or the same as a new one.\n`batches_max` bounds how often the extractor is asked, with up to 20 messages at a time.\nWith `dry_run` nothing changes: what is returned is what would be remembered.\n\nA batch is whole or not at all: where one fails, those before it stand, and its messages are\nread by the next call. If the extractor's answer is invalid, it is asked again with fewer\nmessages; one that makes none alone counts as read, and is told as refused.\n\n:raises InvalidInputError: the store was opened without an extractor, or an argument is not\n    what it must be.\n:raises NotFoundError: one of `message_ids` is not there, and was not read before.\n:raises ExtractorError: it failed, or its answer cannot be used.\n:raises QuotaExceededError: there is no room for what was found.\n:raises EmbedderError: the messages could not be embedded."
    def undo(self, extraction_id: str) -> Undone:
        "Take back what an extraction has done, all or none; its messages stay read.\n\nFacts that it added go, unless somebody has reworded them since. Superseded facts become\ncurrent again, and forgotten facts are restored. Once is enough, and more does no harm.\n\n:raises NotFoundError: there is no such extraction.\n:raises QuotaExceededError: there is no room for what comes back."
    def set_tier(self, tier: Tier | str) -> None:
        "Set this user's tier, and with it the limits, from now on and durably.\n\nA tier below the present use deletes nothing: reads work, adds are refused until there is\nroom, and `usage` says so.\n\n:raises InvalidInputError: there is no such tier."
    def grant(self, subject: str, right: Right | str = ...) -> dict[str, Right]:
        'Give a person, an agent or an API key a right, in place of the one that it had.\n\nReturns the right of each subject then, as `grants` does.\n\n`subject` is "person:ada" (a name alone is a person), "agent:planner" or "key:" and the id\nof a key. The rights are "read"; "write", which includes it; "manage", which includes both,\ngrants and the tier. From its first grant on, the scope is open to nobody else, but for the\nembedding process and the person of the scope\'s own name.\n\n:raises AccessDeniedError: the subjects of the handle may not manage here.\n:raises InvalidInputError: no subject, an unknown right, or too many grants.'
    def revoke(self, subject: str) -> dict[str, Right]:
        "Take the right of a subject: its next read or write is refused, at every door.\n\nReturns the right of each subject that still has one.\n\n:raises AccessDeniedError: the subjects of the handle may not manage here.\n:raises NotFoundError: it has no grant."

class Episodes:
    def lasting(self, ttl_s: float | None) -> Self:
        "Return a handle whose adds expire after some seconds; None: as the settings say.\n\n:raises InvalidInputError: it is not above 0."
    def start(
        self,
        goal: str,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        auto_prune: bool | None = None,
    ) -> Receipt:
        "Start an episode; the receipt's `memory_id` is what `step` and `finish` take.\n\nThe agent is the one named, the handle's, or \"default\".\n\n:raises QuotaExceededError: the agent is at its limit and none of its episodes is finished\n    (`auto_prune` lets the oldest running one go), or too many bytes."
    def step(
        self,
        episode_id: str,
        action: str,
        *,
        observation: str | None = None,
        outcome: str | None = None,
        error: str | None = None,
    ) -> Receipt:
        "Add a step to a running episode.\n\n:raises NotFoundError: there is no such episode.\n:raises InvalidInputError: it is finished."
    def finish(
        self, episode_id: str, result: str | None = None, *, success: bool = True
    ) -> Receipt:
        "End a running episode, with words about it or without.\n\n:raises NotFoundError: there is no such episode.\n:raises InvalidInputError: it is finished already."
    def put(self, episode: Episode) -> Receipt:
        "Put an episode as it is elsewhere: with its id, the steps it kept, and its end.\n\nIn one write, whole or not at all. One that was put or started before adds nothing. When the\nlog got it is not taken over; where fewer steps may be kept, the oldest leave.\n\n:raises QuotaExceededError: no room for it.\n:raises InvalidInputError: the numbers of its steps do not add up, its id is taken, or it is\n    a summary of some."
    def get(self, episode_id: str) -> Episode:
        "Return an episode. A summary of some is one without steps; its goal is what it says.\n\n:raises NotFoundError: there is none with this id."
    def recent(self, agent_id: str | None = None, *, limit: int = 20) -> list[Episode]:
        "Return an agent's episodes, newest first."

class ContextDocument:
    def lasting(self, ttl_s: float | None) -> Self:
        "Return a handle whose adds expire after some seconds; None: as the settings say.\n\n:raises InvalidInputError: it is not above 0."
    def add(
        self,
        section: str,
        text: str,
        *,
        pinned: bool = False,
        metadata: Metadata | None = None,
        auto_archive: bool = False,
    ) -> ContextReceipt:
        'Put an entry at the end of a section; "" is the part before the first heading.\n\nA section that is not there begins at the end of the document. With `auto_archive` the\nstalest entries go to the archive if there is no room.'
    def edit(self, entry_id: str, text: str, *, auto_archive: bool = False) -> ContextReceipt:
        "Let an entry say something else. Its list marker and place stay.\n\n:raises NotFoundError: there is no such entry."
    def remove(self, entry_id: str) -> ContextReceipt:
        "Remove an entry. `restore` brings it back.\n\n:raises NotFoundError: there is no such entry."
    def touch(self, *entry_ids: str) -> ContextReceipt:
        "Mark entries as used: the stalest are archived first.\n\n:raises NotFoundError: one of them is not there."
    def pin(self, *entry_ids: str, pinned: bool = True) -> ContextReceipt:
        "Keep entries from being archived to make room, or no longer.\n\n:raises NotFoundError: one of them is not there."
    def change(
        self,
        changes: Sequence[BlockChange],
        *,
        expected: bytes | None = None,
        auto_archive: bool = False,
    ) -> ContextReceipt:
        "Carry out changes in their order, all or none, in one append.\n\n`expected` is `text_digest(await render())` of what the changes were made for.\n\n:raises StaleDocumentError: `expected` is not the digest of the document's text.\n:raises InvalidInputError: a text is not one block, or not of the heading it says it is.\n:raises NotFoundError: a change names a block that is not there."
    def check_text(self, text: str, *, auto_archive: bool = False) -> str:
        "Return a text as the document would hold it: masked, as the settings say.\n\nSee, before any work on it, that the document can hold as many bytes; with `auto_archive`,\ntwice as many.\n\n:raises QuotaExceededError: it cannot, and has fewer now."
    def new_entry_id(self) -> str:
        "Return an id that was never used, for an `InsertBlock`."
    def archive(
        self, entry_ids: Sequence[str] | None = None, *, free: float = ...
    ) -> ContextReceipt:
        "Move entries to the archive: those named, or the stalest until a good part is free.\n\nStalest is least recently added, edited, touched or read; pinned ones stay unless named.\n`free` is which part of what is there is to go, from 0.3 to 0.5. A document of which that\npart of the soft limit is free anyway stays as it is. If nothing was archived, or less than\n0.3, the receipt's `warning` gives the reason.\n\n:raises NotFoundError: there is no such document or entry."
    def restore(self, entry_ids: Sequence[str]) -> ContextReceipt:
        "Bring archived or removed entries back to their place, all or none.\n\n:raises ContextLimitError: there is no room for all of them.\n:raises NotFoundError: one of them never was."
    def archived(self) -> list[ContextEntry]:
        "Return the archived entries in the order of their places."
    def search_archive(self, query: str, top_k: int = 5) -> list[ContextHit]:
        "Return the archived entries of this document that best answer a query, by meaning.\n\n:raises InvalidInputError: an empty query, a bad number.\n:raises EmbedderError: the query could not be embedded."
    def render(self) -> str:
        "Return the text of the document."
    def size(self) -> ContextSize:
        "Return how large the document is, in tokens, and what its limits are."
    def entries(self) -> list[ContextEntry]:
        "Return the entries in order; headings are in their `section`."
    def get(self, entry_id: str) -> ContextEntry:
        "Return an entry, living or archived; that counts as a use of it, in memory only.\n\n:raises NotFoundError: there is no such entry in this document."
    def note_read(self, entry_id: str) -> None:
        "Note that an entry was of use; in memory only."
    def blocks(self) -> list[DocumentBlock]:
        "Return headings and entries in order, with their own texts: `render` joins them."
    def synced(self, label: str = "") -> tuple[tuple[str, bytes], ...] | None:
        "Return the base that `note_synced` recorded last, or None if it has another label.\n\nA line missing in one file was not deleted in another: a base is good for its own file only."

class UserContext(ContextDocument):
    def __call__(
        self,
        query: str,
        session_id: str | None = None,
        limit: int | None = None,
        *,
        token_budget: int | None = None,
        max_item_tokens: int | None = None,
        document: str | None = ...,
    ) -> Prompt:
        "Return text for a prompt: MEMORY.md, the last messages, and related memories.\n\nFirst the `document` (None: no document); then the last 6 messages of the session (the\nhandle's, if none is named) and of no other, oldest first; then, of all sessions, the\n`limit` best long-term memories and summaries (None: 5, or what a budget holds). Duplicates\nand the query itself are left out. Facts that no longer hold are left out, unless the query\nasks about an earlier time: then `until` says until when it was true. `.text` is the prompt.\n\n`.text` has at most `token_budget` tokens: `Settings.token_counter` counts, an estimate as\nthe most that they may be. A text of more than `max_item_tokens` (None: half of the budget)\nis cut at sentences around what the query is about, and so is the last one that has room."
    def document(self, name: str) -> ContextDocument:
        "Return a handle on the document of this name. No I/O.\n\n:raises InvalidInputError: a name that is empty, over 512 bytes, or not Unicode."
    def documents(self) -> list[DocumentInfo]:
        "Return the list of documents, by name."
    def create(self, name: str, text: str = "") -> ContextReceipt:
        "Make a new document of a Markdown text.\n\n:raises InvalidInputError: there is one of that name.\n:raises ContextLimitError: the text is too large."
    def rename(self, old: str, new: str) -> ContextReceipt:
        "Give a document another name; its archive goes with it.\n\n:raises NotFoundError: there is none of the old name.\n:raises InvalidInputError: there is one of the new name."
    def rename_all(self, names: Mapping[str, str]) -> None:
        "Give documents other names, from old to new, all or none. See `rename`."
    def delete(self, name: str) -> ContextReceipt:
        "Delete a document with its archive. `restore` brings back what of it is named.\n\n:raises NotFoundError: there is none of that name."
    def delete_all(self, names: Sequence[str]) -> None:
        "Delete documents with their archives, all or none. See `delete`."

class PastMemory(UserMemory):
    moment: Moment
    lost: int
    def close(self) -> None:
        "Let go of it, as the end of its block does. It answers nothing more."

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

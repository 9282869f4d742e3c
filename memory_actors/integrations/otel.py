"""Traces and metrics by the GenAI semantic conventions of OpenTelemetry, for memory.

    from memory_actors.integrations.otel import instrument

    instrument()  # once in a process, after the providers are set

Each call that searches or changes a memory is a span, with the steps below it that are done in
other tasks and threads. A batch of several callers is one step, below the first of them and linked
to the others. Texts are left out unless `capture_content` asks for them.

The only importer of opentelemetry (extra `otel`). The conventions are in development:
names may change.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from inspect import signature
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from memory_actors.api.operations import OPERATIONS, OWNERS, Operation
from memory_actors.base.errors import InvalidInputError, importing
from memory_actors.base.package import version
from memory_actors.base.privacy import hashed
from memory_actors.base.records import JsonObject
from memory_actors.base.tracing import watch
from memory_actors.sharing import remote
from memory_actors.users.handles.redacting import Redacting, redacting

with importing("traces need {}", "otel"):
    from opentelemetry import metrics, trace
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

SCOPE: Final = "memory_actors"
PROVIDER: Final = "memory_actors"
DURATION: Final = "gen_ai.client.operation.duration"
BUCKETS_S: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
_OPERATIONS: Final[Mapping[str, str]] = {
    "search_memory": "retrieve context context.search_archive documents.find",
    "create_memory": (
        "add add_many add_with_auto_prune turn restore extract approve short_term.add_message "
        "episodes.start context.add"
    ),
    "update_memory": (
        "update entities.observe entities.end entities.remove_observation episodes.step "
        "episodes.finish context.edit context.pin"
    ),
    "upsert_memory": ("working.set entities.add_entity entities.relate episodes.put documents.put"),
    "delete_memory": (
        "delete delete_many purge forget reject apply_retention working.delete entities.delete "
        "documents.delete context.remove"
    ),
}
CONVENTION: Final[Mapping[str, str]] = {
    operation: name for name, listed in _OPERATIONS.items() for operation in listed.split()
}
"""The name in the conventions of each operation that searches or changes memories."""
TEXTS: Final = ("content", "text", "observation", "goal", "name")
"""The arguments of a write that are what the memory says."""

_inside: ContextVar[bool] = ContextVar("inside", default=False)
"""True below a call that has a span: an operation that another one uses has none."""
_instrumented: list[Callable[[], None]] = []


def instrument(
    *,
    tracer_provider: "TracerProvider | None" = None,
    meter_provider: "MeterProvider | None" = None,
    capture_content: bool = False,
) -> Callable[[], None]:
    """Trace and measure every memory system of this process; return what ends that.

    The providers are the global ones where none are given. `capture_content` adds the text of
    queries (`gen_ai.memory.query.text`) and the records that were found or written
    (`gen_ai.memory.records`, JSON): they are your users' words. `gen_ai.memory.store.id` is a hash
    of the user's id, as in our logs.

    :raises InvalidInputError: it is done already.
    """
    if _instrumented:
        raise InvalidInputError("this process is instrumented already: end that first")
    tracing = _Tracing(
        trace.get_tracer(SCOPE, version(), tracer_provider),
        metrics.get_meter(SCOPE, version(), meter_provider).create_histogram(
            DURATION,
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=BUCKETS_S,
        ),
        capture_content,
    )
    replaced = [
        _replace(owner, OPERATIONS[name], tracing) for name in CONVENTION for owner in _owners(name)
    ]
    watch(tracing)

    def end() -> None:
        watch(None)
        for put_back in replaced:
            put_back()
        _instrumented.clear()

    _instrumented.append(end)
    return end


def _owners(name: str) -> Iterator[type]:
    """Yield the classes whose method an operation is: of the engine, and of its clients."""
    operation = OPERATIONS[name]
    owner = OWNERS["context" if name == "context" else name.rpartition(".")[0]]
    for one in (owner, getattr(remote, owner.__name__)):
        yield next(kind for kind in one.__mro__ if operation.method.__name__ in vars(kind))


def _replace(owner: type, operation: Operation, tracing: "_Tracing") -> Callable[[], None]:
    """Put a method that is traced in the place of one; return what puts that one back."""
    name = operation.method.__name__
    original = vars(owner)[name]
    masks = issubclass(owner, Redacting)
    method = original.__wrapped__ if masks else original

    @functools.wraps(method)
    async def traced(self: object, *args: object, **kwargs: object) -> object:
        if _inside.get():
            return await method(self, *args, **kwargs)
        with tracing.call(self, operation, args, kwargs) as told:
            result = await method(self, *args, **kwargs)
            told(result)
            return result

    setattr(owner, name, redacting(traced) if masks else traced)  # a trace has what is stored
    return lambda: setattr(owner, name, original)


class _Mark(NamedTuple):
    context: "Context"
    span: "Span"


class _Tracing:
    def __init__(self, tracer: "Tracer", durations: "Histogram", capture_content: bool):
        self._tracer = tracer
        self._durations = durations
        self._captures = capture_content

    @contextmanager
    def call(
        self, handle: object, operation: Operation, args: Sequence[object], kwargs: JsonObject
    ) -> Iterator[Callable[[object], None]]:
        convention = CONVENTION[operation.name]
        always = {"gen_ai.operation.name": convention, "gen_ai.provider.name": PROVIDER}
        about = {"memory_actors.operation": operation.name, **_of_handle(handle)}
        given: Mapping[str, object] = {}
        with suppress(TypeError):  # a call that is wrong has none
            given = signature(operation.method).bind(None, *args, **kwargs).arguments
        failed: dict[str, str] = {}
        started_s, token = perf_counter(), _inside.set(True)
        try:
            with self._tracer.start_as_current_span(
                convention, kind=SpanKind.INTERNAL, attributes=always | about,
                record_exception=False, set_status_on_exception=False,
            ) as span:  # fmt: skip
                try:
                    yield lambda result: self._tell(span, given, result)
                except BaseException as error:
                    failed["error.type"] = type(error).__name__
                    span.set_attributes(failed)
                    span.set_status(Status(StatusCode.ERROR))  # messages may quote what was said
                    raise
        finally:
            _inside.reset(token)
            self._durations.record(perf_counter() - started_s, always | failed)

    def _tell(self, span: "Span", given: Mapping[str, object], result: object) -> None:
        if not span.is_recording():
            return
        found = result if isinstance(result, list | tuple) else getattr(result, "parts", [result])
        ids = [one for one in map(_id_of, found) if one is not None]
        told: JsonObject = {"gen_ai.memory.record.count": len(found)}
        if len(ids) == 1:
            told["gen_ai.memory.record.id"] = ids[0]
        if self._captures:
            if "query" in given:
                told["gen_ai.memory.query.text"] = given["query"]
            records = [_record(one, given) for one in found]
            if records := [one for one in records if one is not None]:
                told["gen_ai.memory.records"] = msgspec.json.encode(records).decode()
        span.set_attributes(told)

    # --- steps

    def here(self) -> _Mark | None:
        span = trace.get_current_span()
        return _Mark(trace.set_span_in_context(span), span) if span.is_recording() else None

    def step(
        self, name: str, callers: Sequence[Any], **attributes: int | str
    ) -> AbstractContextManager[object]:
        marks = [mark for mark in callers if mark is not None]
        if not marks:
            return trace.use_span(trace.INVALID_SPAN)
        first, *others = marks
        return self._tracer.start_as_current_span(
            name, context=first.context, attributes=attributes, record_exception=False,
            links=[Link(mark.span.get_span_context()) for mark in others],
        )  # fmt: skip


def _of_handle(handle: Any) -> dict[str, str]:
    scope = getattr(handle, "_scope", None)
    about = handle._on if scope is None else scope.on  # noqa: SLF001
    told = {
        "gen_ai.memory.store.id": hashed(about.user_id),
        "gen_ai.agent.id": about.agent_id,
        "gen_ai.conversation.id": about.session_id,
    }
    return {name: value for name, value in told.items() if value is not None}


def _id_of(one: object) -> str | None:
    for name in ("memory_id", "extraction_id"):
        if (found := getattr(one, name, None)) is not None:
            return str(found)
    entries: Sequence[str] = getattr(one, "entry_ids", ())
    return entries[0] if len(entries) == 1 else None


def _record(one: object, given: Mapping[str, object]) -> dict[str, object] | None:
    said = [getattr(one, name, None) for name in ("content", "text", "value")]
    said += [given.get(name) for name in TEXTS]
    told = {
        "content": next((text for text in said if text is not None), None),
        "id": _id_of(one),
        "score": getattr(one, "score", None),
        "metadata": getattr(one, "metadata", None) or given.get("metadata") or None,
    }
    if told["content"] is None:
        return None
    return {name: value for name, value in told.items() if value is not None}

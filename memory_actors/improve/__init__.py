"""Improving a text in rounds, in memory that does not grow with them.

    result = await improve(text)  # by the local pair: LocalCritic(), LocalReviser()
    async for event in improve_stream(text, critic=..., reviser=...):
        ...

`loop` is the way in, `records` has events, results and limits, `recording` its episode; `local` is
a pair that needs nothing, `llm` one that asks a model. `bounded` holds the collections that the
history is kept in.
"""

from eventlog.core.lazy import import_lazily

import_lazily(__name__)

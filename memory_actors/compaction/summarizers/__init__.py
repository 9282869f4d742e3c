"""From a cluster of old memories to the text that stands in their place.

`ExtractiveSummarizer` is the default: the memories' own sentences, no LLM. `OpenAISummarizer` asks
a language model (extra `llm`), `CallableSummarizer` a function of yours.
"""

from memory_actors.compaction.summarizers.extractive import ExtractiveSummarizer
from memory_actors.compaction.summarizers.protocol import (
    WORDS_MAX,
    CallableSummarizer,
    Cluster,
    OpenAISummarizer,
    Summarizer,
    heading,
)
from memory_actors.compaction.summarizers.sentences import count_words

__all__ = [
    "WORDS_MAX",
    "CallableSummarizer",
    "Cluster",
    "ExtractiveSummarizer",
    "OpenAISummarizer",
    "Summarizer",
    "count_words",
    "heading",
]

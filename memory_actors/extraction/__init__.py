"""From new messages to proposed facts: what to add, what holds no more, what to forget.

`CallableExtractor` asks a function of yours, `OpenAIExtractor` a language model (extra `llm`), and
a name such as `ollama:MODEL` one on this machine.
kinds/extracting.py decides which proposals are applied.
"""

from memory_actors.extraction.llm import OpenAIExtractor, extractor_of
from memory_actors.extraction.protocol import (
    CallableExtractor,
    Conversation,
    Extract,
    Extractor,
    KnownFact,
    Proposal,
    Spoken,
)

__all__ = [
    "CallableExtractor",
    "Conversation",
    "Extract",
    "Extractor",
    "KnownFact",
    "OpenAIExtractor",
    "Proposal",
    "Spoken",
    "extractor_of",
]

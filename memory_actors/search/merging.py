"""The hits of several users as those of one search.

Each user is searched by their own indexes. A score is the chance that a hit answers, whichever
index it comes from, so the hits of several users compare as those of several kinds do. Five LoCoMo
conversations, searched together: R@10 .739 as five scopes, .752 in one store, .768 where each
question is asked of its own conversation.
"""

from collections.abc import Mapping, Sequence
from heapq import merge
from operator import attrgetter

from msgspec.structs import replace

from memory_actors.base.records import Hit
from memory_actors.search.choosing import Folding
from memory_actors.search.query import Query
from memory_actors.search.retrieval import COMPRESSED_MAX, KIND_ORDER, fitting, within


def merged(found: Mapping[str, Sequence[Hit]], query: Query) -> list[Hit]:
    """Return the best hits for a query, of those that were found for it by scope.

    Of hits that say the same the best is one, of the first scope if several are. With a diversity,
    the hits of each scope keep their order.
    """
    answered = max((some[0].answered for some in found.values() if some), default=0.0)
    of_each = [
        [replace(hit, scope=scope, answered=answered) for hit in some]
        for scope, some in found.items()
    ]
    score = attrgetter("score")
    ordered = [one for some in of_each for one in some]
    if query.diversity:
        ordered = list(merge(*of_each, key=score, reverse=True))
    else:
        ordered.sort(key=score, reverse=True)
    folding = Folding()
    hits = folding.with_duplicates([hit for hit in ordered if folding.is_new(hit)])
    memories = [hit for hit in hits if hit.source != "compressed"]
    summaries = [hit for hit in hits if hit.source == "compressed"][:COMPRESSED_MAX]
    if query.each_kind:
        first = {hit.memory_type: hit for hit in reversed(memories)}
        memories.sort(key=lambda hit: first[hit.memory_type] is not hit)
    if query.token_budget is not None:
        memories, left = fitting(memories, query, query.token_budget)
        summaries, _ = fitting(summaries, query, left)
    hits = within(memories, summaries, query.top_k)
    if not query.diversity:
        hits.sort(key=lambda hit: (hit.source == "compressed", -hit.score))
    if query.order == "kind":
        hits.sort(key=lambda hit: (hit.source == "compressed", KIND_ORDER[hit.memory_type]))
    return hits

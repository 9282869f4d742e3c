"""Purges: the words of a source are taken out of a user's memory, over all kinds, in one append.

Each memory becomes what it would be had the source not spoken: its life is told again from the log
without the source's events. Where nothing is left it goes; where others had a say it says what they
have said last. That costs no other memory: a kind's own events carry it out, so replay, indexes and
audits know them.

A summary that has an original of the source goes, for its text cannot be taken apart. The other
originals come back, and are free to be compressed again, into a summary without the source. Those
for which there is no room stay out, and `restore` brings them back: taking out is never refused for
want of room.
"""

from memory_actors.kinds.purging.command import Purge, originals
from memory_actors.kinds.purging.decide import purge
from memory_actors.kinds.purging.pasts import standing

__all__ = ["Purge", "originals", "purge", "standing"]

"""Actors: one for each user who is in memory, from mailbox to append, and who keeps them there."""

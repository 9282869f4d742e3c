"""One user live: the actor, its indexes, its totals, and the writers that give it commands."""

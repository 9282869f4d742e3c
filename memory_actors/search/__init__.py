"""How memories are found: embedding, indexes, ranking, and the facts that replaced others."""

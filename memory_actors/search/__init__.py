"""Search for memories: embedding, indexes, ranking, and the facts that replaced others."""

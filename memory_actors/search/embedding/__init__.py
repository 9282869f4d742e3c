"""From texts to vectors: the embedder's protocol, the default model, caching and batching."""

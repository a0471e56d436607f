"""Who is nearest: a run's embeddings searched by the user's ids, exactly or by an approximate index."""

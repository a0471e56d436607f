"""How good are the embeddings? Linear probe, clustering, search, ring similarity; statistics of a graph."""

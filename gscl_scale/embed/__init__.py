"""From a checkpoint to the embeddings of all nodes, layer by layer, keyed by the user's ids."""

"""Where graphs come from: each source reads its input into a GraphDraft."""

"""The engine `exact`: breadth-first searches."""

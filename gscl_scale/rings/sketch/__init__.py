"""The engine `sketch`: the lowest nodes of every ball, in one pass per hop."""

"""How work runs: on threads or on Ray, with progress and a log. Knows nothing about graphs."""

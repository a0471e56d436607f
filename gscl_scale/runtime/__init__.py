"""How work runs and how it is told: threads or Ray, progress, the log. Knows nothing about graphs."""

"""What is missing on this machine for the work that is configured, and the cure."""

"""The configuration: one frozen section per stage, checked before anything starts."""

"""One safe step of scheduled retraining, for any scheduler and at any time."""

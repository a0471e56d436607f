"""Our figures and the peers', measured side by side in one run."""

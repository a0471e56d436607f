"""What each stage of a run needs, from the size of the graph and the settings alone."""

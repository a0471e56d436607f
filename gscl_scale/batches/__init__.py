"""From samples to steps: the order of an epoch, and batches of distinct nodes with positions into them."""

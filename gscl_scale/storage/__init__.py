"""Files on this machine, a shared disk or an object store: whole or absent, and created by one writer only."""

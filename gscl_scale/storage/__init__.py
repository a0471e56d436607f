"""Files on this machine, a shared disk or an object store: complete or absent, and created by one writer only."""

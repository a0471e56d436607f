"""A clock that jumps, for a process that has this folder on its PYTHONPATH: now an hour ahead, now one behind."""

import itertools
import time

_right = time.time
_hours = itertools.cycle((0, 0, 0, 1, 0, 0, -1))

time.time = lambda: _right() + 3600 * next(_hours)

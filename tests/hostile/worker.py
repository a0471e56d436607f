"""A process that reads one mutated input after the other, within bounded memory."""

import json
import os
import resource
import sys
from pathlib import Path

from tests.hostile.readers import READERS, use
from tests.hostile.trial import Guard, one, warm_up
from tests.maps import shorten_maps

ROOM = 1_400_000_000  # bytes that an input may take beside the libraries, so that all is below what the campaign allows


def _data() -> int:
    """Bytes that this process has asked for so far, most of them never touched."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData"))


def main() -> None:
    """Lines of [reader, seed, number] come in, lines of results go out."""
    corpus, work = Path(sys.argv[1]), Path(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    use(corpus)
    shorten_maps()
    for name in (name for name, reader in READERS.items() if reader.targets):
        warm_up(name, corpus, work)
    most = _data() + ROOM
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    guard = Guard()
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        name, seed, number = json.loads(line)
        print(json.dumps(one(name, seed, number, corpus, work, guard)), file=answers, flush=True)


if __name__ == "__main__":
    main()

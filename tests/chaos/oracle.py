"""What an undisturbed run has made, and whether another one has made the same."""

import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from gscl_scale.io.json import read_json
from gscl_scale.run.log import read_curve

TOLERANCE = 1e-4  # relative, of losses that other numbers of processes have added up in another order
_EXACT = ("graph/*", "samples/*", "samples/*/*")


def false_files(run: Path, reference: Path, damaged: set[Path]) -> str:
    """What is there under its final name and is not what the undisturbed run has; "" if nothing is.

    Manifests grow, so that only those of finished stages are equal.
    """
    for pattern in _EXACT:
        for path in sorted(run.glob(pattern)):
            expected = reference / path.relative_to(run)
            growing = path.name == "manifest.json" or path.suffix == ".jsonl"
            if not path.is_file() or path.name.startswith(".") or path in damaged or growing:
                continue
            if not expected.exists():
                return f"{path} is not in the undisturbed run"
            if path.read_bytes() != expected.read_bytes():
                return f"{path} has other bytes than in the undisturbed run"
    return ""


def differences(run: Path, reference: Path, exact: bool, logged: bool = True) -> str:
    """What a finished run has that the undisturbed one has not, or the other way round; "" if they are equal."""
    for pattern in _EXACT:
        names = [
            {
                str(path.relative_to(root))
                for path in root.glob(pattern)
                if path.is_file() and "elsewhere" not in path.name
            }
            for root in (run, reference)
        ]
        if names[0] != names[1]:
            return f"only one of both has {sorted(names[0] ^ names[1])[:5]}"
        for name in sorted(names[0]):
            if (run / name).read_bytes() != (reference / name).read_bytes():
                return f"{name} has other bytes"
    if logged and (wrong := _other_losses(run, reference, 0 if exact else TOLERANCE)):
        return wrong
    tables = [pq.read_table(root / "embeddings/embeddings.parquet") for root in (run, reference)]
    if tables[0].column("id") != tables[1].column("id"):
        return "the ids are others"
    vectors = [np.stack(table.column("embedding").to_numpy()) for table in tables]
    if (exact and not np.array_equal(*vectors)) or not np.allclose(*vectors, rtol=0.01, atol=0.01):
        return "the embeddings are others"
    figures = [read_json(root / "metrics.json")["probe"]["trained"] for root in (run, reference)]
    if exact and figures[0] != figures[1]:
        return f"the figures are others: {figures}"
    left = [str(path) for path in run.rglob(".*.tmp") if "elsewhere" not in path.name]
    return f"temporary files are left: {left}" if left else ""


def _other_losses(run: Path, reference: Path, tolerance: float) -> str:
    mine, theirs = ([event["loss"] for event in read_curve(root / "log.jsonl")] for root in (run, reference))
    if len(mine) != len(theirs):
        return f"{len(mine)} losses, {len(theirs)} in the undisturbed run"
    return "" if np.allclose(mine, theirs, rtol=tolerance, atol=0) else "the losses are others"


def follow(sentence: str, run: Path) -> list[str]:
    """Do what a sentence advises: delete what it names. What is to be run first, if it names another command."""
    if (named := re.search(r"delete (?:(its folder)|it\b|(\S+?))(?: and|,|;| to|$)", sentence)) is not None:
        path = Path(re.sub(r"[:,;].*", "", sentence.removeprefix("gscl-scale: ").split()[0]))
        target = path.parent if named[1] else Path(named[2]) if named[2] else path
        assert target.is_relative_to(run), f"not a place of the run: {sentence}"
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    verb = re.search(r"run gscl-scale (\w+) again", sentence)
    return [verb[1]] if verb else []

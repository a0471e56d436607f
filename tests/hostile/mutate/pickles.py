"""Pickles and files of torch with other tensors, or with code that acts when it is loaded."""

import io
import pickle
import zipfile
from pathlib import Path
from random import Random

import numpy as np
import torch

from tests.hostile.mutate.arrays import members_of, zipped
from tests.hostile.mutate.blind import Executes, any_bytes, pick
from tests.hostile.mutate.text import any_value


def any_pickle(rng: Random, content: bytes) -> bytes:
    """A pickle with other bytes, or of something that acts when it is loaded."""
    if rng.random() < 0.8:
        return any_bytes(rng, content)
    made = rng.choice((Executes(), [Executes()], {1: Executes()}, Path, print, np.zeros((3, 4)), {}, None, [[1]] * 9))
    return pickle.dumps(made, protocol=rng.choice((0, 2, 4)))


def any_checkpoint(rng: Random, content: bytes) -> bytes:
    """A file of torch with other bytes, other tensors, or a pickle that acts."""

    def changed() -> object:
        return _changed_state(rng, torch.load(io.BytesIO(content), weights_only=True))

    return pick(
        rng,
        (35, lambda: any_bytes(rng, content)),
        (7, lambda: _saved({"model": Executes(), "optimizer": {}})),
        (6, lambda: pickle.dumps({"model": Executes()}, protocol=rng.choice((0, 2, 4)))),
        (2.5, lambda: _saved(changed(), zipped=False)),
        (2.5, lambda: any_bytes(rng, _saved(changed(), zipped=False))),
        (13, lambda: _other_member(rng, members_of(content))),
        (2, lambda: _saved({"model": {"w": torch.zeros(1).expand(2**40)}, "optimizer": {}})),
        (2, lambda: _packed(members_of(content))),
        (30, lambda: _saved(changed())),
    )


def _saved(state: object, zipped: bool = True) -> bytes:
    file = io.BytesIO()
    torch.save(state, file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


def _other_member(rng: Random, members: dict[str, bytes]) -> bytes:
    name = rng.choice(list(members))
    changed = {**members, name: any_bytes(rng, members[name])}
    return zipped(changed, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))


def _packed(members: dict[str, bytes]) -> bytes:
    name = next(one for one in members if "/data/" in one)
    return zipped({**members, name: bytes(200 << 20)}, zipfile.ZIP_DEFLATED)


def _changed_state(rng: Random, state: object) -> object:
    if isinstance(state, dict) and state:
        key = rng.choice(list(state))
        return pick(
            rng,
            (1, lambda: {name: value for name, value in state.items() if name != key}),
            (1, lambda: {**state, rng.choice(("other", 7, "model.x", "")): state[key]}),
            (8, lambda: {**state, key: _changed_state(rng, state[key])}),
        )
    if isinstance(state, torch.Tensor):
        return _changed_tensor(rng, state)
    return any_value(rng, state if isinstance(state, (int, str)) else None)


def _changed_tensor(rng: Random, tensor: torch.Tensor) -> object:
    kinds = (
        lambda: torch.full_like(tensor, rng.choice((float("nan"), float("inf")))),
        lambda: tensor.to(rng.choice((torch.float64, torch.int64, torch.complex64))),
        lambda: tensor.reshape(-1),
        lambda: tensor[:0] if tensor.dim() else tensor.reshape(1),
        lambda: torch.zeros(rng.choice(((3, 5, 7), (0,)))),
        lambda: torch.zeros(1).expand(tensor.shape),
        lambda: tensor.to_sparse() if tensor.dim() else tensor,
        lambda: tensor.to("meta"),
        lambda: rng.choice(([1.0, 2.0], None, "text")),
        lambda: torch.quantize_per_tensor(tensor.float().reshape(-1), 0.1, 0, torch.qint8),
    )
    return rng.choice(kinds)()

"""Our optimizers are torch's: the same numbers, whose states either of them reads."""

import copy

import pytest
import torch

from gscl_scale.model import optimizers

ADAM = {"lr": 0.1, "weight_decay": 0.5}


def parameters():
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((3, 4), (4,))]


def descend(optimizer, steps):
    """Steps down a bowl whose curvatures differ."""
    both = optimizer.param_groups[0]["params"]

    def loss():
        optimizer.zero_grad()
        value = sum((one.square() * torch.arange(1, one.numel() + 1).view_as(one)).sum() for one in both)
        value.backward()
        return value

    for _ in range(steps):
        loss()
        optimizer.step(loss)
    return torch.cat([one.detach().flatten() for one in both])


@pytest.mark.parametrize(
    ("name", "settings"), [("Adam", ADAM), ("Adam", {**ADAM, "fused": True}), ("AdamW", ADAM), ("LBFGS", {"lr": 0.1})]
)
def test_steps_and_states_are_those_of_torch(name, settings):
    kinds = getattr(optimizers, name), getattr(torch.optim, name)
    ours, theirs = (kind(parameters(), **settings) for kind in kinds)
    assert torch.equal(descend(ours, 3), descend(theirs, 3))
    for source, kind in ((ours, kinds[1]), (theirs, kinds[0])):
        again = kind([one.detach().clone().requires_grad_() for one in source.param_groups[0]["params"]], **settings)
        again.load_state_dict(copy.deepcopy(source.state_dict()))
        assert torch.equal(descend(again, 2), descend(source, 2))
    assert all(one.grad is not None and one.grad_fn is None for one in ours.param_groups[0]["params"])


def test_adam_and_its_variant_differ_in_the_decay_alone():
    one, other = optimizers.Adam(parameters(), **ADAM), optimizers.AdamW(parameters(), **ADAM)
    assert not torch.equal(descend(one, 2), descend(other, 2))
    assert other.defaults["decoupled_weight_decay"]

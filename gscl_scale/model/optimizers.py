"""Torch's optimizers, without its compiler.

Torch decorates the methods below: where they are first called they import its compiler, only to be left out of it.
That takes more than a second and 140 MB of every training and every probe. Nothing of ours is compiled by it.
"""

import inspect

import torch


class _Plain(torch.optim.Optimizer):
    """The methods as they are below their decorator."""

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)


class Adam(_Plain, torch.optim.Adam):
    """Adam."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))


class AdamW(Adam, torch.optim.AdamW):
    """Adam whose weight decay is apart from its gradients."""


class LBFGS(_Plain, torch.optim.LBFGS):
    """Newton's method with a short memory, over all parameters at once."""

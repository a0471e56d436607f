"""Logistic regression for many labels at once, each label against the rest, under several L2 penalties.

Shapes: n rows, d columns, L labels, P penalties. Each label under each penalty is a convex problem of its own; all of
them are solved together, so that an iteration is two products of matrices. L-BFGS needs some thirty iterations where
the problems are well conditioned, hence the change of variables in `_Basis`.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from gscl_scale.evaluate.vectors import Rows
from gscl_scale.model import optimizers

_MOST_ROTATED = 1024  # columns whose principal axes are computed
_HISTORY = 10
_LEAST = 1e-8  # variance as a share of the mean square: what is less is rounding of rows that are all alike


@dataclass(frozen=True)
class Part:
    """Some rows [n, d] and whether each has each label [n, L] (0 or 1)."""

    rows: Rows
    target: torch.Tensor


@dataclass(frozen=True)
class OneVsRest:
    """Weights [d, L, P] and biases [L, P]."""

    weight: torch.Tensor
    bias: torch.Tensor

    def logits(self, rows: Rows) -> torch.Tensor:
        """Logits [n, L, P]."""
        return rows.times(self.weight.flatten(1)).view(-1, *self.bias.shape) + self.bias


def fit_one_vs_rest(parts: Sequence[Part], penalties: Sequence[float], iterations: int) -> OneVsRest:
    """Minimise for each label the mean loss of all rows plus penalty / 2 x variance x |weights|^2.

    The variance is the mean over the columns, so that penalties mean the same whatever the scale of the rows.
    """
    total = sum(part.target.shape[0] for part in parts)
    share = (_added(part.target.sum(0) for part in parts) + 0.5) / (total + 1)
    basis = _Basis.of(parts, total)
    penalty = torch.tensor(penalties, device=share.device) * basis.variance.mean()
    problem = _Problem([basis.turned(part) for part in parts], total, penalty, iterations)
    spread = share * (1 - share)  # of the loss's curvature at the start, in the direction of the bias
    curvature = spread[:, None] * basis.variance[:, None, None] + penalty
    start = torch.zeros(basis.variance.numel(), share.numel(), len(penalties), device=share.device)
    scale = torch.cat([curvature.rsqrt(), spread.rsqrt()[None, :, None].expand(1, -1, len(penalties))])
    first = torch.cat([start, (torch.logit(share) / scale[-1, :, 0]).expand(len(penalties), -1).T[None]])
    found = problem.solve(first, scale)
    weight = basis.back(found[:-1])
    return OneVsRest(weight, found[-1] - torch.tensordot(basis.mean, weight, 1))


@dataclass(frozen=True)
class _Basis:
    """Variables in which the curvature is nearly diagonal: centred rows, turned to their principal axes if dense.

    mean [d]          of the rows; the bias is not penalised, so centring does not change the solution
    axes [d, d]       None where rows stay as they are
    variance [d]      of the rows along the axes
    """

    mean: torch.Tensor
    axes: torch.Tensor | None
    variance: torch.Tensor

    @classmethod
    def of(cls, parts: Sequence[Part], total: int) -> "_Basis":
        matrices, shift = [part.rows.matrix for part in parts], parts[0].rows.shift
        column_means = _added(_powers(matrix, 1) for matrix in matrices) / total
        mean = column_means if shift is None else column_means - shift
        if matrices[0].layout is torch.strided and mean.numel() <= _MOST_ROTATED:
            moments = _added(_moments(matrix - column_means) for matrix in matrices) / total
            variance, axes = torch.linalg.eigh(moments.double())
            return cls(mean, axes.float(), _above_rounding(variance.float(), column_means))
        squares = _added(_powers(matrix, 2) for matrix in matrices) / total
        return cls(mean, None, _above_rounding(squares - column_means.square(), column_means))

    def turned(self, part: Part) -> Part:
        """The rows in these variables."""
        shift = self.mean if part.rows.shift is None else part.rows.shift + self.mean
        rows = replace(part.rows, shift=shift)
        if self.axes is None:
            return replace(part, rows=rows)
        matrix = rows.times(self.axes)
        return replace(part, rows=Rows(matrix, matrix.T, None))

    def back(self, weight: torch.Tensor) -> torch.Tensor:
        """Weights [d, ...] for the rows as they were given."""
        return weight if self.axes is None else torch.tensordot(self.axes, weight, 1)


def _above_rounding(variance: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    least = _LEAST * (variance.mean() + mean.square().mean())
    return variance.clamp(min=float(least) + 1e-30)  # above 0 for rows of zeros too


def _added(values: Iterable[torch.Tensor]) -> torch.Tensor:
    return functools.reduce(torch.add, values)


def _moments(centred: torch.Tensor) -> torch.Tensor:
    return centred.T @ centred


def _powers(matrix: torch.Tensor, exponent: int) -> torch.Tensor:
    """The sum of each column's values to a power."""
    if matrix.layout is torch.strided:
        return matrix.pow(exponent).sum(0)
    values = matrix.values().pow(exponent)
    return torch.zeros(matrix.shape[1], device=values.device).index_add_(0, matrix.col_indices(), values)


@dataclass(frozen=True)
class _Problem:
    parts: Sequence[Part]
    total: int
    penalty: torch.Tensor
    iterations: int

    def solve(self, first: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        """Weights and, as the last row, biases [d + 1, L, P]; `first` are the scaled ones to begin with."""
        scaled = first.clone().requires_grad_()
        steps: torch.optim.LBFGS = optimizers.LBFGS(
            [scaled], max_iter=self.iterations, max_eval=2 * self.iterations, history_size=_HISTORY,
            line_search_fn="strong_wolfe", tolerance_grad=1e-6, tolerance_change=1e-9,
        )  # fmt: skip

        def loss() -> torch.Tensor:
            with torch.no_grad():
                value, gradient = self.loss(scaled * scale)
                scaled.grad = gradient * scale
            return value

        steps.step(loss)
        return (scaled * scale).detach()

    def loss(self, both: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The sum of all losses, and its gradient [d + 1, L, P]."""
        weight, bias = both[:-1], both[-1]
        gradient, loss = torch.zeros_like(both), (self.penalty * weight.square()).sum() / 2
        gradient[:-1] = self.penalty * weight
        for part in self.parts:
            logits = OneVsRest(weight, bias).logits(part.rows)
            target = part.target[:, :, None]
            loss += (torch.nn.functional.softplus(logits) - target * logits).sum() / self.total
            error = (torch.sigmoid(logits) - target) / self.total
            gradient[:-1] += part.rows.transposed_times(error.flatten(1)).reshape(weight.shape)
            gradient[-1] += error.sum(0)
        return loss, gradient

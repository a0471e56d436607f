"""Random walks and skip-gram against slow computations."""

import numpy as np
import pytest
import scipy.sparse as sp

from gscl_scale import seeding
from gscl_scale.runtime.console import Console
from gscl_scale.studies.peers.skip_gram import (
    SkipGram,
    Walking,
    _count,
    _train,
    embed_walks,
    negatives_table,
    train_pair,
)
from gscl_scale.studies.peers.walks import random_below, running_sums, walk
from tests.peers.test_formulas import DENSE, SPARSE, WEIGHTED
from tests.slow import slow

QUIET = Console(quiet=True)
INDPTR, INDICES = SPARSE.indptr.astype(np.int64), SPARSE.indices


def walk_from(start, length, p=1.0, q=1.0, seed=0, sums=None):
    state, out = np.array([seed], np.uint64), np.empty(length, np.int64)
    walk(INDPTR, INDICES, sums, start, p, q, state, out)
    return out


def steps_expected(t, v, p, q, weights=DENSE):
    """Equation 2 of node2vec: the chances [N] of the node after v, where the walk came from t."""
    chances = np.where(np.arange(20) == t, 1 / p, np.where(DENSE[t] > 0, 1.0, 1 / q)) * weights[v]
    return chances / chances.sum()


@pytest.mark.parametrize("weights", [DENSE, WEIGHTED], ids=["plain", "weighted"])
@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.25, 4.0), *slow((4.0, 0.5), (4.0, 2.0))])
def test_steps_of_a_walk_have_the_chances_of_the_paper(p, q, weights):
    sums = running_sums(sp.csr_array(weights.astype(np.float32)))
    assert (sums is None) == (weights is DENSE)
    nodes = walk_from(0, 400_000, p, q, sums=sums)
    assert (DENSE[nodes[:-1], nodes[1:]] == 1).all()
    t, v, x = nodes[:-2], nodes[1:-1], nodes[2:]
    pairs, counts = np.unique(np.stack([t, v]), axis=1, return_counts=True)
    for (before, here), count in zip(pairs.T, counts, strict=True):
        if count > 3000:
            seen = np.bincount(x[(t == before) & (v == here)], minlength=20) / count
            assert seen == pytest.approx(steps_expected(before, here, p, q, weights), abs=4.5 / np.sqrt(count))


def test_the_first_step_of_a_walk_goes_to_any_neighbour():
    first = np.bincount([walk_from(0, 2, 0.1, 10.0, seed)[1] for seed in range(6000)], minlength=20)
    assert first / 6000 == pytest.approx(DENSE[0] / DENSE[0].sum(), abs=0.03)


def test_visits_are_counted_on_the_walks_that_are_trained_on():
    starts = np.arange(19)
    visits = np.zeros(20, np.int64)
    _count(INDPTR, INDICES, None, starts, np.uint64(5), Walking(1, 9, 0.5, 2.0), visits)
    walks = [walk_from(start, 9, 0.5, 2.0, seeding.mix(np.uint64(start) ^ np.uint64(5))) for start in starts]
    assert (visits == np.bincount(np.concatenate(walks), minlength=20)).all()


def loss_of(row, others, targets):
    scores = others[targets] @ row
    return np.log1p(np.exp(-scores[0])) + np.log1p(np.exp(scores[1:])).sum()


def slopes(function, array):
    """The derivative of a function by each entry of an array."""
    out = np.empty_like(array)
    for place in np.ndindex(array.shape):
        values = []
        for change in (1e-5, -1e-5):
            moved = array.copy()
            moved[place] += change
            values.append(function(moved))
        out[place] = (values[0] - values[1]) / 2e-5
    return out


def test_a_step_of_training_goes_down_the_slope_of_the_loss():
    draw = np.random.default_rng(0)
    row, others = draw.normal(size=6), draw.normal(size=(5, 6))
    kept, targets = np.array([3, 0, 4]), np.array([3, 0, 3, 4])  # a negative equal to the context is left out
    expected_row = row - 0.1 * slopes(lambda moved: loss_of(moved, others, kept), row)
    expected_others = others - 0.1 * slopes(lambda moved: loss_of(row, moved, kept), others)
    row, others = row.astype(np.float32), others.astype(np.float32)
    train_pair(row, others, targets, np.float32(0.1), np.zeros(6, np.float32))
    assert row == pytest.approx(expected_row, abs=1e-5)
    assert others == pytest.approx(expected_others, abs=1e-5)


def test_negatives_come_in_proportion_to_visits_to_the_power_of_three_quarters():
    visits = np.array([0, 1, 16, 81, 0, 625])
    table = negatives_table(visits)
    assert table.size == 64 * 4
    assert np.bincount(table, minlength=6) / table.size == pytest.approx(
        visits**0.75 / (visits**0.75).sum(), abs=1 / table.size
    )


def test_training_takes_the_contexts_within_a_random_window_at_a_falling_rate():
    draw, key, table = np.random.default_rng(0), np.uint64(9), np.arange(19, dtype=np.int32)
    rows, others = draw.normal(size=(2, 20, 4)).astype(np.float32)
    slow_rows, slow_others = rows.copy(), others.copy()
    for number, start in enumerate((2, 7)):
        first = np.uint64(seeding.mix(np.uint64(start) ^ key))
        nodes, choice = walk_from(start, 8, seed=first), np.array([seeding.mix(~first)], np.uint64)
        rate = np.float32(0.025 * (1 - 0.5 - number / 4))
        for place in range(8):
            reach = 1 + random_below(3, choice)
            for other in range(8):
                if 0 < abs(other - place) <= reach:
                    targets = np.array([nodes[other], *(table[random_below(19, choice)] for _ in range(2))])
                    train_pair(slow_rows[nodes[place]], slow_others, targets, rate, np.zeros(4, np.float32))
    starts, total = np.array([2, 7]), 4  # of four walks, two are done
    walking, training = Walking(1, 8, 1.0, 1.0), SkipGram(3, 2)
    _train(INDPTR, INDICES, None, starts, key, walking, training, table, 0.5, total, rows, others)
    assert rows == pytest.approx(slow_rows, abs=1e-5)
    assert others == pytest.approx(slow_others, abs=1e-5)


def test_nodes_of_one_clique_are_more_alike_than_those_of_two():
    dense = np.kron(np.eye(2), np.ones((8, 8))) - np.eye(16)
    dense[0, 15] = dense[15, 0] = 1
    graph = sp.csr_array(dense.astype(np.float32))
    rows, again, other = (
        embed_walks(graph, 8, seed, Walking(40, 20, 1.0, 1.0), SkipGram(2, 5), QUIET) for seed in (0, 0, 1)
    )
    assert (rows == again).all()
    assert (rows != other).any()
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T
    assert cosines[:8, :8].mean() > cosines[:8, 8:].mean() + 0.3

"""The loss of a batch, from a graph's edges to the figure, beside the equations of the paper in float64."""

from itertools import chain, product
from math import exp, log

import numpy as np
import pytest
import torch

from gscl_scale.batches.stream import BatchStream
from gscl_scale.config.config import Config
from gscl_scale.shards.reader import Samples
from gscl_scale.train.comparison import compare
from tests.graphs import make_graph, make_samples, random_edges
from tests.oracles import csr_of, distances

WAYS = list(product(("listwise", "pairwise"), ("in", "each"), (1.0, 0.3)))
TAU, STEP = 0.4, 0.1


def equation_in(positives, negatives, gate):
    """Equation (in): one ratio of the sum over all positives."""
    return -log(min(sum(positives) / (sum(positives) + sum(negatives)), gate))


def equation_out(positives, negatives, gate):
    """Equation (out): a ratio for each positive, with that one alone beside the negatives."""
    return -sum(log(min(one / (one + sum(negatives)), gate)) for one in positives)


def ranking_loss(theta, distance, hops, ranking, positives, gate):
    """The mean over anchors of GSCL-Listwise or GSCL-Pairwise over all rings of a graph."""
    equation = {"in": equation_in, "each": equation_out}[positives]
    total = 0.0
    for row, far in zip(theta, distance, strict=True):
        levels = [far == hop for hop in range(1, hops + 1)] + [far > hops]
        for level in range(hops):
            rings = [[exp(one / (TAU + level * STEP)) for one in row[members]] for members in levels[level:]]
            nearer, farther = rings[0], [ring for ring in rings[1:] if ring]
            if nearer and farther:
                against = [list(chain(*farther))] if ranking == "listwise" else farther
                total += sum(equation(nearer, others, gate) for others in against) / hops
    return total / len(theta)


@pytest.mark.parametrize("number", range(100))
def test_every_loss_is_that_of_the_paper_on_a_small_graph(tmp_path, number):
    generator, hops = np.random.default_rng(number), 1 + number % 3
    nodes = int(generator.integers(6, 25))
    edges = random_edges(nodes, int(generator.integers(3, 2 * nodes)), seed=number)
    make_graph(tmp_path / "graph", edges, nodes)
    values = {
        "rings": {"hops": hops, "width": nodes, "per_ring": "all", "beyond": nodes, "rounds": 1},
        "train": {"batch_size": nodes, "negatives": 0, "epochs": 1},
    }
    config = Config.parse({"graph": {"source": "memory"}, **values})
    make_samples(tmp_path / "graph", tmp_path / "samples", config.rings, 1)
    stream = BatchStream(Samples.open(tmp_path / "samples"), nodes, config.rings, config.train, config.loss)
    batch = stream.batch(0)
    rows = generator.normal(size=(nodes, 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    anchors = batch.nodes[batch.anchors]
    theta = rows[anchors] @ rows.T
    compared = compare(torch.from_numpy(rows[anchors]), torch.from_numpy(rows[batch.nodes]), batch)
    distance = distances(*csr_of(edges, nodes))[anchors]
    for ranking, positives, gate in WAYS:
        settings = {"ranking": ranking, "positives": positives, "gate": gate}
        loss = config.loss.model_copy(update={**settings, "temperature": TAU, "temperature_step": STEP})
        expected = ranking_loss(theta, distance, hops, ranking, positives, gate)
        assert expected > 0
        assert compared.loss(loss, nodes, None).loss.item() == pytest.approx(expected, abs=1e-6, rel=1e-6)

"""Slow, obvious implementations: the loss term by term with plain exp and log, and dense propagation."""

from math import exp, log

import numpy as np


def ring_loss(similarity, present, log_weight, config, own=None):
    """(loss, per_level, gated) by the formulas as printed, in plain floats; `own` is hop 0, told first."""
    hops, num_anchors = len(similarity) - 1, len(similarity[0])
    total, stopped, counted = 0.0, 0, 0
    level_terms, own_terms = [[] for _ in range(hops)], []
    for a in range(num_anchors):
        rings = [
            [float(t) for t, p in zip(s[a], m[a], strict=True) if p] for s, m in zip(similarity, present, strict=True)
        ]
        weights = [1.0] * (hops + 1) if log_weight is None else [exp(float(w[a])) for w in log_weight]
        if own is not None:
            itself = exp(float(own[a]) / config.temperature)
            z = [w * sum(exp(t / config.temperature) for t in ring) for w, ring in zip(weights, rings, strict=True)]
            sums = [total_of for total_of, ring in zip(z, rings, strict=True) if ring]
            denominators = [itself + sum(sums)] if config.ranking == "listwise" else [itself + one for one in sums]
            ratios = [itself / d for d in denominators] if sums else []
            if ratios:
                own_terms.append(-sum(log(min(ratio, config.gate)) for ratio in ratios))
                total += config.hop_zero * own_terms[-1] / hops
            stopped += sum(ratio > config.gate for ratio in ratios)
            counted += len(ratios)
        for j in range(hops):
            tau = config.temperature + j * config.temperature_step
            z = [w * sum(exp(t / tau) for t in ring) for w, ring in zip(weights, rings, strict=True)]
            farther = [q for q in range(j + 1, hops + 1) if rings[q]]
            if not rings[j] or not farther:
                continue
            negatives = [sum(z[j + 1 :])] if config.ranking == "listwise" else [z[q] for q in farther]
            nearer = [z[j]] if config.positives == "in" else [exp(t / tau) for t in rings[j]]
            factor = 1.0 if config.positives == "in" else weights[j]
            ratios = [one / (one + others) for others in negatives for one in nearer]
            term = -factor * sum(log(min(ratio, config.gate)) for ratio in ratios)
            stopped += sum(ratio > config.gate for ratio in ratios)
            counted += len(ratios)
            level_terms[j].append(term)
            total += term / hops
    levels = level_terms if own is None else [own_terms, *level_terms]
    per_level = [sum(terms) / max(1, len(terms)) for terms in levels]
    return total / num_anchors, per_level, stopped / max(1, counted)


def dense_adjacency(graph):
    """A, where row v has ones at the neighbours of v."""
    adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
    for v in range(graph.num_nodes):
        adjacency[v, graph.indices[graph.indptr[v] : graph.indptr[v + 1]]] = 1
    return adjacency


def dense_propagation(graph, encoder="gcn"):
    """The messages of an encoder as a matrix, entry by entry as the formulas say."""
    adjacency = dense_adjacency(graph)
    if encoder == "sage":
        return adjacency / np.maximum(adjacency.sum(axis=1, keepdims=True), 1)
    looped = adjacency + np.eye(graph.num_nodes)
    if encoder == "gat":
        return looped
    return looped / np.sqrt(looped.sum(axis=1))[:, None] / np.sqrt(looped.sum(axis=0))[None, :]

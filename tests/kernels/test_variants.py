"""Numba compiles a variant of a kernel for each kind of arguments: one for those that differ in nothing that counts."""

import numpy as np
import pytest

from gscl_scale.config.sections import RingsConfig
from gscl_scale.kernels.kernel import kernel, read_only
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.sketch import read
from tests.graphs import random_edges
from tests.oracles import csr_of
from tests.rings.test_sketch import sketch


@kernel
def _add(x, y):
    return x + y


@kernel
def _add_some(x):
    return _add(x, 1) + _add(x, 2) + _add(3, x)


def test_constants_of_a_caller_make_no_variant():
    assert _add_some(10) == 36
    assert len(_add.dispatcher.signatures) == 1


def variants_of(kernel):
    """Those that this process has, whether or not their arrays may be written."""
    return [str(arguments).replace("readonly ", "") for arguments in kernel.dispatcher.signatures]


@pytest.mark.parametrize("hops", [1, 3])
def test_arrays_that_may_be_written_make_no_variant_of_the_kernels_that_read_a_sketch(hops):
    indptr, indices = csr_of(random_edges(90, 200, seed=0), 90)
    config = RingsConfig(hops=hops, width=8, per_ring=3, beyond=5)
    order, priority = np.random.default_rng(0).permutation(90).astype(np.int32), np.arange(90) / 90
    for as_given in (lambda array: array, read_only):
        priorities = Priorities(as_given(order), as_given(priority))
        sketch(indptr, indices, priorities, config, words=1, weights=as_given(np.ones(90)))
    for one in (read._ring, read._beyond):
        assert len(set(variants_of(one))) == len(variants_of(one)), one.py_func.__name__

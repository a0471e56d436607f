"""What the default suite leaves to `make test-slow`: further parameters of tests that it has."""

import os

import pytest


def slow(*values):
    """Values of a parameter, each a single one or those of several parameters, that only the slow suite tries."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow) for value in values
    ]


def examples(most):
    """How many inputs hypothesis draws for an expensive test: all in CI, a quarter on a developer's machine."""
    return most if os.environ.get("CI") else most // 4

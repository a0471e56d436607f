"""One cluster for all tests that leave it as it was."""

import pytest

from tests.ray.clusters import cluster


@pytest.fixture(scope="session")
def machines():
    with cluster(2, GLOO_SOCKET_IFNAME="lo") as started:
        yield started


@pytest.fixture
def two(machines):
    """The cluster with two machines of one core."""
    machines.resize(2)
    return machines


@pytest.fixture
def three(machines):
    """The cluster with three machines of one core."""
    machines.resize(3)
    return machines

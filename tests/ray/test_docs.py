"""Code blocks of the pages that start a cluster of this machine."""

import pytest

from tests.docs.blocks import run_block, shells
from tests.docs.conftest import worlds

__all__ = ["worlds"]

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("name", shells("ray"))
def test_commands_do_what_the_page_says(name, worlds, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    run_block(name, worlds, tmp_path / "reader")

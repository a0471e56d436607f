"""Code blocks of the pages that start a cluster of this machine."""

import pytest

from tests.docs.blocks import run_block, shells
from tests.docs.plan import PLAN
from tests.docs.world import write_inputs

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(600)]

FIRST = {PLAN[name].after for name in shells("ray")}  # these are run by the blocks that come after them


@pytest.mark.parametrize("name", [name for name in shells("ray") if name not in FIRST])
def test_commands_do_what_the_page_says(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    world = tmp_path / "worlds" / PLAN[name].world
    world.mkdir(parents=True)
    write_inputs(world)  # none of these blocks reads a finished run
    run_block(name, world.parent, tmp_path / "reader")

"""What does not fit first, and that the settings which are named cure it."""

from dataclasses import replace

import pytest

from gscl_scale.config.config import Config
from gscl_scale.planning.fit import first_misfit
from gscl_scale.planning.graph_shape import GraphShape, given_size
from gscl_scale.planning.need import Machines
from gscl_scale.planning.notes import notes_on
from gscl_scale.planning.rates import REFERENCE
from gscl_scale.planning.stages import stage_needs

GIB = 1 << 30
SAMPLED = "model.propagation=sampled"


def asked(memory, *settings, nodes=10**7, edges=10**8, features=64, number=1, cores=4, disk=None):
    config = Config.load(None, list(settings))
    shape = GraphShape.of_size(given_size(config.graph, nodes, edges, features), config.graph)
    machines = Machines(number, int(memory * GIB), cores, here=number == 1)
    return first_misfit(config, shape, machines, disk), config, shape, machines


def without_and_with(settings, stage, config, shape, machines):
    """What a stage takes without some settings, and with them."""
    changed = Config.load(None, settings, config.dump())
    needs = (stage_needs(one, shape, machines, REFERENCE) for one in (config, changed))
    return [next(need for need in each if need.stage == stage) for each in needs]


def test_where_there_is_room_nothing_is_said():
    assert asked(400, SAMPLED)[0] is None


@pytest.mark.parametrize(
    ("stage", "key", "memory", "settings"),
    [
        ("graph", "graph.memory_mb", 2.4, ["graph.memory_mb=60000"]),
        ("precompute", "runtime.precompute_memory_gb", 6, ["rings.engine=sketch", "rings.hops=3", "rings.width=128"]),
        ("train", "model.propagation", 16, ["rings.width=16", "model.layers=3"]),
        ("embed", "runtime.embed_memory_gb", 13, [SAMPLED, "rings.width=16", "runtime.embed_memory_gb=0.1"]),
    ],
)
def test_the_settings_that_are_named_cure_the_stage(stage, key, memory, settings):
    edges = 10**10 if stage == "graph" else 10**8
    misfit, config, shape, machines = asked(memory, *settings, edges=edges)
    assert misfit is not None
    assert misfit.stage == stage, misfit.sentence
    assert misfit.settings[0].startswith(f"{key}=")
    assert misfit.sentence.endswith("add " + " ".join(f"--set {setting}" for setting in misfit.settings))
    cured = Config.load(None, misfit.settings, config.dump())
    after = first_misfit(cured, shape, machines)
    stages = [need.stage for need in stage_needs(config, shape, machines, REFERENCE)]
    assert after is None or stages.index(after.stage) > stages.index(stage)


def test_settings_that_change_no_result_come_first():
    misfit = asked(24, "rings.engine=sketch", "rings.hops=3", nodes=10**8, edges=10**9, number=8, cores=16)[0]
    assert misfit is not None
    assert misfit.stage == "precompute"
    assert {setting.partition("=")[0] for setting in misfit.settings} <= {
        "runtime.precompute_memory_gb", "runtime.task_cpus",
    }  # fmt: skip


def test_features_that_the_processes_own_need_no_room_for_all_of_them_on_a_machine():
    more = ["runtime.train_workers=8", "runtime.precompute_memory_gb=2", "runtime.task_cpus=16", SAMPLED]
    misfit, config, shape, machines = asked(32, *more, nodes=10**8, edges=10**9, features=128, number=8, cores=16)
    assert misfit is not None
    assert (misfit.stage, misfit.settings) == ("train", ["runtime.features=owned"])
    before, owned = without_and_with(misfit.settings, "train", config, shape, machines)
    share = shape.feature_bytes // 8 + config.runtime.frequent_memory
    assert owned.allocated - before.allocated == share
    assert before.random - owned.random == shape.feature_bytes
    assert owned.network > shape.folder_bytes


def test_edges_and_samples_that_the_processes_own_are_read_by_none_at_random():
    more = ["runtime.train_workers=8", "runtime.precompute_memory_gb=2", "runtime.task_cpus=16", SAMPLED]
    more += ["runtime.features=owned"]
    misfit, config, shape, machines = asked(25, *more, nodes=10**8, edges=10**10, features=1, number=8, cores=16)
    assert misfit is not None
    assert (misfit.stage, misfit.settings) == ("train", ["runtime.edges=owned"])
    before, owned = without_and_with(misfit.settings, "train", config, shape, machines)
    edges = 4 * shape.entries
    assert owned.allocated - before.allocated >= edges // 8
    assert before.random - owned.random >= edges
    assert owned.network > before.network


def test_layers_on_the_disks_of_the_machines_are_read_in_tiles():
    _, config, shape, machines = asked(400, "runtime.engine=ray", number=8)
    before, after = without_and_with(["runtime.embed_scratch=/disk"], "embed", config, shape, machines)
    assert (before.random > 0, after.random) == (True, 0)


def test_where_no_setting_helps_the_memory_that_would_is_named():
    misfit = asked(20, nodes=10**9, edges=10**10, number=8, cores=16)[0]
    assert misfit is not None
    assert (misfit.stage, misfit.settings) == ("graph", [])
    assert "no setting cures that: use machines with" in misfit.sentence


def test_ids_that_do_not_fit_the_memory_wait_on_disk():
    _, config, shape, machines = asked(32, nodes=10**9, edges=10**10, features=1, number=8, cores=16)
    sizes = [replace(machines, memory=memory * GIB) for memory in (32, 400)]
    little, much = (stage_needs(config, shape, size, REFERENCE)[0] for size in sizes)
    assert little.fits(machines.memory)
    assert not much.fits(machines.memory)
    assert little.disk == much.disk
    assert little.scratch > much.scratch + 10**11


def test_a_disk_that_is_too_small_is_named():
    misfit = asked(400, SAMPLED, disk=5 * GIB)[0]
    assert misfit is not None
    assert "of disk with what the stages before it keep, and 5.0 GiB are free; choose another --run" in misfit.sentence


def test_notes_name_machines_that_wait_and_rates_that_are_not_measured():
    _, config, shape, machines = asked(32, number=8)
    told = " ".join(notes_on(config, shape, replace(machines, gpus=1)))
    assert "train uses 1 of 8 machines; --set runtime.train_workers=8 uses all" in told
    assert "no rate of a GPU is measured" in told
    assert not notes_on(config, replace(shape, labelled=10), replace(machines, number=1))

"""Every code block of README.md and docs/ is executed, or listed with the test that does what can be done here."""

import ast
import contextlib
import re

import numpy as np
import pytest
import torch
import yaml
from torch_geometric.data import Data

from gscl_scale import pipeline
from gscl_scale.config.config import Config
from gscl_scale.config.graphs import SyntheticGraph
from gscl_scale.graph.estimate import check_resources
from gscl_scale.graph.sources.read import source_size
from gscl_scale.studies.tune.space import read_space
from tests.docs.blocks import BLOCKS, HOW, named, run_block, shells
from tests.docs.pages import ROOT, assert_alike
from tests.docs.plan import PLAN, Elsewhere, Printed, Python, Yaml
from tests.ports import free_port


def test_every_block_of_every_page_is_executed_and_nothing_else_is_planned():
    assert [name for name, how in HOW.items() if how is None] == []
    assert set(PLAN) <= set(BLOCKS)


@pytest.mark.parametrize("name", shells(""))
def test_commands_do_what_the_page_says(name, worlds, tmp_path):
    run_block(name, worlds, tmp_path / "reader")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", shells("slow"))
def test_long_commands_do_what_the_page_says(name, worlds, tmp_path, s3):
    printed = run_block(name, worlds, tmp_path / "reader", s3=s3, port=free_port())
    for other, how in PLAN.items():
        if isinstance(how, Printed) and name.startswith(f"{how.by}:"):
            assert_alike(BLOCKS[other].text, printed)


@pytest.mark.parametrize("name", named(Yaml))
def test_yaml_is_what_its_reader_takes(name, monkeypatch, tmp_path):
    monkeypatch.setenv("GSCL_DATA", "/data")
    values, by = yaml.safe_load(BLOCKS[name].text), HOW[name].by
    if by == "config":
        Config.parse(values)
    elif by == "the space of tune":
        (tmp_path / "space.yaml").write_text(BLOCKS[name].text)
        assert read_space(tmp_path / "space.yaml", Config())
    else:
        assert [gate["name"] for gate in values["featureGates"]] == ["RayCronJob"]


@pytest.mark.parametrize("name", named(Python))
def test_python_runs(name, worlds):
    edges = np.random.default_rng(0).integers(0, 90, (2, 200))
    given = {"data": Data(x=torch.rand(90, 4), edge_index=torch.from_numpy(edges))}
    with contextlib.chdir(worlds / "finished"):
        exec(compile(BLOCKS[name].text, name, "exec"), given)
    assert len(given) > 2


def test_the_story_of_the_docs_is_that_of_the_pipeline():
    name = next(name for name in PLAN if PLAN[name] == Printed("the story"))
    assert BLOCKS[name].text.splitlines()[0].split() == re.findall(r"\w+|->", pipeline.__doc__.partition(".")[0])[2:]


def test_what_ingest_tells_beforehand_is_as_shown(tmp_path):
    name = next(name for name, how in PLAN.items() if how == Printed("what ingest tells"))
    config = SyntheticGraph(source="synthetic", preset="large")
    told = check_resources(source_size(config), config, tmp_path)
    free = r"\([\d.]+ [MG]iB (available|free)\)"
    assert_alike(re.sub(free, "", BLOCKS[name].text), re.sub(free, "", told))


@pytest.mark.parametrize("name", named(Elsewhere))
def test_what_is_executed_elsewhere_has_a_test_there(name):
    path, _, function = PLAN[name].by.partition("::")
    tree = ast.parse((ROOT / path).read_text())
    assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}

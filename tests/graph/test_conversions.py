"""Files of a kind that is not read: the command that the refusal names does what it says."""

import json
import shlex
from pathlib import Path

import networkx
import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import feather, orc, parquet
from torch_geometric.data import Data

import gscl_scale
from tests.commands import cli


def named(folder, name):
    """The command that the refusal of a file names."""
    refused = cli("ingest", name, "--run", "run", cwd=folder)
    assert refused.returncode == 2, refused.stderr
    (line,) = refused.stderr.splitlines()
    assert line.startswith(f"gscl-scale: {name}: unknown kind of file; expected .parquet")
    return shlex.split(line.split(" it: ")[1])


@pytest.mark.parametrize("name", ["my people.graphml", "novel.gexf", 'a "b".gml'])
def test_files_of_networkx_are_trained_on(tmp_path, monkeypatch, name):
    graph, trained = networkx.les_miserables_graph(), []
    getattr(networkx, f"write_{name.split('.')[1]}")(graph, tmp_path / name)
    program, option, code = named(tmp_path, name)
    assert (program, option) == ("python", "-c")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gscl_scale, "fit", lambda *given, **named: trained.append((*given, named)))
    exec(code, {})
    ((read, settings),) = trained
    assert set(read.edges) == set(graph.edges)
    assert settings == {"run": f"runs/{Path(name).stem}", "quiet": False}


@pytest.mark.parametrize("name", ["data.pt", "data.pth", "my edges.npy"])
def test_objects_of_torch_and_numpy_are_trained_on(tmp_path, monkeypatch, name):
    ends = torch.tensor([[0, 1, 2], [1, 2, 3]])
    if name.endswith("npy"):
        np.save(tmp_path / name, ends.numpy())
    else:
        torch.save(Data(x=torch.ones(4, 2), edge_index=ends), tmp_path / name)
    _, _, code = named(tmp_path, name)
    monkeypatch.chdir(tmp_path)
    fit = gscl_scale.fit
    monkeypatch.setattr(gscl_scale, "fit", lambda *given, **named: fit(*given, **named, epochs=1, width=8))
    exec(code, {})
    assert gscl_scale.open_run(tmp_path / "runs" / Path(name).stem).shape[0] == 4


@pytest.mark.parametrize("name", ["it's.feather", "edges.arrow", "edges.orc", "edges.jsonl"])
def test_tables_become_parquet(tmp_path, monkeypatch, name):
    table = pa.table({"from": ["ann", "bob", "cy"] * 4, "to": ["bob", "cy", "dee"] * 4})
    if name.endswith("jsonl"):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        (orc.write_table if name.endswith("orc") else feather.write_feather)(table, str(tmp_path / name))
    program, option, code = named(tmp_path, name)
    assert (program, option) == ("python", "-c")
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert parquet.read_table(f"{Path(name).stem}.parquet") == table


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("my edges.xlsx", "libreoffice --headless --convert-to csv 'my edges.xlsx'"),
        ("edges.tar.gz", "tar -xf edges.tar.gz"),
        ("edges.zip", "unzip edges.zip -d edges"),
        ("edges.csv.xz", "unxz --keep edges.csv.xz"),
    ],
)
def test_programs_of_the_system_are_named_for_other_kinds(tmp_path, name, command):
    (tmp_path / name).touch()
    assert named(tmp_path, name) == shlex.split(command)


def test_of_kinds_that_are_unknown_nothing_is_said_but_what_is_read(tmp_path):
    (tmp_path / "edges.doc").touch()
    assert "; rename it, or convert it to an edge list" in cli("ingest", "edges.doc", cwd=tmp_path).stderr

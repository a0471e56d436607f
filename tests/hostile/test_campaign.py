"""A small campaign, and that the campaign finds what it looks for."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from gscl_scale.errors import FolderError
from tests.hostile.campaign import GOOD, Worker, attack, page, plan
from tests.hostile.readers import READERS, Reader
from tests.hostile.trial import Guard, mutated, read

ROOT = Path(__file__).parents[2]
INPUTS = 60


def test_each_reader_refuses_mutated_inputs_in_one_sentence_or_reads_them(corpus, tmp_path):
    todo = plan(INPUTS, [])
    assert {name for name, _ in todo} == set(READERS)
    (tmp_path / "kept").mkdir()
    results = attack(corpus, tmp_path / "kept", todo, seed=0, workers=1)
    assert [result for result in results if result["outcome"] not in GOOD] == []
    outcomes = [result["outcome"] for result in results]
    assert outcomes.count("refused") > INPUTS // 5
    assert outcomes.count("read") > INPUTS // 20
    assert f"| **all** | **{len(todo)}** |" in page(results, 0, 60.0)


def test_an_input_follows_from_its_reader_seed_and_number(corpus, tmp_path):
    for name in READERS:
        contents = []
        for attempt in ("a", "b"):
            folder = tmp_path / attempt / name
            folder.mkdir(parents=True)
            mutated(READERS[name], 3, 5, corpus, folder)
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            contents.append({path.relative_to(folder): path.read_bytes() for path in files})
        assert contents[0] == contents[1], name


@pytest.mark.parametrize(
    ("act", "outcome"),
    [
        (lambda rng: 1 / 0, "traceback"),
        (lambda rng: sys.exit(3), "traceback"),
        (lambda rng: (_ for _ in ()).throw(FolderError("two\nlines")), "no sentence"),
        (lambda rng: (_ for _ in ()).throw(FolderError("x" * 5000)), "no sentence"),
        (lambda rng: pickle.loads(pickle.dumps(Path)), "forbidden"),
        (lambda rng: Path("/etc/passwd").read_text(), "forbidden"),
        (lambda rng: Path("/var/outside").mkdir(), "forbidden"),
        (lambda rng: subprocess.run(["true"], check=True), "forbidden"),
        (lambda rng: Path("executed-now").mkdir(), "executed"),
        (lambda rng: (_ for _ in ()).throw(FolderError("one sentence")), "refused"),
        (lambda rng: None, "read"),
    ],
)
def test_what_a_reader_must_not_do_is_noticed(tmp_path, monkeypatch, act, outcome):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "input"
    folder.mkdir()
    if outcome == "forbidden":
        monkeypatch.setattr(Path, "mkdir", lambda self: sys.audit("os.mkdir", str(self), 511, -1))
    result = read(Reader("made", 1, (), (), act), Random(0), folder, Guard())
    assert result["outcome"] == outcome, result


def test_memory_a_hang_and_a_crash_are_noticed(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("tests.hostile.campaign.TIME_S", 4)
    monkeypatch.setattr("tests.hostile.campaign.MEMORY", 300_000_000)  # filled at once, also on a busy machine
    told = {}
    for name, line in {
        "memory": "x = b'x' * 400_000_000; __import__('time').sleep(60)",
        "hang": "__import__('time').sleep(60)",
        "crash": "__import__('os').kill(__import__('os').getpid(), 11)",
    }.items():
        worker = Worker(corpus, tmp_path / name)
        worker._arguments = [sys.executable, "-c", f"print('{{\"ready\": true}}', flush=True); input(); {line}"]
        told[name] = worker.ask("npz", 0, 0)["outcome"]
        worker.close()
    assert told == {name: name for name in told}


@pytest.mark.fuzz
@pytest.mark.timeout(3600)
def test_twenty_thousand_mutated_inputs(tmp_path):
    command = [sys.executable, "-m", "tests.hostile.campaign", "--inputs", "20000", "--kept", str(tmp_path / "kept")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert ended.returncode == 0, ended.stdout[-5000:]

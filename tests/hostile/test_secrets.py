"""What is secret is in no file that is written, and in nothing that is said."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gscl_scale.cli.main import main
from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError, FolderError, GsclError
from gscl_scale.storage.urls import store_at
from tests.hostile.corpus import SETTINGS
from tests.s3 import BUCKET

SECRET = "kept-from-everybody"
NAMES = (
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "RAY_AUTH_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS",
    "MLFLOW_TRACKING_PASSWORD", "AZURE_STORAGE_KEY", "DB_PASSWORD",
)  # fmt: skip


def cli(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **dict.fromkeys(NAMES, SECRET), "GSCL_SCALE_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "gscl_scale", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def written(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("s3")
def test_a_run_and_its_store_hold_no_secret_of_the_environment(tmp_path):
    url = f"s3://{BUCKET}/secrets/run"
    values = {"graph": {"source": "synthetic", "preset": "tiny"}, **SETTINGS}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(values))
    ended = cli(tmp_path, "run", "--config", "tiny.yaml", "--run", url)
    assert ended.returncode == 0, ended.stderr
    failed = cli(tmp_path, "run", "--config", "tiny.yaml", "--run", url, "--set", "rings.hops=3")
    assert failed.returncode == 2
    assert failed.stderr
    found = written(tmp_path)
    store = store_at(url)
    found |= {Path(name): store.read(name) for name in store.sizes()}
    assert {"run.json", "log.jsonl", "metrics.json", "report.html"} <= {path.name for path in found}
    assert [path for path, content in found.items() if SECRET.encode() in content] == []
    assert SECRET not in ended.stdout + ended.stderr + failed.stdout + failed.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--run", f"s3://key:{SECRET}@bucket/run"),
        ("status", "--run", f"s3://bucket/run?aws_secret_access_key={SECRET}"),
        ("status", "--run", f"https://user:{SECRET}@host/run"),
        ("registry", "list", "--registry", f"s3://bucket/x?X-Amz-Signature={SECRET}"),
        ("retrain", "--registry", f"gs://user:{SECRET}@bucket/x"),
        ("ingest", "--set", "graph.source=npz", "--set", f"graph.path=https://user:{SECRET}@host/graph.npz"),
        ("embed", "--out", f"s3://key:{SECRET}@bucket/x.npy"),
        ("ingest", "--set", "graph.source=npz", "--set", "graph.path=$DB_PASSWORD/graph.npz"),
        ("ingest", "--set", "graph.source=npz", "--set", "graph.path=/data/${AWS_SECRET_ACCESS_KEY}.npz"),
        ("config", "--set", f"runtime.address=ray://user:{SECRET}@head:10001"),
        ("config", "--set", f"retrain.notify=[curl, -H, 'Authorization: Bearer {SECRET}', host]"),
        ("config", "--set", f"retrain.notify=['https://host/hook?token={SECRET}']"),
    ],
)
def test_a_secret_among_the_arguments_is_refused_and_neither_repeated_nor_written(
    tmp_path, monkeypatch, capsys, arguments
):
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("GSCL_SCALE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", ["gscl-scale", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = "".join(capsys.readouterr())
    assert ended.value.code == 2
    assert "secret" in said
    assert SECRET not in said
    assert [path for path, content in written(tmp_path).items() if SECRET.encode() in content] == []


@pytest.mark.parametrize(
    "text", ["s3://bucket/run", "runs/tokens", "/data/secret-project/graph.npz", "https://host:8265/x"]
)
def test_what_is_no_secret_is_welcome(text):
    assert Config.parse({"runtime": {"address": text}})


def test_refusals_are_errors_of_the_user():
    with pytest.raises(FolderError):
        store_at("s3://a:b@c/d")
    with pytest.raises(ConfigError) as told:
        Config.parse({"runtime": {"address": "ray://a:b@c"}})
    assert isinstance(told.value, GsclError)

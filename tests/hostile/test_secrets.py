"""What is secret is in no file that is written, and in nothing that is said."""

from pathlib import Path

import pytest
import yaml

from gscl_scale.config.config import Config
from gscl_scale.storage.urls import store_at
from tests.commands import cli
from tests.hostile.corpus import SETTINGS
from tests.s3 import BUCKET

SECRET = "kept-from-everybody"
NAMES = (
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "RAY_AUTH_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS",
    "MLFLOW_TRACKING_PASSWORD", "AZURE_STORAGE_KEY", "DB_PASSWORD",
)  # fmt: skip


def said(folder, *arguments):
    """(exit code, all that is printed) of a command in a folder, where secrets are in the environment."""
    ended = cli(*arguments, cwd=folder, GSCL_SCALE_CACHE=str(folder / "cache"), **dict.fromkeys(NAMES, SECRET))
    return ended.returncode, ended.stdout + ended.stderr


def written(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.usefixtures("s3")
def test_a_run_and_its_store_hold_no_secret_of_the_environment(tmp_path):
    url = f"s3://{BUCKET}/secrets/run"
    values = {"graph": {"source": "synthetic", "preset": "tiny"}, **SETTINGS}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(values))
    run = ("run", "--config", "tiny.yaml", "--run", url)
    ended, failed = said(tmp_path, *run), said(tmp_path, *run, "--set", "rings.hops=3")
    assert (ended[0], failed[0]) == (0, 2), ended
    assert "rings.hops" in failed[1]
    store = store_at(url)
    found = written(tmp_path) | {name: store.read(name) for name in store.sizes()}
    assert {"run.json", "log.jsonl", "metrics.json", "report.html"} <= {Path(name).name for name in found}
    assert [name for name, content in found.items() if SECRET.encode() in content] == []
    assert SECRET not in ended[1] + failed[1]


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
def test_a_secret_among_the_arguments_is_refused_and_neither_repeated_nor_written(tmp_path, arguments):
    code, told = said(tmp_path, *arguments)
    assert code == 2
    assert "secret" in told
    assert SECRET not in told
    assert not [name for name, content in written(tmp_path).items() if SECRET.encode() in content]


@pytest.mark.parametrize(
    "text", ["s3://bucket/run", "runs/tokens", "/data/secret-project/graph.npz", "https://host:8265/x"]
)
def test_what_is_no_secret_is_welcome(text):
    assert Config.parse({"runtime": {"address": text}})

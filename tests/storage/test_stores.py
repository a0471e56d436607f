"""One contract for folders and for object stores, the latter over HTTP."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock

import pyarrow.fs as arrow_fs
import pytest

from gscl_scale.errors import AbsentError, FolderError, RunError
from gscl_scale.storage import stores
from gscl_scale.storage.stores import LocalStore
from gscl_scale.storage.urls import cache_of, store_at
from tests.s3 import BUCKET


def test_a_file_has_the_content_that_was_written_last_and_none_before(store):
    assert store.read("a/b.json") is None
    store.write("a/b.json", b"first")
    store.write("a/b.json", b"second")
    assert store.read("a/b.json") == b"second"
    assert store.read("a") is None
    assert store.read("a/b.json/c") is None


def test_of_several_writers_one_creates_a_file(store):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda writer: store.create("ledger/1.json", b"of %d" % writer), range(8)))
    assert sum(made) == 1
    assert store.read("ledger/1.json") == b"of %d" % made.index(True)
    assert not store.create("ledger/1.json", b"late")
    assert store.create("ledger/2.json", b"next")


def test_a_creation_that_is_repeated_by_its_own_writer_has_succeeded(store):
    assert store.create("one", b"mine")
    assert store.create("one", b"mine")  # the answer to the first request was lost


def test_sizes_are_those_of_all_files_below_a_folder(store):
    for name in ("a/1", "a/b/2", "c/3"):
        store.write(name, name.encode() * 2)
    assert store.sizes("a") == {"a/1": 6, "a/b/2": 10}
    assert store.sizes() == {"a/1": 6, "a/b/2": 10, "c/3": 6}
    assert store.sizes("nothing") == {}


def test_a_file_with_two_names_counts_once(store, tmp_path):
    (tmp_path / "up").write_bytes(b"x" * 1000)
    store.upload(tmp_path / "up", "one")
    assert store.total_bytes() == 1000
    if isinstance(store, LocalStore):
        store.upload(tmp_path / "up", "two")
        assert store.total_bytes() == 1000


@pytest.mark.parametrize("size", [0, 1000, 20_000_000])
def test_a_file_comes_down_as_it_went_up_or_was_copied(store, tmp_path, monkeypatch, size):
    (tmp_path / "up").write_bytes(os.urandom(size))
    store.upload(tmp_path / "up", "x/large")
    store.copy("x/large", "small copy")
    monkeypatch.setattr(stores, "_MAX_COPIED", 10)
    store.copy("x/large", "large copy")
    for name in ("x/large", "small copy", "large copy"):
        store.download(name, tmp_path / "there" / "down")
        assert (tmp_path / "there" / "down").read_bytes() == (tmp_path / "up").read_bytes()
        assert [path.name for path in (tmp_path / "there").iterdir()] == ["down"]


def test_an_upload_whose_last_answer_was_lost_has_succeeded(s3, tmp_path):
    store = store_at(f"s3://{BUCKET}/lost")
    (tmp_path / "up").write_bytes(b"x" * 1000)
    bucket, lost = store._store, FileNotFoundError("404 Not Found: NoSuchUpload")
    store._store = mock.Mock(wraps=bucket, put=mock.Mock(side_effect=lost))
    with pytest.raises(AbsentError, match="lost/a: "):
        store.upload(tmp_path / "up", "a")
    bucket.put("a", b"x" * 1000)
    store.upload(tmp_path / "up", "a")


def test_a_file_that_does_not_exist_is_named(store, tmp_path):
    for request in (lambda: store.download("gone", tmp_path / "down"), lambda: store.copy("gone", "other")):
        with pytest.raises(AbsentError, match=r"gone.*check that the store answers"):
            request()


def test_marks_of_folders_are_no_files(s3):
    url = f"s3://{BUCKET}/marked"
    files, root = arrow_fs.FileSystem.from_uri(url)
    files.create_dir(f"{root}/a")
    store = store_at(url)
    store.write("a/1", b"x")
    store.write("empty", b"")
    assert store.sizes() == {"a/1": 1, "empty": 0}
    assert store.sizes("a") == {"a/1": 1}


def test_files_and_folders_are_removed_if_they_exist(store):
    for name in ("a/1", "a/b/2", "c/3"):
        store.write(name, b"x")
    store.remove("a")
    store.remove("c/3")
    store.remove("nowhere")
    assert store.sizes() == {}


def test_half_written_files_of_a_folder_are_not_listed(tmp_path):
    store = store_at(tmp_path)
    store.write("a/whole", b"x")
    (tmp_path / "a" / ".half.host-1.tmp").write_bytes(b"x")
    assert store.sizes() == {"a/whole": 1}


# --- a store in trouble ----------------------------------------------------------------------------------------------


class Troubled(BaseHTTPRequestHandler):
    """An S3 server that answers with errors first: a status, or None to break off the connection."""

    def do_PUT(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests += 1
        status = self.server.trouble.pop(0) if self.server.trouble else 200
        if status == 200:
            self.server.content = content
        if status:
            self.answer(status)

    def do_GET(self):
        self.answer(200, self.server.content)

    def answer(self, status, content=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Last-Modified", formatdate(usegmt=True))
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


@pytest.fixture
def troubled(s3, monkeypatch):
    """The server; its `trouble` is to be set."""
    monkeypatch.setitem(stores._RETRIES, "backoff", {"init_backoff": timedelta(milliseconds=10)})
    monkeypatch.setitem(stores._RETRIES, "retry_timeout", timedelta(seconds=5))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Troubled)
    server.requests = 0
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    yield server
    server.shutdown()
    server.server_close()


def test_trouble_that_passes_is_waited_for(troubled):
    troubled.trouble = [None, None, 500, 503, None]
    store = store_at(f"s3://{BUCKET}/troubled")
    store.write("a", b"x")
    assert troubled.requests == 6
    assert store.read("a") == b"x"


@pytest.mark.parametrize(
    ("trouble", "kind", "repeated"),
    [(None, RunError, True), (503, RunError, True), *((status, FolderError, False) for status in (400, 401, 403, 404))],
)
def test_trouble_that_stays_is_one_sentence_and_only_trouble_that_may_pass_is_repeated(
    troubled, trouble, kind, repeated
):
    troubled.trouble = [trouble] * 1000
    with pytest.raises(kind, match=rf"^s3://{BUCKET}/troubled/a: .*; check that the store answers, that the"):
        store_at(f"s3://{BUCKET}/troubled").write("a", b"x")
    assert (troubled.requests > 1) == repeated


def test_a_bucket_that_is_not_there_is_named(s3):
    with pytest.raises(FolderError, match=r"s3://no-such-bucket/x/a: .*check that the store answers, that the bucket"):
        store_at("s3://no-such-bucket/x").write("a", b"x")


@pytest.mark.parametrize("url", ["s3://key:word@bucket/x", "s3://bucket/x?secret_key=y", "s3://bucket/x?access_key=y"])
def test_secrets_in_a_url_are_refused_and_not_repeated(url):
    with pytest.raises(FolderError, match="a URL without secrets") as error:
        store_at(url)
    assert not any(word in str(error.value) for word in ("word", "secret_key", "=y"))


@pytest.mark.parametrize("url", ["nfs3://x/y", "http://127.0.0.1:9/x"])
def test_another_scheme_is_refused(url):
    with pytest.raises(FolderError, match=f"{url}: .*; expected a store with conditional writes: s3://, gs://"):
        store_at(url)


def test_copies_of_different_places_have_different_folders(tmp_path):
    with mock.patch.dict(os.environ, GSCL_SCALE_CACHE=str(tmp_path)):
        one, other = cache_of("s3://bucket/a"), cache_of("s3://bucket/b/")
        assert one != other == cache_of("s3://bucket/b")
        assert one.parent == Path(tmp_path)


def test_a_package_that_is_missing_is_named_before_any_work(s3, monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(FolderError, match=r"need one more package; pip install 'gscl-scale\[cloud\]'"):
        store_at(f"s3://{BUCKET}/x")

"""One contract for folders and for object stores, the latter over HTTP."""

import os
import select
import socket
import socketserver
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock
from urllib.parse import urlsplit

import pytest

from gscl_scale.errors import FolderError, RunError
from gscl_scale.storage import patience
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


def test_what_has_two_names_takes_its_room_once(store, tmp_path):
    (tmp_path / "up").write_bytes(b"x" * 1000)
    store.upload(tmp_path / "up", "one")
    assert store.taken() == 1000
    if isinstance(store, LocalStore):
        store.upload(tmp_path / "up", "two")
        assert store.taken() == 1000


def test_what_goes_up_comes_down(store, tmp_path):
    (tmp_path / "up").write_bytes(os.urandom(6_000_000))
    store.upload(tmp_path / "up", "x/large")
    store.download("x/large", tmp_path / "there" / "down")
    assert (tmp_path / "there" / "down").read_bytes() == (tmp_path / "up").read_bytes()
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["down"]


def test_files_and_folders_are_removed_and_what_is_not_there_is_no_trouble(store):
    for name in ("a/1", "a/b/2", "c/3"):
        store.write(name, b"x")
    store.remove("a")
    store.remove("c/3")
    store.remove("nowhere")
    assert store.sizes() == {}


def test_half_written_files_of_a_folder_are_not_seen(tmp_path):
    store = store_at(tmp_path)
    store.write("a/whole", b"x")
    (tmp_path / "a" / ".half.host-1.tmp").write_bytes(b"x")
    assert store.sizes() == {"a/whole": 1}


# --- a store in trouble ----------------------------------------------------------------------------------------------


class Troubled(socketserver.BaseRequestHandler):
    """Breaks off so many connections, and passes on the bytes of those that follow."""

    behind = ("", 0)
    left = 0
    broken = 0

    def handle(self):
        if type(self).left > 0:
            type(self).left -= 1
            type(self).broken += 1
            return
        with socket.create_connection(self.behind) as behind:
            ends = [self.request, behind]
            while True:
                for one in select.select(ends, [], [])[0]:
                    data = one.recv(1 << 16)
                    if not data:
                        return
                    ends[one is self.request].sendall(data)


@pytest.fixture
def troubled(s3, monkeypatch):
    """A store whose server breaks off the next connections; how many is to be set."""
    monkeypatch.setattr(patience, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(Troubled, "behind", (urlsplit(s3).hostname, urlsplit(s3).port))
    monkeypatch.setattr(Troubled, "broken", 0)
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Troubled)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with mock.patch.dict(os.environ, AWS_ENDPOINT_URL=f"http://127.0.0.1:{server.server_address[1]}"):
            yield store_at(f"s3://{BUCKET}/troubled")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_trouble_that_passes_is_waited_for(troubled):
    Troubled.left = 7
    troubled.write("a", b"x")
    assert Troubled.broken == 7
    assert troubled.read("a") == b"x"


def test_trouble_that_stays_is_told_in_one_sentence(troubled, monkeypatch):
    monkeypatch.setattr(patience, "ATTEMPTS", 2)
    monkeypatch.setattr(Troubled, "left", 10_000)
    with pytest.raises(RunError, match=rf"^s3://{BUCKET}/troubled/a: .*; see that the store answers, that the"):
        troubled.write("a", b"x")


@pytest.mark.parametrize(
    ("says", "final"),
    [
        ("When reading: AWS Error ACCESS_DENIED during GetObject operation", True),
        ("When initiating: AWS Error NO_SUCH_BUCKET during CreateMultipartUpload operation", True),
        ("AWS Error SLOW_DOWN during PutObject operation: Please reduce your rate", False),
        ("AWS Error NETWORK_CONNECTION during ListObjectsV2 operation: curlCode: 28, Timeout was reached", False),
    ],
)
def test_only_what_may_pass_is_repeated(says, final, monkeypatch):
    monkeypatch.setattr(patience, "FIRST_WAIT_S", 0.0)
    asked = []

    def request():
        asked.append(1)
        raise OSError(says)

    with pytest.raises(OSError, match="AWS Error"):
        patience.patiently(request)
    assert patience.is_final(OSError(says)) == final
    assert len(asked) == (1 if final else patience.ATTEMPTS)


def test_a_bucket_that_is_not_there_is_named(s3):
    with pytest.raises(FolderError, match=r"s3://no-such-bucket/x/a: .*see that the store answers, that the bucket"):
        store_at("s3://no-such-bucket/x").write("a", b"x")


@pytest.mark.parametrize("url", ["s3://key:word@bucket/x", "s3://bucket/x?secret_key=y", "s3://bucket/x?access_key=y"])
def test_secrets_in_a_url_are_refused_and_not_repeated(url):
    with pytest.raises(FolderError, match="a URL without secrets") as error:
        store_at(url)
    assert not any(word in str(error.value) for word in ("word", "secret_key", "=y"))


def test_a_scheme_that_nobody_knows_is_refused():
    with pytest.raises(FolderError, match=r"nfs3://x/y: "):
        store_at("nfs3://x/y")


def test_copies_of_different_places_have_different_folders(tmp_path):
    with mock.patch.dict(os.environ, GSCL_SCALE_CACHE=str(tmp_path)):
        one, other = cache_of("s3://bucket/a"), cache_of("s3://bucket/b/")
        assert one != other == cache_of("s3://bucket/b")
        assert one.parent == Path(tmp_path)


def test_a_package_that_is_missing_is_named_before_any_work(s3, monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(FolderError, match=r"need one package more; pip install 'gscl-scale\[cloud\]'"):
        store_at(f"s3://{BUCKET}/x")

"""Whole folders in a store."""

import pytest

from gscl_scale.errors import FolderError
from gscl_scale.storage.transfer import INDEX, fetch_folder, index_of, upload_folder
from gscl_scale.storage.urls import store_at


@pytest.fixture
def made(tmp_path):
    folder = tmp_path / "made"
    for number in range(20):
        path = folder / f"part-{number % 3}" / f"{number}.arrow"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number * 1000)
    return folder


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_comes_back_with_the_same_bytes(store, made, tmp_path):
    upload_folder(made, store, "versions/1", files_of(made), {"about": "it"})
    assert index_of(store, "versions/1")["about"] == "it"
    fetch_folder(store, "versions/1", tmp_path / "back")
    assert files_of(tmp_path / "back") == files_of(made)


def test_only_the_files_that_are_named_are_kept(store, made, tmp_path):
    upload_folder(made, store, "v", ["part-0/0.arrow"], {})
    fetch_folder(store, "v", tmp_path / "back")
    assert list(files_of(tmp_path / "back")) == ["part-0/0.arrow"]


def test_without_its_index_a_folder_is_not_there(store, made, tmp_path):
    upload_folder(made, store, "v", files_of(made), {})
    store.remove(f"v/{INDEX}")
    with pytest.raises(FolderError, match="does not exist, or copying it was cut off"):
        fetch_folder(store, "v", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_files_that_are_here_already_stay_and_damaged_ones_are_brought_again(store, made, tmp_path):
    upload_folder(made, store, "v", files_of(made), {})
    fetch_folder(store, "v", tmp_path / "back")
    kept, damaged = tmp_path / "back/part-0/0.arrow", tmp_path / "back/part-1/1.arrow"
    before = kept.stat().st_mtime_ns
    damaged.unlink()
    damaged.write_bytes(b"x" * 1000)
    fetch_folder(store, "v", tmp_path / "back")
    assert files_of(tmp_path / "back") == files_of(made)
    assert kept.stat().st_mtime_ns == before


def test_a_damaged_copy_in_the_store_is_named_and_never_used(store, made, tmp_path):
    upload_folder(made, store, "v", files_of(made), {})
    store.remove("v/part-2/2.arrow")
    store.write("v/part-2/2.arrow", b"x" * 1000)
    with pytest.raises(FolderError, match=r"v/part-2/2\.arrow does not match its checksum"):
        fetch_folder(store, "v", tmp_path / "back")
    assert not (tmp_path / "back/part-2/2.arrow").exists()


def test_an_index_that_is_no_json_is_named(tmp_path):
    store = store_at(tmp_path)
    store.write(f"v/{INDEX}", b"{")
    with pytest.raises(FolderError, match=r"v/index\.json is damaged"):
        index_of(store, "v")

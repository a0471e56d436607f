"""What a shared folder must keep, seen by one machine and by the driver; the file systems that do not are played."""

import contextlib
import errno
import fcntl
import io
import os
from pathlib import Path

import pytest

from gscl_scale.errors import FolderError
from gscl_scale.io.atomic import hold_file_lock
from gscl_scale.runtime.cluster import folder_check, preflight
from gscl_scale.runtime.cluster.folder_check import check_folder, lock_beside, slices_beside
from gscl_scale.runtime.cluster.nodes import Machine

MACHINES = [Machine(f"id-{number}", f"10.0.0.{number}", False, {}) for number in (1, 2)]


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(folder_check, "_PATIENCE_S", 0.0)


class Asked:
    """A machine that is this process: it looks when it is asked."""

    def remote(self, *arguments):
        self.report = check_folder(*arguments)
        return self


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.setattr(preflight, "_look_on", lambda machine: Asked())
    monkeypatch.setattr(preflight, "_answers", lambda asked: [(one, answer.report) for answer, one in asked.items()])


class WholeFile(io.BytesIO):
    """An open file of a mounted bucket: a copy of the whole file, which is brought back when it is closed."""

    def __init__(self, path):
        super().__init__(path.read_bytes())
        self._path = path

    def close(self):
        if not self.closed:
            self._path.write_bytes(self.getvalue())
        super().close()


class StaleFile(WholeFile):
    """The same where the bucket notices that others have written: it refuses."""

    def __init__(self, path):
        super().__init__(path)
        self._before = self.getvalue()

    def close(self):
        if not self.closed and self._path.read_bytes() != self._before:
            io.BytesIO.close(self)
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        super().close()


def opened_as(kind, monkeypatch):
    plain = Path.open

    def opened(path, mode="r", *more, **others):
        if mode == "r+b" and ".slices." in path.name:
            return kind(path)
        return plain(path, mode, *more, **others)

    monkeypatch.setattr(Path, "open", opened)


def test_a_local_disk_keeps_everything_and_nothing_remains(tmp_path):
    preflight.check_shared(tmp_path, MACHINES)
    preflight.check_shared(tmp_path / "new", [])
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert not list((tmp_path / "new").iterdir())


@pytest.mark.parametrize("machines", [MACHINES[:1], MACHINES])
@pytest.mark.parametrize("kind", [WholeFile, StaleFile])
def test_a_folder_that_loses_what_others_write_into_a_file_is_refused(tmp_path, monkeypatch, machines, kind):
    opened_as(kind, monkeypatch)
    says = rf"^{tmp_path} does not keep what several machines write into .* file system such as NFS or Lustre$"
    with pytest.raises(FolderError, match=says):
        preflight.check_shared(tmp_path, machines)
    assert not list(tmp_path.iterdir())


def test_a_machine_that_cannot_write_into_a_part_of_a_file_is_named(tmp_path, monkeypatch):
    def refuse(path):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), str(path))

    monkeypatch.setattr(preflight, "_written_late", lambda path: contextlib.nullcontext())
    opened_as(refuse, monkeypatch)
    says = r"not shared by all machines .*: 10\.0\.0\.1, 10\.0\.0\.2 cannot write into a part of a file in it"
    with pytest.raises(FolderError, match=says):
        preflight.check_shared(tmp_path, MACHINES)
    assert not list(tmp_path.iterdir())


def test_locks_that_other_machines_do_not_see_are_refused(tmp_path, monkeypatch):
    flock = fcntl.flock
    monkeypatch.setattr(folder_check.fcntl, "flock", lambda *_: None)  # its own locks only: it gets this one too
    says = rf"{tmp_path} is not shared .*: 10\.0\.0\.1 does not see locks that another machine holds.* NFS or Lustre"
    with pytest.raises(FolderError, match=says):
        preflight.check_shared(tmp_path, MACHINES[:1])
    monkeypatch.setattr(folder_check.fcntl, "flock", flock)
    preflight.check_shared(tmp_path, MACHINES[:1])


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP])
def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    says = rf"{tmp_path}: files cannot be locked here .*; mount it with locks \(NFS without nolock, Lustre with flock\)"
    with pytest.raises(FolderError, match=says), hold_file_lock(tmp_path / "lock"):
        pytest.fail("it has no lock")
    with pytest.raises(FolderError, match=says):
        preflight.check_shared(tmp_path, MACHINES)


def test_only_what_a_machine_wrote_counts(tmp_path):
    token = tmp_path / ".shared-1.tmp"
    token.write_text("text")
    slices_beside(token).write_bytes(bytes(3 * folder_check.SLICE))
    with hold_file_lock(lock_beside(token)):
        assert check_folder(token, "text", 2).trouble == ""
        assert check_folder(token, "other", 1).trouble == "sees another folder there"
    assert folder_check.lost_slices(slices_beside(token), [2]) == []
    assert folder_check.lost_slices(slices_beside(token), [0, 1, 2]) == [0, 1]

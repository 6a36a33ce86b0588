"""Shared memory that MPI ranks leave behind, and programs that cannot be read."""

import os
from pathlib import Path

import pytest

from nodewise.measure.mpi import leftovers, libraries


@pytest.fixture
def run_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("run")


def test_the_next_start_removes_the_segments_of_a_killed_one(run_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "_PLACE", tmp_path)
    old, new = tmp_path / "mpich_shm_old", tmp_path / "mpich_shm_new"
    old.touch()
    killed = leftovers.removed(run_folder)
    killed.__enter__()  # and never left
    new.touch()
    leftovers.remove_noted(run_folder)
    assert list(tmp_path.iterdir()) == [old]


def test_ctrl_c_leaves_no_new_segment_that_is_unused(run_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "_PLACE", tmp_path)
    old, new, other = (tmp_path / name for name in ("mpich_shm_old", "mpich_shm_new", "data"))
    old.touch()
    with pytest.raises(KeyboardInterrupt), leftovers.removed(run_folder):
        new.touch()
        other.touch()
        raise KeyboardInterrupt
    assert sorted(tmp_path.iterdir()) == sorted([old, other])


def test_a_new_segment_that_a_process_has_open_stays(run_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "_PLACE", tmp_path)
    with leftovers.removed(run_folder):
        file = (tmp_path / "mpich_shm_open").open("w")
    assert (tmp_path / "mpich_shm_open").exists()
    file.close()
    leftovers.remove_since(set())
    assert not (tmp_path / "mpich_shm_open").exists()


def test_segments_of_other_users_are_not_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "_PLACE", tmp_path)
    (tmp_path / "mpich_shm_theirs").touch()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert leftovers.segments() == set()


def test_a_program_that_cannot_be_read_has_no_known_library(tmp_path, monkeypatch):
    program = tmp_path / "app"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o711)

    def refused(self, *arguments, **options):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refused)  # root may read any file
    assert not libraries.is_binary("./app", tmp_path)
    assert libraries.library_of([str(program)], tmp_path) is None

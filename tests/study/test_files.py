"""Files that others may have prepared: what is opened, what is refused, how a file is written."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nodewise.study import bundle, files


@pytest.fixture
def special(tmp_path):
    """A FIFO, a device, a socket, a folder and a link, by their names."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "target").write_text("mine")
    (tmp_path / "link").symlink_to("target")
    server = socket.socket(socket.AF_UNIX)
    here = os.open(".", os.O_RDONLY)
    os.chdir(tmp_path)  # the path of a socket is short
    server.bind("socket")
    os.fchdir(here)
    os.close(here)
    yield tmp_path
    server.close()


@pytest.mark.parametrize(
    ("name", "said"),
    [("fifo", "a FIFO"), ("socket", "a socket"), ("folder", "a folder"), ("link", "symbolic link")],
)
def test_only_regular_files_of_a_study_are_opened(special, name, said):
    for call in (files.open_own, files.read_own, files.open_to_change):
        with pytest.raises(OSError, match=said):
            call(special / name)


def test_a_device_is_refused_and_a_stream_of_the_shell_is_read():
    with pytest.raises(OSError, match="a device"):
        files.open_regular(Path("/dev/zero"))
    reader, writer = os.pipe()
    os.write(writer, b"text")
    os.close(writer)
    with files.open_regular(Path(f"/dev/fd/{reader}")) as file:
        assert file.read() == b"text"
    os.close(reader)


def test_a_file_that_the_user_names_may_be_a_link(special):
    assert files.read_regular(special / "link") == b"mine"


def test_a_file_is_replaced_and_the_target_of_a_link_stays(special):
    files.replace(special / "link", "new")
    assert (special / "target").read_text() == "mine"
    assert (special / "link").read_text() == "new"
    assert not (special / "link").is_symlink()
    for name in ("fifo", "socket", "folder"):
        with pytest.raises(OSError, match="not a regular file"):
            files.replace(special / name, "new")


def test_a_file_is_the_old_one_or_the_new_one(tmp_path):
    """Readers see one of two whole texts while a writer replaces it again and again."""
    path = tmp_path / "study.toml"
    texts = [b"a" * 100_000, b"b" * 200_000]
    files.replace(path, texts[0])
    over = threading.Event()
    seen = []

    def read() -> None:
        while not over.is_set():
            seen.append(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for at in range(40):
        files.replace(path, texts[at % 2])
    over.set()
    reader.join()
    assert seen and set(seen) <= set(texts)


def test_what_a_killed_writer_left_goes_with_the_next_one(tmp_path):
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                           capture_output=True, text=True, check=True)  # fmt: skip
    left = tmp_path / f".report.html.{ended.stdout.strip()}-0a1b2c3d.part"
    alive = tmp_path / f".report.html.{os.getpid()}-0a1b2c3d.part"
    other = tmp_path / f".other.html.{ended.stdout.strip()}-0a1b2c3d.part"
    for path in (left, alive, other):
        path.write_text("half")
    files.replace(tmp_path / "report.html", "whole")
    assert sorted(tmp_path.iterdir()) == sorted([alive, other, tmp_path / "report.html"])


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(RuntimeError), files.replacing(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"


def test_file_and_folder_are_synced_before_and_after_the_rename(tmp_path, monkeypatch):
    """The order that survives a power cut: content, then its name, then the folder."""
    done = []

    def sync(descriptor: int) -> None:
        done.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))

    monkeypatch.setattr(os, "fsync", sync)
    rename = Path.replace
    monkeypatch.setattr(
        files.Path, "replace", lambda one, to: (done.append("rename"), rename(one, to))[1]
    )
    files.replace(tmp_path / "a", "x")
    assert done[0].endswith(".part") and done[1:] == ["rename", str(tmp_path)]
    done.clear()
    with files.open_to_change(tmp_path / "runs.jsonl", os.O_APPEND):
        assert done == [str(tmp_path)]  # a new file, once
    with files.open_to_change(tmp_path / "runs.jsonl", os.O_APPEND):
        assert done == [str(tmp_path)]


def test_a_stream_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 1000)
    for size in (1000, 1001):
        reading, writing = os.pipe()
        os.write(writing, b"x" * size)
        os.close(writing)
        try:
            if size > 1000:
                with pytest.raises(OSError, match="larger than 1 GiB"):
                    files.read_regular(Path(f"/dev/fd/{reading}"))
            else:
                assert len(files.read_regular(Path(f"/dev/fd/{reading}"))) == size
        finally:
            os.close(reading)


def test_a_bundle_is_unpacked_without_a_search_of_the_folder_for_each_file(tmp_path, monkeypatch):
    packed = tmp_path / "a.zip"
    packed.write_bytes(bundle.pack({f"{number}.txt": b"x" for number in range(20)}))
    searched = []
    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda one: (searched.append(one), listed(one))[1])
    bundle.unpack(packed, tmp_path / "new")
    assert len(list((tmp_path / "new").glob("*.txt"))) == 20
    assert len(searched) == 1  # whether it is empty


def test_the_name_of_every_new_folder_is_brought_to_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(files, "sync_folder", synced.append)
    files.make_folder(tmp_path / "a" / "b")
    assert set(synced) == {tmp_path, tmp_path / "a"}
    files.make_folder(tmp_path / "a" / "b")
    assert len(synced) == 2

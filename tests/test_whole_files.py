"""Files are written whole or not at all, and only where files belong."""

from __future__ import annotations

import os
import stat
import threading

import pytest

from sparsetoken.support.whole_files import NotAFile, target_file, whole_file


def write(path, text="new"):
    with whole_file(path) as draft:
        draft.write_text(text)


def test_new_files_and_regular_ones(tmp_path):
    path = tmp_path / "table.csv"
    write(path, "one")
    write(path, "two")
    assert path.read_text() == "two" and os.listdir(tmp_path) == ["table.csv"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_what_fails_leaves_what_was_there_and_nothing_else(tmp_path, error):
    path = tmp_path / "table.csv"
    path.write_text("old")
    with pytest.raises(error), whole_file(path) as draft:
        draft.write_text("half")
        raise error("power cut")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["table.csv"]


def test_folders_devices_and_pipes_are_refused_and_stay(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, why in [
        (tmp_path, "not a folder"),
        (tmp_path / "none" / "x", "that folder is not there"),
        ("/dev/null", "not a device, pipe or socket"),
        (tmp_path / "pipe", "not a device, pipe or socket"),
    ]:
        with pytest.raises(NotAFile, match=why):
            write(name)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert os.listdir(tmp_path) == ["pipe"] and stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


def test_two_at_once_in_one_folder_do_not_meet(tmp_path):
    names = [tmp_path / f"{k}.txt" for k in range(8)]
    threads = [threading.Thread(target=write, args=(name, name.stem)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name.read_text() for name in names} == set("01234567")
    assert target_file(names[0]) == names[0]

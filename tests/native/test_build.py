"""Compiling the kernels: where they are kept, who is believed, and what happens without them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlvr.native import build
from rlvr.native.build import Kernels, compiler, folder, kernels

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/maps").exists() or compiler() is None,
    reason="needs Linux and a C++ compiler",
)


@pytest.fixture(autouse=True)
def afresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache, and nothing remembered before or after."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("CXX", build.SWITCH):
        monkeypatch.delenv(name, raising=False)
    kernels.cache_clear()
    yield
    kernels.cache_clear()


def stand_in(path: Path, script: str) -> Path:
    """A program in the place of the compiler."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_kernels_are_compiled_once_for_a_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = kernels()
    assert found.library is not None, found.lacking
    assert found.library.lanes() in (4, 8, 16)
    (kept,) = (tmp_path / "cache/rlvr").iterdir()
    assert kept.stat().st_mode & 0o077 == 0 or kept.parent.stat().st_mode & 0o077 == 0
    made = kept.stat().st_mtime_ns
    kernels.cache_clear()
    assert kernels().library is not None
    assert [path.stat().st_mtime_ns for path in (tmp_path / "cache/rlvr").iterdir()] == [made]


def test_they_are_off_where_one_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(build.SWITCH, "off")
    assert kernels() == Kernels(None, "RLVR_KERNELS=off")


def test_without_a_compiler_one_is_told_which_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert kernels() == Kernels(None, "no C++ compiler; on Debian: apt-get install g++")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'kernels: \033[31mno such flag' >&2; exit 1", "kernels: [31mno such flag"),
        ('case "$1" in --version) echo 1;; *) exit 1;; esac', "c++ ended with 1"),
        ('case "$1" in --version) echo 1;; *) exit 0;; esac', "No such file"),
    ],
)
def test_a_compiler_that_fails_leaves_nothing_and_the_reason_is_kept(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(stand_in(tmp_path / "c++", script)))
    found = kernels()
    assert found.library is None
    assert said in found.lacking
    assert len(found.lacking) <= 200
    assert not list((tmp_path / "cache/rlvr").glob("**/*"))


def test_a_compiler_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "SECONDS", 0.2)
    monkeypatch.setenv("CXX", str(stand_in(tmp_path / "c++", "exec sleep 60")))
    assert "took longer than 0.2 s" in kernels().lacking


def test_a_folder_that_others_may_write_to_is_not_trusted(tmp_path: Path) -> None:
    place = tmp_path / "cache/rlvr"
    place.mkdir(parents=True)
    place.chmod(0o777)
    found = kernels()
    assert found.library is None
    assert "others" in found.lacking
    assert not list(place.iterdir())


def test_a_file_where_the_folder_should_be_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    assert kernels().library is None
    assert kernels().lacking


def test_a_damaged_library_is_not_the_end(tmp_path: Path) -> None:
    command = compiler()
    assert command is not None
    os.replace(stand_in(tmp_path / "text", ""), build.built(command))
    assert "kernels-" in kernels().lacking


def test_a_relative_cache_folder_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folder() == tmp_path / ".cache/rlvr"


def test_another_compiler_or_flag_makes_a_library_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kernels().library is not None
    found = compiler()
    assert found is not None
    monkeypatch.setenv("CXX", f"{found[0]} -DOTHER=1")
    kernels.cache_clear()
    assert kernels().library is not None
    assert len(list((tmp_path / "cache/rlvr").iterdir())) == 2

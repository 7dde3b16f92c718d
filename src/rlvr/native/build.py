"""Compiles the kernels for this processor at their first use, and finds them again later."""

import ctypes
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCES = ("vectors.h", "sampler.cpp")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fPIC", "-shared")
COMPILERS = ("c++", "g++", "clang++")
SECONDS = 300  # until a compiler that hangs is given up
SWITCH = "RLVR_KERNELS"  # "off" in the environment leaves everything to PyTorch


@dataclass(frozen=True, slots=True)
class Kernels:
    """The compiled kernels, or why there are none: PyTorch then does the same, more slowly."""

    library: ctypes.CDLL | None
    lacking: str = ""


@cache
def kernels() -> Kernels:
    """What this process has; compiled at the first call on a machine, in some seconds."""
    if os.environ.get(SWITCH) == "off":
        return Kernels(None, f"{SWITCH}=off")
    if not Path("/proc/self/maps").exists():
        return Kernels(None, "they are for Linux")
    command = compiler()
    if command is None:
        return Kernels(None, "no C++ compiler; on Debian: apt-get install g++")
    try:
        threads_of_torch()
        return Kernels(ctypes.CDLL(str(built(command))))
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return Kernels(None, reason(error))


def reason(error: Exception) -> str:
    """What went wrong, in one line."""
    said = str(error)
    if isinstance(error, subprocess.CalledProcessError):
        heard = error.stderr.decode(errors="replace").strip()
        said = heard or f"{error.cmd[0]} ended with {error.returncode}"
    elif isinstance(error, subprocess.TimeoutExpired):
        said = f"{error.cmd[0]} took longer than {error.timeout} s"
    return "".join(letter for letter in said.splitlines()[0][:200] if letter.isprintable())


def compiler() -> list[str] | None:
    """The C++ compiler to call: what CXX names, or the first on the path."""
    named = shlex.split(os.environ.get("CXX", ""))
    found = next(filter(None, map(shutil.which, named[:1] or COMPILERS)), None)
    return [found, *named[1:]] if found else None


def threads_of_torch() -> None:
    """Let the kernels find the OpenMP that PyTorch runs on: a second one would fight for the cores.

    They are linked without one, so that what is loaded already is taken.
    """
    import torch  # noqa: F401  # loads it

    maps = Path("/proc/self/maps").read_text()
    found = re.search(r"(/\S*/lib[gi]omp\S*)", maps)
    if found is None:
        raise OSError("PyTorch has loaded no OpenMP")
    ctypes.CDLL(found[1], mode=ctypes.RTLD_GLOBAL)


def built(command: list[str]) -> Path:
    """The shared library, compiled where this source on this processor has none yet.

    Raises:
        OSError: There is no safe place for it.
        SubprocessError: It can't be compiled.
    """
    here = Path(__file__).parent
    sources = [here / name for name in SOURCES]
    version = subprocess.run(
        [*command, "--version"], capture_output=True, check=True, timeout=SECONDS
    ).stdout
    processor = re.search(r"^(flags|Features)\s*:.*$", Path("/proc/cpuinfo").read_text(), re.M)
    parts = [*(path.read_bytes() for path in sources), version, repr((command, FLAGS)).encode()]
    parts.append(processor[0].encode() if processor else b"")
    name = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    path = folder() / f"kernels-{name}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as room:
            made = Path(room, path.name)
            code = [str(source) for source in sources if source.suffix == ".cpp"]
            # compiled and linked apart: linking with -fopenmp would bring an OpenMP of its own
            objects = Path(room, "kernels.o")
            link = [flag for flag in FLAGS if flag != "-fopenmp"]
            compile_only = [flag for flag in FLAGS if flag != "-shared"]
            for call in (
                [*command, *compile_only, "-c", *code, "-o", str(objects)],
                [*command, *link, str(objects), "-o", str(made)],
            ):
                subprocess.run(call, capture_output=True, check=True, timeout=SECONDS)
            os.replace(made, path)
    return path


def folder() -> Path:
    """Where compiled kernels are kept: the user's own, since what lies there is run.

    Raises:
        OSError: It can't be made, or others may write to it.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    found = (named if named.is_absolute() else Path.home() / ".cache") / "rlvr"
    found.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = found.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise OSError(f"{found} belongs to others, or they may write to it")
    return found

"""Finds or makes what the peers need: a Python with torch and numpy, and a faster malloc for it."""

import glob
import os
import shutil
import subprocess
import sys

EXIT_MISSING = 3


class Failed(Exception):
    """A run ended badly, or the sides do not compute the same."""


class Missing(Exception):
    """Something a peer needs is not here and cannot be had; the text says what to do."""


def _version(python, modules):
    """Version of the first of `modules` where all can be imported, else None."""
    check = f"import {', '.join(modules)}; print({modules[0]}.__version__)"
    done = subprocess.run([python, "-c", check], capture_output=True, text=True, timeout=300,
                          check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def torch_python(build_dir):
    """Path of a Python that imports torch and numpy. Makes one in build_dir when there is none."""
    return _python_with(build_dir, ["torch", "numpy"],
                        "install torch (CPU) and numpy into a virtual environment and set "
                        "TANDEM_BENCH_VENV to it; with Debian's python3-torch, "
                        "TANDEM_BENCH_VENV=/usr")


def arrow_python(build_dir):
    """The same with pyarrow."""
    return _python_with(build_dir, ["pyarrow"],
                        "install pyarrow into a virtual environment and set TANDEM_BENCH_VENV to it")


def onnx_python(build_dir):
    """The same with onnxruntime."""
    return _python_with(build_dir, ["onnxruntime", "numpy"],
                        "install onnxruntime and numpy into a virtual environment and set "
                        "TANDEM_BENCH_VENV to it")


def text_python(build_dir):
    """The same with torch and pyarrow."""
    return _python_with(build_dir, ["torch", "numpy", "pyarrow"],
                        "install torch (CPU), numpy and pyarrow into a virtual environment and set "
                        "TANDEM_BENCH_VENV to it")


def images_python(build_dir):
    """The same with OpenCV and torchvision."""
    return _python_with(build_dir, ["cv2", "torchvision"],
                        "install opencv-python-headless and torchvision into a virtual environment "
                        "and set TANDEM_BENCH_VENV to it; from Debian: python3-opencv and "
                        "python3-torchvision, TANDEM_BENCH_VENV=/usr")


PACKAGES = {"cv2": "opencv-python-headless"}  # modules whose pip package has another name


def _python_with(build_dir, modules, hint):
    given = os.environ.get("TANDEM_BENCH_VENV")
    folder = given or os.path.join(build_dir, "bench-venv")
    python = os.path.join(folder, "bin", "python3")
    if os.path.exists(python) and _version(python, modules):
        return python
    names = " and ".join(modules)
    print(f"bench: installing {names} into {folder} (once)", file=sys.stderr)
    log = os.path.join(build_dir, "bench", "peer-setup.log")
    os.makedirs(os.path.dirname(log), exist_ok=True)
    commands = [[python, "-m", "pip", "install", "--disable-pip-version-check",
                 *(PACKAGES.get(module, module) for module in modules)]]
    if not os.path.exists(python):
        commands.insert(0, [sys.executable, "-m", "venv", folder])
    with open(log, "w", encoding="utf-8") as out:
        for command in commands:
            if subprocess.run(command, stdout=out, stderr=out, check=False).returncode != 0:
                break
    version = _version(python, modules) if os.path.exists(python) else None
    if version is None:
        raise Missing(f"a Python with {names} in {folder} (the log of the attempt: {log})\n"
                      f"hint: {hint}")
    return python


def allreduce(build_dir, peer):
    """Path of peer_allreduce.cc, built with "mpi" or "gloo" where it is not there yet."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer_allreduce.cc")
    root = os.path.dirname(os.path.dirname(os.path.dirname(source)))
    program = os.path.join(build_dir, "bench", "peer-allreduce-" + peer)
    if os.path.exists(program) and os.path.getmtime(program) > os.path.getmtime(source):
        return program
    compiler, libraries = ("mpicxx", []) if peer == "mpi" else ("g++", ["-lgloo"])
    os.makedirs(os.path.dirname(program), exist_ok=True)
    packages = {"mpi": "openmpi-bin libopenmpi-dev", "gloo": "libgloo-dev"}[peer]
    hint = f"hint: run apt-get install --no-install-recommends g++ {packages}"
    if not shutil.which(compiler):
        raise Missing(f"{compiler}, which builds the peer\n{hint}")
    done = subprocess.run(
        [compiler, "-O3", "-march=native", "-std=c++20", "-I" + root, "-DWITH_" + peer.upper(),
         source, "-o", program, *libraries], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Missing(f"a peer that builds: {done.stderr[-500:]}\n{hint}")
    return program


def redis_server(build_dir):
    """(path, environment) of a redis-server. Unpacked from Debian's packages where not installed."""
    installed = shutil.which("redis-server")
    if installed:
        return installed, {}
    unpacked = os.path.join(build_dir, "bench-peer")
    path = os.path.join(unpacked, "usr", "bin", "redis-server")
    if not os.path.exists(path):
        _unpack(unpacked, ["redis-server", "redis-tools", "liblzf1", "libjemalloc2"])
    folders = glob.glob(f"{unpacked}/usr/lib/*-linux-gnu")
    env = {"LD_LIBRARY_PATH": ":".join(folders)}
    check = os.path.exists(path) and subprocess.run(
        [path, "--version"], env={**os.environ, **env}, capture_output=True, check=False)
    if not check or check.returncode != 0:
        raise Missing("a redis-server\nhint: run apt-get install --no-install-recommends redis-server")
    return path, env


def _unpack(folder, packages):
    """Debian's packages, into `folder`; what cannot be had is not there then."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return
    os.makedirs(folder, exist_ok=True)
    subprocess.run(["apt-get", "download", *packages], cwd=folder, capture_output=True,
                   check=False)
    for name in packages:
        for package in glob.glob(f"{folder}/{name}_*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, folder], capture_output=True, check=False)


def tcmalloc(build_dir):
    """Path of libtcmalloc_minimal, or None. Unpacked from Debian's package where not installed."""
    name = "libtcmalloc_minimal.so.4"
    unpacked = os.path.join(build_dir, "bench-peer")
    for pattern in (f"/usr/lib/*/{name}", f"/usr/lib/{name}", f"{unpacked}/usr/lib/*/{name}"):
        found = glob.glob(pattern)
        if found:
            return found[0]
    _unpack(unpacked, ["libtcmalloc-minimal4"])
    found = glob.glob(f"{unpacked}/usr/lib/*/{name}")
    return found[0] if found else None


def settings(build_dir, threads):
    """[(name, environment)] to try for an OpenMP peer; the first is the peer as installed."""
    mallocs = [("", {})]
    path = tcmalloc(build_dir)
    if path:
        mallocs.append(("tcmalloc", {"LD_PRELOAD": path}))
    waits = [("", {})]
    if threads > 1:
        waits += [(f"OMP_WAIT_POLICY={policy}", {"OMP_WAIT_POLICY": policy})
                  for policy in ("passive", "active")]
    out = []
    for malloc_name, malloc_env in mallocs:
        for wait_name, wait_env in waits:
            name = ", ".join(filter(None, (malloc_name, wait_name))) or "as installed"
            out.append((name, {**malloc_env, **wait_env, "OMP_NUM_THREADS": str(threads)}))
    return out

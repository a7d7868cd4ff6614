"""Builds the programs that figures run, before they are measured."""

import os
import shutil
import subprocess
import sys

import peer_setup
from peer_setup import Failed

FIGURES = "tandem-figures"
JOBS = ["tandemrun", "tandem-trainer", "tandem-pserver"]
# The targets that a figure runs besides tandem-figures.
MORE = {
    "ps_exactly_once": ["tandem-figures-no_dedup"],
    "ps_recovery": JOBS,
    "deepfm_end_to_end": JOBS,
    "dp_efficiency": JOBS,
    "hybrid_deepfm": JOBS,
    "data_wait": JOBS,
    "job_start": JOBS,
    "idle_cpu": JOBS,
    "collective_tls": JOBS,
    "tls_overhead": JOBS,
}


def targets(names):
    """The targets of figures, each once."""
    return list(dict.fromkeys([FIGURES] + [t for name in names for t in MORE.get(name, [])]))


def run_cmake(args, what, hint):
    """Runs cmake; its output is the progress and goes to stderr."""
    if shutil.which("cmake") is None:
        raise peer_setup.Missing("cmake\nhint: run deploy/setup.sh")
    done = subprocess.run(["cmake", *args], stdout=sys.stderr, check=False)
    if done.returncode != 0:
        raise Failed(f"{what}: cmake ended with {done.returncode}\nhint: {hint}")


def build(build_dir, names):
    """Builds the programs of figures. The build directory must be configured."""
    if not os.path.exists(os.path.join(build_dir, "CMakeCache.txt")):
        raise peer_setup.Missing(f"{build_dir}/CMakeCache.txt\nhint: build with deploy/build.sh")
    wanted = targets(names)
    print(f"bench: building {' '.join(wanted)} in {build_dir}", file=sys.stderr, flush=True)
    jobs = os.environ.get("TANDEM_JOBS") or str(os.cpu_count())
    run_cmake(["--build", build_dir, "--target", *wanted, "-j", jobs], f"build of {build_dir}",
              "the errors of the compiler are above; correct them and run the command again")

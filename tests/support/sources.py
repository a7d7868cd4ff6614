"""The files of the project: those that git knows, or all but build directories where there is no repository."""

import os
import subprocess


def files(source, *suffixes):
    """Paths from `source`, sorted, that end with one of `suffixes`."""
    run = subprocess.run(["git", "-C", source, "-c", f"safe.directory={source}", "ls-files", "--cached", "--others",
                          "--exclude-standard"], capture_output=True, text=True, check=False)
    if run.returncode == 0:
        found = [f for f in run.stdout.splitlines() if os.path.isfile(os.path.join(source, f))]
    else:
        found = []
        for folder, folders, names in os.walk(source):
            folders[:] = [f for f in folders if not f.startswith((".", "build"))]
            found += [os.path.relpath(os.path.join(folder, name), source) for name in names]
    return sorted(f for f in found if f.endswith(suffixes))

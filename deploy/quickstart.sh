#!/usr/bin/env bash
# Goes from a fresh Debian 12 to a trained network: installs missing packages, builds the programs
# and the Python client, and runs `tandem demo` with the given arguments. A second run repeats no
# work.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# stdout belongs to the demo, so that `quickstart.sh --json` prints only one JSON object.
"$root/deploy/build.sh" --target tandem_programs >&2
# `tandem doctor` reports the same.
if [ ! -e "$root/build/lib/libtandem_cuda.so" ]; then
  echo "quickstart: no CUDA module was built: jobs run on the CPU; for GPUs:" \
    "./deploy/build.sh -DTANDEM_CUDA=ON --target tandem_cuda" >&2
fi
exec "$root/build/bin/tandem" demo "$@"

#!/usr/bin/env bash
# From a fresh Debian 12 to a trained network: installs what is missing, builds the programs, and
# runs `tandem demo` with the arguments given. Running it again does no work twice.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# stdout belongs to the demo, so that `quickstart.sh --json` prints one JSON object there.
"$root/deploy/build.sh" --target tandem_programs >&2
exec "$root/build/bin/tandem" demo "$@"

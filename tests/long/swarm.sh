#!/bin/bash
# Runs random combinations of all settings (tests/swarm): 20,000 by default, which takes about three
# hours. Each is refused with a reason, or runs and keeps what docs/project/guarantees.md promises.
# A finding is printed with its seed and with a smaller combination that has it.
#
#   tests/long/swarm.sh [COMBINATIONS [FIRST_SEED]] [--seconds=N] [--combination=JSON]
set -euo pipefail
cd "$(dirname "$0")/../.."
exec /usr/bin/python3 -B tests/swarm/swarm.py --build=build --source=. "$@"

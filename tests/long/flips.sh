#!/bin/bash
# Flips single bits in messages, files and memory of small jobs, and prints how many were found
# (tests/long/flips.py): 10,000 by default.
#
#   tests/long/flips.sh [N [SEED]]
set -euo pipefail
cd "$(dirname "$0")/../.."
exec /usr/bin/python3 -B tests/long/flips.py "${1:-10000}" "${2:-1}"

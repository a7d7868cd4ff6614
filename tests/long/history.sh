#!/bin/bash
# Runs random clients and faults against real pservers (tests/history) and checks the histories: 200
# rounds of 20 s by default, which takes about 75 minutes. A violation is printed with its seed and the
# heading of docs/project/guarantees.md, and the history stays in /tmp/tandem-history.
#
#   tests/long/history.sh [ROUNDS [SECONDS [FIRST_SEED]]] [--workload=raw] [--mode=a_sync|sync]
set -euo pipefail
cd "$(dirname "$0")/../.."
numbers=()
while [[ ${1:-} =~ ^[0-9]+$ ]]; do
  numbers+=("$1")
  shift
done
exec /usr/bin/python3 -B tests/history/run.py --build=build --rounds="${numbers[0]:-200}" \
  --workload=all --seconds="${numbers[1]:-20}" --seed="${numbers[2]:-$RANDOM}" "$@"

#!/bin/bash
# Runs the ledger test of the change stream with many kills of servers, replicas and followers
# (tests/python/tandem_follow_test.py): 300 rounds by default, which takes a few minutes.
#
#   tests/long/follow.sh [ROUNDS [SEED]]
set -euo pipefail
cd "$(dirname "$0")/../.."
export TANDEM_FOLLOW_ROUNDS=${1:-300} TANDEM_FOLLOW_SEED=${2:-$RANDOM} TANDEM_BIN_DIR=$PWD/build/bin
PYTHONPATH=tests/support:tests/python \
  /usr/bin/python3 -B tests/python/tandem_follow_test.py --build=build --source=. Ledger

#!/bin/bash
# Runs the ledger test of standbys with many kills and lost directories
# (tests/e2e/standby_test.cc): 1000 by default, once with and once without moves of rows and global
# snapshots. The test with moves took four minutes beside other work.
#
#   tests/long/standby.sh [ROUNDS [SEED]]
set -euo pipefail
cd "$(dirname "$0")/../.."
export TANDEM_STANDBY_ROUNDS=${1:-1000} TANDEM_STANDBY_SEED=${2:-$RANDOM} TANDEM_BIN_DIR=build/bin
build/tests/e2e_standby_test --gtest_filter='*NothingIsLost*'

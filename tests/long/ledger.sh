#!/bin/bash
# Runs the ledger tests with many kills (tests/e2e/ledger_test.cc, ledger_trainers_test.cc):
# 1000 each by default, which takes about half an hour.
#
#   tests/long/ledger.sh [KILLS [SEED]]
set -euo pipefail
cd "$(dirname "$0")/../.."
export TANDEM_LEDGER_KILLS=${1:-1000} TANDEM_LEDGER_SEED=${2:-$RANDOM} TANDEM_BIN_DIR=build/bin
echo "ledger.sh: $TANDEM_LEDGER_KILLS kills, seed $TANDEM_LEDGER_SEED"
build/tests/e2e_ledger_trainers_test --gtest_filter='*NothingIsLost*'
build/tests/e2e_ledger_test --gtest_filter='*NothingIsLost*'

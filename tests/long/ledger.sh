#!/bin/bash
# The ledger test with many kills (tests/e2e/ledger_test.cc): 1000 by default, five to ten minutes.
#   tests/long/ledger.sh [KILLS [SEED]]
set -euo pipefail
cd "$(dirname "$0")/../.."
export TANDEM_LEDGER_KILLS=${1:-1000} TANDEM_LEDGER_SEED=${2:-$RANDOM} TANDEM_BIN_DIR=build/bin
echo "ledger.sh: $TANDEM_LEDGER_KILLS kills, seed $TANDEM_LEDGER_SEED"
exec build/tests/e2e_ledger_test --gtest_filter='*NothingIsLost*'

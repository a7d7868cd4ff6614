#!/bin/bash
# Kills ranks of a collective job at random (tests/e2e/recovery_test.cc), and trainers and pservers
# of a hybrid job (click_test.cc). Each test has 200 rounds by default and takes about ten minutes.
# The parameters must equal those of the undisturbed job.
#
#   tests/long/recovery.sh [ROUNDS [SEED]]
set -euo pipefail
cd "$(dirname "$0")/../.."
export TANDEM_RECOVERY_ROUNDS=${1:-200} TANDEM_RECOVERY_SEED=${2:-$RANDOM} TANDEM_BIN_DIR=build/bin
echo "recovery.sh: $TANDEM_RECOVERY_ROUNDS rounds, seed $TANDEM_RECOVERY_SEED"
build/tests/e2e_recovery_test --gtest_filter='*RandomKills*'
build/tests/e2e_click_test --gtest_filter='*HybridProcesses*'

#!/bin/bash
# Runs the simulator (tests/sim/) with many seeds: 5000 of each mode by default, which takes some
# minutes.
#
#   tests/long/sim.sh [SEEDS [FIRST]]
#
# TANDEM_SIM_DAMAGED=1 adds deaths and losses of members of a server while another member does not have
# all log entries again after it fetched a checkpoint. Some of these end with TD4030, and a loss of power of
# all members loses what was not synced.
set -euo pipefail
cd "$(dirname "$0")/../.."
export TANDEM_SIM_SEEDS=${1:-5000} TANDEM_SIM_FIRST=${2:-1000001}
echo "sim.sh: $TANDEM_SIM_SEEDS seeds of each mode from $TANDEM_SIM_FIRST on"
time build/tests/sim_test --gtest_filter='*EveryPushCountsOnce*'

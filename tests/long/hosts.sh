#!/bin/bash
# Jobs on 4 emulated hosts, each with a fault of one host (tests/e2e/hosts_test.cc): killed ranks and
# tandemruns, cut links. Each job must recover, with the bits of an undisturbed job where they are
# promised, or each host must name the cause. A round takes about ten seconds. Needs root.
#
#   tests/long/hosts.sh [ROUNDS [SEED]]
# ROUNDS 0: each fault in each mode once. TANDEM_HOSTS_ONLY=MODE or MODE/FAULT: only these cases.
set -euo pipefail
cd "$(dirname "$0")/../.."
export TANDEM_HOSTS_ROUNDS=${1:-300} TANDEM_HOSTS_SEED=${2:-$RANDOM} TANDEM_BIN_DIR=build/bin
echo "hosts.sh: $TANDEM_HOSTS_ROUNDS rounds, seed $TANDEM_HOSTS_SEED"
build/tests/e2e_hosts_test

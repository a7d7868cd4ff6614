#!/bin/bash
# Jobs on 3 emulated hosts whose pservers have standbys on other hosts. A host is lost with its disk
# while its pserver is the primary (tests/e2e/standby_hosts_test.cc). The job must continue, with the
# bits of an undisturbed job in sync and hybrid mode. A round takes about 10 seconds. Needs root.
#
#   tests/long/standby_hosts.sh [ROUNDS [SEED]]
set -euo pipefail
cd "$(dirname "$0")/../.."
export TANDEM_STANDBY_HOSTS_ROUNDS=${1:-200} TANDEM_STANDBY_HOSTS_SEED=${2:-$RANDOM}
export TANDEM_BIN_DIR=build/bin
echo "standby_hosts.sh: $TANDEM_STANDBY_HOSTS_ROUNDS rounds, seed $TANDEM_STANDBY_HOSTS_SEED"
build/tests/e2e_standby_hosts_test

#!/bin/bash
# Runs a pserver with four times the callers that it can serve (tests/e2e/overload_test.cc), in two
# phases of one minute by default. Run it on an otherwise idle machine.
#
#   tests/long/overload.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/../.."
export TANDEM_OVERLOAD_SECONDS=${1:-60} TANDEM_BIN_DIR=build/bin
exec build/tests/e2e_overload_test

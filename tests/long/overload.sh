#!/bin/bash
# A pserver with four times the callers that it keeps up with (tests/e2e/overload_test.cc): two
# phases of a minute by default. On a machine with nothing else to do.
#   tests/long/overload.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/../.."
export TANDEM_OVERLOAD_SECONDS=${1:-60} TANDEM_BIN_DIR=build/bin
exec build/tests/e2e_overload_test

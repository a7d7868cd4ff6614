#!/bin/bash
# Runs the ledger test of streams with many kills of trainers and pservers
# (tests/e2e/stream_test.cc): 500 by default, once with and once without moves of rows. It takes a few
# minutes.
#
#   tests/long/stream.sh [KILLS [SEED]]
set -euo pipefail
cd "$(dirname "$0")/../.."
export TANDEM_STREAM_KILLS=${1:-500} TANDEM_STREAM_SEED=${2:-$RANDOM} TANDEM_BIN_DIR=build/bin
build/tests/e2e_stream_test --gtest_filter='*EachRecordIsCountedOnceWh*'

#!/bin/bash
# Runs the ledger test of a Kafka source with many kills of trainers and pservers, over
# librdkafka's mock brokers with injected errors (tests/e2e/kafka_test.cc): 500 rounds by default.
#
#   tests/long/kafka.sh [ROUNDS [SEED]]
set -euo pipefail
cd "$(dirname "$0")/../.."
export TANDEM_STREAM_KILLS=${1:-500} TANDEM_STREAM_SEED=${2:-$RANDOM} TANDEM_BIN_DIR=build/bin
build/tests/e2e_kafka_test --gtest_filter='*EachRecordIsCountedOnceWhoeverDies*'

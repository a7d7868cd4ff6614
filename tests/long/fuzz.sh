#!/bin/bash
# The fuzz tests of strategy, job, program, data and ONNX files with many files: 1,000,000 of each kind by
# default.
#   tests/long/fuzz.sh [FILES [SEED]]
set -euo pipefail
cd "$(dirname "$0")/../.."
export TANDEM_FUZZ_RUNS=${1:-1000000} TANDEM_SEED=${2:-$RANDOM}
echo "fuzz.sh: $TANDEM_FUZZ_RUNS files of each kind, seed $TANDEM_SEED"
build/tests/text_fuzz_test --gtest_filter='*MutatedJobs'
build/tests/program_fuzz_test
build/tests/reader_fuzz_test
build/tests/onnx_fuzz_test

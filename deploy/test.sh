#!/usr/bin/env bash
# Installs missing packages, builds, and runs the whole test suite.
#   deploy/test.sh [--preset release|debug|asan|ubsan|tsan|clang-safety] [arguments of ctest ...]
# Examples: deploy/test.sh -R launch      deploy/test.sh --preset tsan -L threads
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=release
case ${1:-} in
  --preset) preset=${2:?--preset needs a name}; shift 2 ;;
  --preset=*) preset=${1#*=}; shift ;;
esac
case $preset in release) dir=build ;; *) dir=build-$preset ;; esac
# Packages of tests/torch, tests/python and tests/deploy; without them these tests are skipped.
if ! /usr/bin/python3 -c 'import torch, grpc, google.protobuf, yaml' >/dev/null 2>&1; then
  ./deploy/setup.sh python3-torch python3-grpcio python3-protobuf python3-yaml ||
    echo "test: warning: python3-torch and python3-grpcio cannot be installed: tests are skipped" >&2
fi
# tests/deploy runs its own Prometheus, so the server of Debian's package is stopped.
if ! command -v prometheus >/dev/null; then
  ./deploy/setup.sh prometheus && (systemctl disable --now prometheus >/dev/null 2>&1 || true) ||
    echo "test: warning: prometheus cannot be installed: deploy_monitoring_test is skipped" >&2
fi
# Tests of the rendezvous run their own etcd.
if ! { command -v etcd && command -v etcdctl; } >/dev/null; then
  ./deploy/setup.sh etcd-server etcd-client && (systemctl disable --now etcd >/dev/null 2>&1 || true) ||
    echo "test: warning: etcd-server and etcd-client cannot be installed: tests are skipped" >&2
fi
# tests/onnx checks models with these packages.
if ! /usr/bin/python3 -c 'import cv2, onnx' >/dev/null 2>&1; then
  ./deploy/setup.sh python3-onnx python3-opencv ||
    echo "test: warning: python3-onnx and python3-opencv cannot be installed: tests are skipped" >&2
fi
# tests/python compares tables of pandas with their csv files.
if ! /usr/bin/python3 -c 'import pandas' >/dev/null 2>&1; then
  ./deploy/setup.sh python3-pandas ||
    echo "test: warning: python3-pandas cannot be installed: tests of frames are skipped" >&2
fi
# tests/python runs the notebooks of docs/notebooks.
if ! /usr/bin/python3 -c 'import nbclient, ipykernel' >/dev/null 2>&1; then
  ./deploy/setup.sh python3-nbclient python3-ipykernel ||
    echo "test: warning: python3-nbclient cannot be installed: the notebooks are not run" >&2
fi
# tests/shape and tests/format look at the sources with them.
if ! command -v ctags >/dev/null || ! command -v clang-format >/dev/null; then
  ./deploy/setup.sh universal-ctags clang-format ||
    echo "test: warning: universal-ctags and clang-format cannot be installed: tests are skipped" >&2
fi
if ! command -v man >/dev/null; then
  ./deploy/setup.sh man-db ||
    echo "test: warning: man-db cannot be installed: deploy_man_test is skipped" >&2
fi
if ! command -v mpirun >/dev/null || ! command -v dpkg-shlibdeps >/dev/null ||
  ! command -v patchelf >/dev/null; then
  ./deploy/setup.sh openmpi-bin dpkg-dev patchelf ||
    echo "test: warning: openmpi-bin, dpkg-dev and patchelf cannot be installed: tests are skipped" >&2
fi
if ! command -v chromium >/dev/null; then
  ./deploy/setup.sh chromium ||
    echo "test: warning: chromium cannot be installed: deploy_status_page_test is skipped" >&2
fi
# tests/deploy/site_test.py builds the documentation.
if ! command -v mkdocs >/dev/null || ! command -v dot >/dev/null || ! command -v doxygen >/dev/null; then
  ./deploy/setup.sh mkdocs mkdocs-material graphviz doxygen ||
    echo "test: warning: mkdocs or doxygen cannot be installed: tests are skipped" >&2
fi
# deploy/lint.sh looks at the sources that changed.
if ! command -v clang-tidy >/dev/null; then
  ./deploy/setup.sh clang-tidy ||
    echo "test: warning: clang-tidy cannot be installed: sources are not linted" >&2
fi
./deploy/build.sh --preset "$preset"
lint=0
[ "$preset" != release ] || ./deploy/lint.sh --build="$dir" --seconds=60 || lint=$?

# Each test program writes a summary of its cases to this directory.
results=$PWD/$dir/test-results
rm -rf "$results"
mkdir -p "$results"
start=$SECONDS status=0
# Most tests wait for processes and deadlines most of the time, so there are more tests than
# processors. A test that fails is tried once more, and named below if it passes then.
GTEST_OUTPUT="xml:$results/" ctest --preset "$preset" --output-on-failure \
  --parallel $(($(nproc) * 2)) --repeat until-pass:2 \
  --no-tests=error "$@" | tee "$results/ctest.log" || status=$?
failed=$(sed -n 's/.*Test *#[0-9]*: \([^ ]*\) .*\*\*\*\(Failed\|Timeout\|Exception\).*/\1/p' \
  "$results/ctest.log" | sort | uniq -c | awk '$1 == 1 { print $2 }')
[ -z "$failed" ] || echo "test: passed at the second try, look at the output of the first:" $failed

totals=$(find "$results" -name '*.xml' -exec cat {} + | awk '
  function number(name) {
    if (!match($0, " " name "=\"[0-9]+\"")) return 0
    return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4) + 0
  }
  /<testsuites / { cases += number("tests"); failed += number("failures") + number("errors") }
  /<testsuite / { skipped += number("skipped") }
  END { printf "%d cases, %d failed, %d skipped", cases, failed, skipped }')
outcome=passed
[ $status -eq 0 ] || outcome=FAILED
if [ $lint -ne 0 ]; then
  outcome=FAILED status=$lint
  echo "test: clang-tidy has findings: see above, or run deploy/lint.sh"
fi
echo "test: $outcome: $totals, $((SECONDS - start)) s (preset $preset)"
exit $status

#!/usr/bin/env bash
# Measures figures: runs Tandem and a peer in turns on this machine, and prints one JSON object per
# figure.
#   tests/bench/run.sh --list                names, units, goals
#   tests/bench/run.sh NAME... [--rounds=5] [--seconds=2] [--wait_idle_s=0] [--out=FILE]
# Peers run in a Python environment: $TANDEM_BENCH_VENV (any prefix with bin/python3), else
# build/bench-venv, which is created with pip if it is missing. TANDEM_BUILD_DIR: build/ if unset.
# A run beside other work, or with fewer than 5 rounds, reports "trusted": false and meets no goal.
# Exit codes: 0 figures printed, 1 a run or its check failed, 2 unknown or not built yet,
# 3 a requirement of the peer is missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
table=$here/figures.tsv

list() {
  awk -F'\t' '!/^#/ { printf "%-20s %-10s %-14s %-14s %s\n", $1, $2, $3, $4, $5 }' "$table"
}
# Prints the most similar name of the table if it differs by a typing mistake only.
nearest() {
  awk -F'\t' -v word="$1" '
    function min(a, b) { return a < b ? a : b }
    function edits(a, b,   i, j, row, last, keep) {
      for (j = 0; j <= length(b); j++) row[j] = j
      for (i = 1; i <= length(a); i++) {
        last = row[0]; row[0] = i
        for (j = 1; j <= length(b); j++) {
          keep = row[j]
          row[j] = min(min(row[j], row[j - 1]) + 1, last + (substr(a, i, 1) != substr(b, j, 1)))
          last = keep
        }
      }
      return row[length(b)]
    }
    !/^#/ { d = edits(word, $1); if (best == "" || d < least) { least = d; best = $1 } }
    END { if (least <= 4) print best }' "$table"
}
usage() {
  echo "bench: error: $1" >&2
  echo "hint: ${2:-tests/bench/run.sh --list shows the names}" >&2
  exit 2
}

names=() options=()
for arg in "$@"; do
  case $arg in
    --list) list; exit 0 ;;
    --rounds=* | --seconds=* | --wait_idle_s=* | --out=*) options+=("$arg") ;;
    -*)
      usage "unknown option \"$arg\"" \
        "options: --list --rounds=N --seconds=S --wait_idle_s=S --out=FILE"
      ;;
    *) names+=("$arg") ;;
  esac
done
[ ${#names[@]} -gt 0 ] || usage "which figure?"
for name in "${names[@]}"; do
  state=$(awk -F'\t' -v name="$name" '!/^#/ && $1 == name { print $4 }' "$table")
  case $state in
    built) ;;
    "")
      near=$(nearest "$name")
      usage "there is no figure \"$name\"" "${near:+did you mean \"$near\"? }--list shows the names"
      ;;
    *) usage "figure \"$name\" is $state" "--list shows which figures are built" ;;
  esac
done
if ! command -v python3 >/dev/null; then
  echo "bench: missing: python3, which alternates the sides" >&2
  echo "hint: run apt-get install --no-install-recommends python3 python3-venv" >&2
  exit 3
fi
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$here/driver.py" ${options[@]+"${options[@]}"} "${names[@]}"

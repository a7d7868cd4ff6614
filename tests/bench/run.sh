#!/usr/bin/env bash
# Measures figures: runs Tandem and a peer in turns on this machine, and prints one JSON object per
# figure.
#   tests/bench/run.sh --list                names, units, goals
#   tests/bench/run.sh NAME... [--rounds=5] [--seconds=2] [--wait_idle_s=0] [--out=FILE] [--record]
#   tests/bench/run.sh --regress BASE NAME... [--rounds=5] [--seconds=2] [--wait_idle_s=0]
# --record builds the programs and writes each trusted figure to KIND.json in
# docs/project/benchmarks/results/, where KIND is the kind of this CPU. It then writes figures.md.
# --regress builds the commit or branch BASE in the git worktree build/regress/COMMIT, builds this
# working tree, and alternates Tandem's side of both. A row is "faster" or "slower" if the medians
# differ by more than the rounds of each build. The worktree is kept for the next comparison;
# `git worktree remove build/regress/COMMIT` removes it.
# Peers run in a Python environment: $TANDEM_BENCH_VENV (any prefix with bin/python3), else
# build/bench-venv, which is created with pip if it is missing. TANDEM_BUILD_DIR: build/ if unset.
# A run beside other work, or with fewer than 5 rounds, reports "trusted": false and meets no goal.
# Exit codes: 0 figures printed, 1 a run or its check failed or --record was refused, 2 wrong
# arguments or a figure that is not built yet, 3 a requirement is missing. With --regress: 0 no row
# is slower, 1 a row is slower, 2 wrong arguments or unknown commit, 3 a requirement is missing,
# 4 a build or a run failed.
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

names=() options=() base="" only_figures=""
regress_usage="tests/bench/run.sh --regress BASE NAME..., where BASE is a commit or branch"
while [ $# -gt 0 ]; do
  case $1 in
    --list) list; exit 0 ;;
    --rounds=* | --seconds=* | --wait_idle_s=*) options+=("$1") ;;
    --out=* | --record) options+=("$1") only_figures=$1 ;;
    --regress | --regress=*)
      if [ "$1" = --regress ] && [ $# -gt 1 ]; then shift; fi
      base=${1#--regress}
      base=${base#=}
      case $base in "" | -*) usage "--regress needs a commit or branch" "$regress_usage" ;; esac
      ;;
    -*)
      usage "unknown option \"$1\"" \
        "options: --list --rounds=N --seconds=S --wait_idle_s=S --out=FILE --record --regress BASE"
      ;;
    *) names+=("$1") ;;
  esac
  shift
done
if [ -n "$base" ] && [ -n "$only_figures" ]; then
  usage "--regress and ${only_figures%%=*} exclude each other" \
    "--regress compares two builds of Tandem and measures no figure"
fi
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
if [ -n "$base" ]; then
  exec python3 "$here/regress.py" ${options[@]+"${options[@]}"} -- "$base" "${names[@]}"
fi
exec python3 "$here/driver.py" ${options[@]+"${options[@]}"} "${names[@]}"

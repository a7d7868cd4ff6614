#!/bin/bash
# Runs every parser under libFuzzer with address, leak and undefined behaviour sanitizers (preset
# fuzz), each for the given CPU minutes, 10 by default. First, as target "mutations", it runs the fuzz
# tests of strategy, job, program, data and ONNX files with TANDEM_FUZZ_RUNS files of each kind
# (1,000,000; TANDEM_SEED too).
#   tests/long/fuzz.sh [MINUTES_PER_TARGET [TARGET...]]
# Results are kept from run to run in build-fuzz/fuzz, or the directory TANDEM_FUZZ_KEEP:
# corpus/TARGET, crashes/TARGET-*, and one row per run in figures.tsv. The table at the end sums the
# rows. TANDEM_UPDATE=1 writes it to docs/project/benchmarks/fuzz.md. Exit code 1: a target crashed.
# For the test of this script: TANDEM_FUZZ_PROGRAMS, the directory of fuzz_TARGET, and
# TANDEM_FUZZ_PAGE.
set -euo pipefail
cd "$(dirname "$0")/../.."
minutes=${1:-10}
shift || true
all=(mutations $(sed -n 's/^tandem_fuzz_target(\([a-z_]*\) .*/\1/p' tests/fuzz/CMakeLists.txt))
targets=("${@:-${all[@]}}")
programs=${TANDEM_FUZZ_PROGRAMS:-build-fuzz/fuzz}
page=${TANDEM_FUZZ_PAGE:-docs/project/benchmarks/fuzz.md}
out=${TANDEM_FUZZ_KEEP:-$programs}
figures=$out/figures.tsv
mkdir -p "$out"

mutations() {
  export TANDEM_FUZZ_RUNS=${TANDEM_FUZZ_RUNS:-1000000} TANDEM_SEED=${TANDEM_SEED:-$RANDOM}
  echo "fuzz.sh: $TANDEM_FUZZ_RUNS files of each kind, seed $TANDEM_SEED"
  build/tests/text_fuzz_test --gtest_filter='*MutatedJobs'
  build/tests/program_fuzz_test
  build/tests/reader_fuzz_test
  build/tests/onnx_fuzz_test
}

# Runs libFuzzer on a target for some seconds. Adds a row of figures. Exit code 72 means that a
# signal ended it.
turn() {
  local name=$1 seconds=$2 log=$out/$1.log words=$out/seeds/$1/words.dict flags=() rc=0
  local TIMEFORMAT='%U %S' used
  [ ! -s "$words" ] || flags+=(-dict="$words")
  used=$({ time "$programs/fuzz_$name" "$out/corpus/$name" -max_total_time="$seconds" -max_len=16384 \
    -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$out/crashes/$name-" \
    ${flags[@]+"${flags[@]}"} >"$log" 2>&1; } 2>&1) || rc=$?
  awk -v name="$name" -v used="$used" -v rc=$rc '
    /^stat::number_of_executed_units/ { runs = $2 }
    match($0, /cov: [0-9]+/) { edges = substr($0, RSTART + 5, RLENGTH - 5) }
    match($0, /corp: [0-9]+/) { corpus = substr($0, RSTART + 6, RLENGTH - 6) }
    END {
      split(used, cpu, " ")
      printf "%s\t%d\t%d\t%d\t%.1f\t%d\n", name, runs, edges, corpus, cpu[1] + cpu[2], rc != 0 && rc != 72
    }' "$log" >>"$figures"
  [ $rc -eq 0 ] || { echo "fuzz.sh: $name ended with $rc: $log" >&2; return 1; }
}

# Prints the CPU seconds of the last row.
last_seconds() { tail -1 "$figures" | cut -f5; }

# Runs turns until a target has used enough CPU seconds.
fuzz() {
  local name=$1 left
  left=$(awk -v minutes="$minutes" 'BEGIN { printf "%d", minutes * 60 }')
  mkdir -p "$out/corpus/$name" "$out/seeds/$name" "$out/crashes"
  "$programs/fuzz_$name" --write_seeds="$out/seeds/$name"
  cp "$out/seeds/$name"/seed-* "$out/corpus/$name"
  while [ "$left" -gt 0 ]; do
    turn "$name" $((left < 30 ? 2 * left : 60)) || return 1
    left=$(awk -v left="$left" -v used="$(last_seconds)" 'BEGIN { printf "%d", left - used }')
  done
}

# Prints rows that sum the figures of each target in figures.tsv.
table() {
  echo "| target | executions | edges | corpus | CPU minutes | crashes |"
  echo "|---|---|---|---|---|---|"
  awk -F'\t' '
    function grouped(n, text, end) {
      text = sprintf("%d", n)
      for (end = length(text) - 3; end > 0; end -= 3) {
        text = substr(text, 1, end) "," substr(text, end + 1)
      }
      return text
    }
    !($1 in runs) { names[++n] = $1 }
    { runs[$1] += $2; if ($3) edges[$1] = $3; if ($4) corpus[$1] = $4; cpu[$1] += $5; bad[$1] += $6 }
    END {
      for (i = 1; i <= n; ++i) {
        name = names[i]
        printf "| %s | %s | %s | %s | %.1f | %d |\n", name, grouped(runs[name]),
          grouped(edges[name]), grouped(corpus[name]), cpu[name] / 60, bad[name]
      }
    }' "$figures"
}

# Replaces rows of the page's first table by those of the file $1, and adds new rows at its end.
update_page() {
  awk '
    FNR == NR { if ($1 == "|" && $2 != "target") { fresh[$2] = $0; names[++n] = $2 }; next }
    $2 == "target" && $4 == "executions" { inside = 1 }
    inside && !NF {
      for (i = 1; i <= n; ++i) if (!(names[i] in done)) print fresh[names[i]]
      inside = 0
    }
    inside && ($2 in fresh) { print fresh[$2]; done[$2] = 1; next }
    { print }' "$1" "$page" >"$page.new"
  mv "$page.new" "$page"
}

# Inputs are written to files.
temporary=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo /tmp)")
trap 'rm -rf "$temporary"' EXIT
export TMPDIR=$temporary
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
status=0
for name in "${targets[@]}"; do
  if [ "$name" = mutations ]; then
    mutations || status=1
    continue
  fi
  if [ ! -x "$programs/fuzz_$name" ]; then
    echo "fuzz.sh: no target \"$name\" in $programs: cmake --preset fuzz && ninja -C build-fuzz fuzz_$name" >&2
    exit 2
  fi
  fuzz "$name" || status=1
done
if [ -e "$figures" ]; then
  table | tee "$temporary/table"
  [ "${TANDEM_UPDATE:-}" != 1 ] || update_page "$temporary/table"
fi
exit $status

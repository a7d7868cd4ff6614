#!/usr/bin/env bash
# Test of run.sh's table: the list, names that are unknown or not built, options. Times nothing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run=$here/run.sh
failed=0
fail() {
  echo "FAILED: $1" >&2
  failed=1
}
# expect CODE TEXT ARGUMENT...: checks the exit code and a part of the output.
expect() {
  local code=$1 text=$2 status=0 out
  shift 2
  out=$("$run" "$@" 2>&1) || status=$?
  [ "$status" -eq "$code" ] || fail "run.sh $*: exit $status, expected $code: $out"
  [[ $out == *"$text"* ]] || fail "run.sh $*: expected \"$text\" in: $out"
}

for name in op_overhead mlp40_step lenet_train resnet50_f32 resnet50_bf16 resnet18_cifar \
  transformer_lm bert_base bert_base_512 deepfm_dense ps_dense_tcp ps_dense_fast ps_pull_fast ps_sparse_pull ps_vs_stores lookup_vs_redis predict_deepfm \
  ps_exactly_once ps_logged ps_quorum ps_follow stream_lag ps_changes ps_snapshot ps_recovery deepfm_end_to_end allreduce_shm allreduce_tcp \
  dp_efficiency hierarchical_hosts hybrid_deepfm reader_jpeg reader_text data_wait job_start idle_cpu \
  collective_tls tls_overhead; do
  expect 0 "$name " --list
done
expect 2 'did you mean "mlp40_step"?' mlp40_steps
expect 2 'there is no figure "zzzzzzzzzzzzzzz"' zzzzzzzzzzzzzzz
expect 2 'unknown option "--round=3"' mlp40_step --round=3
expect 2 'which figure?'

# Each row has five columns, and each name occurs once. A name that is not built is marked.
rows=0
while IFS=$'\t' read -r name unit goal state what rest; do
  case $name in \#*) continue ;; esac
  rows=$((rows + 1))
  [ -n "$what" ] && [ -z "$rest" ] || fail "figures.tsv: $name: expected five columns"
  case $state in
    built)
      grep -q "\"$name\": Bench" "$here/driver.py" || fail "driver.py does not take $name"
      # These figures run whole jobs.
      case $name in deepfm_end_to_end | dp_efficiency | hybrid_deepfm | data_wait | job_start | idle_cpu | collective_tls | tls_overhead) continue ;; esac
      grep -q "{\"$name\"," "$here/main.cc" || fail "main.cc does not run $name"
      ;;
    "not built yet") expect 2 "figure \"$name\" is not built yet" op_overhead "$name" ;;
    *) fail "figures.tsv: $name: \"$state\" is neither \"built\" nor \"not built yet\"" ;;
  esac
  : "$unit" "$goal"
done <"$here/figures.tsv"
unique=$(awk -F'\t' '!/^#/ { print $1 }' "$here/figures.tsv" | sort -u | wc -l)
[ "$rows" -eq "$unique" ] || fail "figures.tsv: $rows rows, $unique names"
[ "$failed" -eq 0 ] && echo "$rows figures"
exit "$failed"

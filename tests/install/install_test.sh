#!/usr/bin/env bash
# Tests that the result of cmake --install is complete: the programs run, an external program finds
# the client with find_package(Tandem) and trains, and Python finds its package.
#   install_test.sh SOURCE BUILD
set -euo pipefail
source=$1 build=$2
work=$(mktemp -d)
servers=()
cleanup() {
  for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT

prefix=$work/prefix
# quiet COMMAND...: its output only when it fails.
quiet() { "$@" >"$work/quiet.log" 2>&1 || { cat "$work/quiet.log" >&2; exit 1; }; }
quiet cmake --install "$build" --prefix "$prefix"
if grep -rl "$source\|$build" "$prefix/lib/cmake" "$prefix/include"; then
  echo "the files above name the source or build folder" >&2
  exit 1
fi

launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
quiet cmake -G Ninja -S "$source/deploy/examples/cpp_client" -B "$work/client" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" "${launcher[@]}"
quiet cmake --build "$work/client"

addresses=()
for i in 0 1; do
  "$prefix/bin/tandem-pserver" --listen=127.0.0.1:0 --index=$i --job=line --trainers=1 \
    >"$work/$i.log" 2>&1 &
  servers+=($!)
done
for i in 0 1; do
  for _ in $(seq 600); do
    grep -q "listening on" "$work/$i.log" && break
    sleep 0.1
  done
  addresses+=("$(sed -n 's/.*listening on //p' "$work/$i.log")")
done
"$work/client/client" "${addresses[@]}"

"$prefix/bin/tandem" --help >/dev/null
grep -q "tandem export" "$prefix/share/man/man1/tandem.1"
if /usr/bin/python3 -c 'import grpc, numpy' 2>/dev/null; then
  PYTHONPATH=$prefix/lib/python3/dist-packages /usr/bin/python3 -B -c '
import tandem_pserver
print(tandem_pserver.partition({"w": (4, 4)}, 2, min_block_size=4))'
fi

#!/usr/bin/env bash
# Configures and builds Tandem on all cores and prints the duration.
#   deploy/build.sh [--preset NAME] [--target TARGET] [-D... for cmake]
# Presets: release (default, into build/), debug, asan, tsan, ubsan, clang-safety (build-NAME/).
# TANDEM_JOBS=N sets the number of parallel compilers. The default is one per core, or fewer if the
# machine has little memory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=release target=all cmake_args=()
while [ $# -gt 0 ]; do
  case $1 in
    --preset) preset=${2:?--preset needs a name}; shift 2 ;;
    --preset=*) preset=${1#*=}; shift ;;
    --target) target=${2:?--target needs a name}; shift 2 ;;
    --target=*) target=${1#*=}; shift ;;
    -D*) cmake_args+=("$1"); shift ;;
    *)
      echo "build: error: unknown argument \"$1\"" >&2
      echo "usage: deploy/build.sh [--preset NAME] [--target TARGET] [-DNAME=VALUE ...]" >&2
      exit 2
      ;;
  esac
done
case $preset in
  release) dir=build; extra=() ;;
  debug | asan | tsan | ubsan) dir=build-$preset; extra=() ;;
  clang-safety) dir=build-$preset; extra=(clang-14) ;;
  *)
    echo "build: error: no preset \"$preset\"" >&2
    echo "hint: one of release, debug, asan, tsan, ubsan, clang-safety" >&2
    exit 2
    ;;
esac
./deploy/setup.sh "${extra[@]}"

# Compiling one of the largest files takes about 1 GB, or more with a sanitizer.
jobs=${TANDEM_JOBS:-}
if [ -z "$jobs" ]; then
  jobs=$(nproc)
  by_memory=$(awk '/^MemAvailable:/ {print int($2 / 1500000)}' /proc/meminfo)
  [ "${by_memory:-$jobs}" -ge "$jobs" ] || jobs=$by_memory
  [ "$jobs" -ge 1 ] || jobs=1
fi

start=$SECONDS
# After the first configuration, ninja configures again by itself when a CMake file changes.
if [ ! -f "$dir/build.ninja" ] || [ CMakePresets.json -nt "$dir/build.ninja" ] ||
  [ ${#cmake_args[@]} -gt 0 ]; then
  echo "build: configuring $dir/ (preset $preset)"
  log=$(mktemp)
  if ! cmake --preset "$preset" "${cmake_args[@]}" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    exit 1
  fi
  sed -n 's/^-- \(Tandem: .*\)/build: \1/p' "$log"
  rm -f "$log"
fi
echo "build: $dir/, target $target, $jobs jobs"
cmake --build "$dir" --target "$target" -j "$jobs"
echo "build: $dir/ ready in $((SECONDS - start)) s"

#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy over C++ sources of a configured and built tree.
#   deploy/lint.sh [--build=DIR] [--seconds=N]          the sources that differ from the main branch
#   deploy/lint.sh [--build=DIR] --all                  all sources of the product (hours on few cores)
#   deploy/lint.sh [--build=DIR] FILE ...               these sources
# The main branch is origin/main or main; without a common ancestor (a shallow clone, or on the main
# branch itself) it is HEAD~1. After N seconds (default 120; 0: no limit) no further file begins, and
# the script names the number of files that are left. TANDEM_JOBS=N runs N at a time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build seconds=120 all=no files=()
for arg in "$@"; do
  case $arg in
    --build=*) build=${arg#*=} ;;
    --seconds=*) seconds=${arg#*=} ;;
    --all) all=yes ;;
    -*) echo "lint: error: unknown argument \"$arg\"" >&2; exit 2 ;;
    *) files+=("$arg") ;;
  esac
done
if ! command -v clang-tidy >/dev/null; then
  echo "lint: SKIPPED: no clang-tidy (Debian's package clang-tidy)"
  exit 0
fi
commands=$build/compile_commands.json
if [ ! -f "$commands" ]; then
  echo "lint: error: no $commands" >&2
  echo "hint: ./deploy/build.sh, or --build=DIR" >&2
  exit 2
fi
# A build with TANDEM_UNITY compiles groups of sources, so the commands for single sources come from a
# second configuration. It uses the generated headers of the build.
if grep -q '^TANDEM_UNITY:BOOL=ON' "$build/CMakeCache.txt" 2>/dev/null; then
  built=$(realpath "$build")
  cmake -S . -B "$built/lint" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTANDEM_UNITY=OFF >/dev/null
  build=$built/lint
  commands=$build/compile_commands.json
  sed -i "s|$build/gen|$built/gen|g" "$commands"
fi

# The C++ sources that the build compiles, as paths from the root of the tree.
compiled() {
  sed -n 's/^ *"file": "\(.*\.cc\)",\{0,1\}$/\1/p' "$commands" | sed "s|^$PWD/||" | sort -u
}
product='^(common|collective|pserver|trainer|kernels|deploy)/'
changed() {
  local base='' main
  for main in origin/main main; do
    base=$(git merge-base HEAD "$main" 2>/dev/null) || continue
    [ "$base" != "$(git rev-parse HEAD)" ] || base=''
    break
  done
  [ -n "$base" ] || base=$(git rev-parse --verify --quiet HEAD~1) || return 0
  # A changed header stands for the source of its stem.
  git diff --name-only --diff-filter=d "$base" -- '*.cc' '*.h' | sed 's/\.h$/.cc/' | sort -u
}
if [ ${#files[@]} -eq 0 ]; then
  if [ $all = yes ]; then
    seconds=0
    mapfile -t files < <(compiled | grep -E "$product")
  else
    mapfile -t files < <(comm -12 <(changed) <(compiled))
  fi
fi
if [ ${#files[@]} -eq 0 ]; then
  echo "lint: no source to look at"
  exit 0
fi

end=$((seconds == 0 ? 0 : $(date +%s) + seconds))
# Prints the findings of build $1 in file $2. A file that begins after time $3 is left out.
one() {
  local out
  if [ "$3" -ne 0 ] && [ "$(date +%s)" -ge "$3" ]; then
    echo "left $2"
    return 0
  fi
  if out=$(nice clang-tidy -p "$1" --quiet "$2" 2>&1); then
    echo "clean $2"
  else
    printf '%s\n' "$out" | grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed|^Use -header' || true
    echo "dirty $2"
  fi
}
export -f one
log=$(mktemp)
trap 'rm -f "$log"' EXIT
printf '%s\n' "${files[@]}" |
  xargs -P "${TANDEM_JOBS:-$(nproc)}" -I{} bash -c 'one "$@"' one "$build" {} "$end" >"$log"
grep -vE '^(clean|left|dirty) ' "$log" || true
number() { grep -c "^$1 " "$log" || true; }
echo "lint: $(number clean) clean, $(number dirty) with findings, $(number left) left out after $seconds s"
[ "$(number dirty)" -eq 0 ]

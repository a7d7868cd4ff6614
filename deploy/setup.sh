#!/usr/bin/env bash
# Installs the missing Debian packages of deploy/packages.txt.
#   deploy/setup.sh [PACKAGE ...]    installs these packages too
# With TANDEM_NO_INSTALL=1 it does nothing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

[ "${TANDEM_NO_INSTALL:-0}" = 1 ] && exit 0

mapfile -t wanted < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$here/packages.txt")
wanted+=("$@")

fail() {
  echo "setup: error: $1" >&2
  echo "hint: $2" >&2
  exit 78
}
os=$(. /etc/os-release 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}" || echo unknown)
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  fail "this machine ($os) has no apt; Tandem is made for Debian 12" \
    "install what deploy/packages.txt lists by your own means, then set TANDEM_NO_INSTALL=1"
fi

# Prints the names of `wanted` that are not installed, one per line.
missing() {
  local installed
  # dpkg-query exits with 1 if a name is unknown, which is expected here.
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null |
    sed -n 's/^installed //p' || true)
  comm -23 <(printf '%s\n' "${wanted[@]}" | sort -u) <(printf '%s\n' "$installed" | sort -u)
}
mapfile -t absent < <(missing)
[ ${#absent[@]} -eq 0 ] && exit 0

if [ "$os" != "debian 12" ]; then
  echo "setup: warning: this is $os; the package names and versions are those of Debian 12" >&2
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null ||
    fail "${#absent[@]} packages are missing and there is no sudo: ${absent[*]}" \
      "run as root: apt-get install --no-install-recommends ${absent[*]}"
  as_root=(sudo)
fi
as_root+=(env DEBIAN_FRONTEND=noninteractive)
apt=(apt-get -q -o DPkg::Lock::Timeout=120)

echo "setup: installing ${#absent[@]} packages: ${absent[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Runs one apt command and shows its output only if it fails.
quietly() {
  "${as_root[@]}" "$@" >"$log" 2>&1 && return
  tail -n 30 "$log" >&2
  fail "'$*' failed (its last lines are above)" \
    "check the network and /etc/apt/sources.list*, then run this again"
}
start=$SECONDS
quietly "${apt[@]}" update
quietly "${apt[@]}" install -y --no-install-recommends "${absent[@]}"
mapfile -t absent < <(missing)
[ ${#absent[@]} -eq 0 ] || fail "apt reported success, but these are missing: ${absent[*]}" "run it again"
echo "setup: packages ready in $((SECONDS - start)) s"

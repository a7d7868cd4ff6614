#!/usr/bin/env bash
# Makes all files of a release from the committed HEAD: the source archive, the Debian packages, the
# wheel, the software bill of materials, the changes, and a list of checksums.
#   deploy/release.sh DIR      DIR must be empty or not exist
# It rejects a tree with uncommitted changes, and a version that CHANGELOG.md lacks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  echo "release: error: $1" >&2
  echo "hint: $2" >&2
  exit "${3:-78}"
}
[ $# -eq 1 ] || fail "expected one directory, got $# arguments" "deploy/release.sh DIR" 2
mkdir -p "$1"
out=$(cd "$1" && pwd)
[ -z "$(ls -A "$out")" ] || fail "$out is not empty" "name another directory"
[ -z "$(git status --porcelain)" ] || fail "the tree has changes that are not committed" "commit them"
version=$(sed -n 's/^project(tandem VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
changes=$(awk -v title="## $version" '/^## / { on = index($0, title) == 1; next } on' CHANGELOG.md)
[ -n "$changes" ] || fail "CHANGELOG.md has nothing about $version" "write what changed"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

./deploy/setup.sh dpkg-dev patchelf
./deploy/build.sh --target tandem_programs  # packages hold no tests
./deploy/build.sh --target tandem_core
printf '%s\n' "$changes" >"$out/CHANGES-$version.md"
git archive --prefix="tandem-$version/" HEAD | gzip -n >"$out/tandem-$version.tar.gz"
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
cpack -G DEB --config build/CPackConfig.cmake -B "$packages" >&2
mv "$packages"/*.deb "$out/"
/usr/bin/python3 deploy/wheel.py --output="$out"
python3 deploy/sbom.py --version="$version" --output="$out/tandem-$version.cdx.json" \
  build/bin/tandem build/bin/tandemrun build/bin/tandem-pserver build/bin/tandem-trainer
(cd "$out" && sha256sum -- * >SHA256SUMS)
echo "release: $version of $(git rev-parse --short HEAD) in $out"

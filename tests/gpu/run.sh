#!/usr/bin/env bash
# The GPU list: the checks that need a machine with a CUDA device. Ends in under ten minutes and
# writes gpu.json and gpu.md, which also list the checks that did not run.
#   tests/gpu/run.sh [--out=DIR] [--resume=gpu.json]
#                                                builds in build/, then runs; --resume: what an
#                                                earlier run on that device has left
#   tests/gpu/run.sh --pack=FILE.tar.xz          builds, and packs what a bare machine needs
#   tests/gpu/run.sh --bundle=FILE.tar.xz [--out=DIR] [--resume=gpu.json]
#                                                runs what was packed: needs CUDA 13, cuDNN 9, NCCL, python3
# Exit codes: 0 all is well, 1 something failed, 2 wrong use, 3 there is no device.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$PWD/gpu-report bundle='' pack='' resume=()
bundle_max=$((64 << 20))  # what such a machine may be sent
programs=(bin/tandem-trainer bin/tandem-pserver bin/tandemrun tests/gpu_kernels_test tests/gpu_models_test tests/op_bench)

for arg in "$@"; do
  case $arg in
    --out=*) out=${arg#*=} ;;
    --bundle=*) bundle=${arg#*=} ;;
    --pack=*) pack=${arg#*=} ;;
    --resume=*) resume=("$arg") ;;
    *)
      echo "gpu: error: unknown argument $arg" >&2
      sed -n '2,10p' "${BASH_SOURCE[0]}" >&2
      exit 2
      ;;
  esac
done

build() {
  "$root/deploy/build.sh" -DTANDEM_CUDA=ON >&2
}

# Packs programs, the module, and all libraries except glibc's and CUDA's.
pack_into() {
  local to
  # These exist if nccl.h and cupti.h are installed.
  [[ ! -e $root/build/tests/gpu_nccl_abi_test ]] || programs+=(tests/gpu_nccl_abi_test)
  [[ ! -e $root/build/tests/gpu_cupti_abi_test ]] || programs+=(tests/gpu_cupti_abi_test)
  to=$(mktemp -d)
  mkdir -p "$to/bin" "$to/tests" "$to/lib" "$to/gpu" "$to/deploy/examples"
  for program in "${programs[@]}"; do
    strip -o "$to/$program" "$root/build/$program"
  done
  strip -o "$to/lib/libtandem_cuda.so" "$root/build/lib/libtandem_cuda.so"
  ldd "${programs[@]/#/$root/build/}" | awk '/=> \// { print $3 }' | sort -u |
    grep -v -E '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' |
    while read -r library; do cp -L "$library" "$to/lib/"; done
  cp "$here"/gpu_*.py "$here/run.sh" "$to/gpu/"
  cp "$root/deploy/examples/resnet50.pbtxt" "$to/deploy/examples/"
  git -C "$root" rev-parse HEAD >"$to/commit"
  tar -C "$to" -cJf "$1" .
  rm -rf "$to"
  ls -l "$1" >&2
  if (($(stat -c %s "$1") > bundle_max)); then
    echo "gpu: error: $1 is larger than $bundle_max bytes" >&2
    return 1
  fi
}

if [[ -n $pack ]]; then
  build
  pack_into "$pack"
  exit 0
fi

if [[ -n $bundle ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  tar -C "$work" -xJf "$bundle" 2>/dev/null || python3 -m tarfile -e "$bundle" "$work"
  list=$work/gpu/gpu_list.py
else
  build
  work=$root/build
  list=$here/gpu_list.py
  git -C "$root" rev-parse HEAD >"$work/commit"
  mkdir -p "$work/deploy/examples"
  cp "$root/deploy/examples/resnet50.pbtxt" "$work/deploy/examples/"
fi
mkdir -p "$out"
python3 "$list" --root="$work" --out="$out" "${resume[@]}"

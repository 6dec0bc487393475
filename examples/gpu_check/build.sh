#!/usr/bin/env bash
# Builds gpu_check for NVIDIA GPUs where LLVM's public bundle cannot be had, and packs it with what it
# needs to run on a machine that has a GPU and its driver and nothing else.
#
#     bash examples/gpu_check/build.sh [FOLDER]
#
# leaves FOLDER/gpu_check/ and FOLDER/gpu_check.tar.xz (default: gpu_check-bundle in Cargo's target
# folder). Needs Debian's LLVM 22 (installed here when run as root), Python with pip, and PyPI.
# PROFILE=dev builds less optimised code in half the time, to try the script.
#
# Burn's CUDA back end links LLVM even where kernels are compiled by NVRTC, and downloads a build of it
# in a build script. A folder that looks like that download, and leads to Debian's LLVM, takes its place.
# That LLVM is a version behind, so this build never runs it: the feature `cuda-nvrtc` has kernels
# compiled by NVRTC, which is carried along with the headers that kernels include.
set -euo pipefail
cd "$(dirname "$0")/../.."

llvm=22
# Of one CUDA release. An old one, because NVRTC's output loads on drivers of that release and later.
cuda=12.6
wheels=(
  nvidia-cuda-nvrtc-cu12==12.6.85
  nvidia-cuda-runtime-cu12==12.6.77
  nvidia-cuda-cccl-cu12==12.6.77
  nvidia-cuda-nvcc-cu12==12.6.85
)
limit_mib=60
profile=${PROFILE:-release}
options=()
case $profile in
dev)
  folder=debug
  # The CPU's kernels: nothing here is trained on them.
  options=(--config profile.dev.package.burn-flex.opt-level=1)
  ;;
*) folder=$profile ;;
esac

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
target=$(cd "$target" && pwd)
out=${1:-$target/gpu_check-bundle}
mkdir -p "$out"
out=$(cd "$out" && pwd)
say() { printf '\n== %s\n' "$*"; }

say "Debian packages"
packages=("llvm-$llvm-dev" libz3-dev libzstd-dev libxml2-dev zlib1g-dev g++ binutils xz-utils)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" != 0 ]; then
    echo "missing: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  apt-get update
  apt-get install -y --no-install-recommends "${missing[@]}"
fi

say "a folder in place of LLVM's bundle"
real=/usr/lib/llvm-$llvm
# Where the build script looks, and the version that it looks for.
version=$(sed -n '/^name = "tracel-llvm-bundler"$/{n;s/version = "\(.*\)"/\1/p}' Cargo.lock)
export XDG_DATA_HOME=$target/llvm-in-place
place=$XDG_DATA_HOME/tracel/tracel-llvm-$version
# Made once: Cargo would build everything anew that depends on a newer one.
if [ ! -e "$place/.tracel-llvm-installed" ]; then
  rm -rf "$place"
  mkdir -p "$place/bin" "$place/include/llvm/Config"
  # Headers as they are, but for the lists of targets: only those that are linked for anyhow.
  ln -s "$real/include/llvm-c" "$place/include/llvm-c"
  for header in "$real"/include/llvm/*; do
    [ "$(basename "$header")" = Config ] || ln -s "$header" "$place/include/llvm/"
  done
  for header in "$real"/include/llvm/Config/*; do
    ln -s "$header" "$place/include/llvm/Config/"
  done
  for list in Targets AsmPrinters AsmParsers Disassemblers; do
    rm "$place/include/llvm/Config/$list.def"
    grep -v -E '^LLVM_[A-Z_]+\(' "$real/include/llvm/Config/$list.def" |
      sed '/^#undef/,$d' >"$place/include/llvm/Config/$list.def"
    for name in NVPTX X86; do
      grep -E "^LLVM_[A-Z_]+\($name\)" "$real/include/llvm/Config/$list.def" || true
    done >>"$place/include/llvm/Config/$list.def"
    sed -n '/^#undef/,$p' "$real/include/llvm/Config/$list.def" >>"$place/include/llvm/Config/$list.def"
  done
  cat >"$place/bin/llvm-config" <<WRAPPER
#!/bin/sh
# Debian's llvm-config, without a library that Debian does not ship, and with names for paths.
case "\$*" in
*--includedir*) echo "$place/include" ;;
*) "$real/bin/llvm-config" "\$@" | sed -e 's/-lPolly\(ISL\)\?\( \|\$\)/ /g' -e 's|/[^ ]*/lib\([a-z0-9]*\)\.so|-l\1|g' ;;
esac
WRAPPER
  chmod +x "$place/bin/llvm-config"
  touch "$place/.tracel-llvm-installed"
fi
"$place/bin/llvm-config" --version --system-libs --link-static

say "gpu_check"
# The bindings of the driver are those of the release whose compiler is carried.
unset DOCS_RS
export CUDARC_CUDA_VERSION=${cuda/./0}0 CARGO_TARGET_DIR=$target CARGO_TERM_PROGRESS_WHEN=never
cargo build --profile "$profile" "${options[@]}" --locked --workspace --features cuda-nvrtc --example gpu_check

say "NVRTC and headers"
# Wheels of an earlier run would be packed too.
rm -rf "$target/gpu_check-wheels"
mkdir -p "$target/gpu_check-wheels"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
  --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2010_x86_64 \
  --dest "$target/gpu_check-wheels" "${wheels[@]}"
unpacked=$target/gpu_check-wheels/unpacked
for wheel in "$target"/gpu_check-wheels/*.whl; do
  python3 -m zipfile -e "$wheel" "$unpacked"
done

say "bundle"
bundle=$out/gpu_check
rm -rf "$bundle"
mkdir -p "$bundle/lib" "$bundle/cuda/include" "$bundle/licences"
strip -o "$bundle/gpu_check" "$target/$folder/examples/gpu_check"
install -m 755 examples/gpu_check/run.sh "$bundle/run.sh"
cp "$unpacked"/nvidia/cuda_nvrtc/lib/libnvrtc*.so.* "$bundle/lib/"
# The name that is looked for first.
ln -s libnvrtc.so.12 "$bundle/lib/libnvrtc.so"
cp -r "$unpacked"/nvidia/cuda_runtime/include/. "$unpacked"/nvidia/cuda_nvcc/include/crt \
  "$unpacked"/nvidia/cuda_cccl/include/nv "$unpacked"/nvidia/cuda_cccl/include/cuda \
  "$bundle/cuda/include/"
for info in "$unpacked"/*.dist-info; do
  cp "$info/License.txt" "$bundle/licences/$(basename "$info" .dist-info).txt"
done
# Libraries that a bare machine may lack. The C and C++ run times are every system's own.
ldd "$bundle/gpu_check" | while read -r name _ path _; do
  case $name in
  linux-vdso* | *ld-linux* | libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | libgcc_s.so* | libstdc++.so*) ;;
  *) cp -L "$path" "$bundle/lib/$name" ;;
  esac
done
tar -C "$out" -c gpu_check | xz -6 -T0 >"$out/gpu_check.tar.xz"

say "what it says here"
"$bundle/run.sh" --compiler
code=0
"$bundle/run.sh" --only compiler || code=$?
case $code in
0) echo "there is a GPU here, and it compiles for it" ;;
3) echo "(exit code 3: this machine has no GPU)" ;;
*) exit "$code" ;;
esac

size=$(stat -c %s "$out/gpu_check.tar.xz")
mib=$(((size + (1 << 20) - 1) >> 20))
ls -l "$bundle" "$bundle/lib"
echo "$out/gpu_check.tar.xz: $size bytes, $mib MiB of at most $limit_mib"
if [ "$size" -gt $((limit_mib << 20)) ]; then
  echo "the bundle is larger than $limit_mib MiB" >&2
  exit 1
fi

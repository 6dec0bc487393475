#!/bin/sh
# Runs gpu_check from its bundle, with the compiler and the headers that lie beside it. Arguments are
# those of gpu_check; the driver is the machine's.
here=$(cd "$(dirname "$0")" && pwd)
export CUDA_PATH="$here/cuda"
# The carried NVRTC goes first: the machine may have another one. The last two are where containers
# often find the driver.
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:/usr/local/nvidia/lib64:/usr/local/nvidia/lib"
# Choosing among kernels must not take longer than the checks.
export CUBECL_AUTOTUNE_LEVEL="${CUBECL_AUTOTUNE_LEVEL:-minimal}"
# An unattended run is asked only once.
export RUST_BACKTRACE="${RUST_BACKTRACE:-1}"
exec "$here/gpu_check" "$@"

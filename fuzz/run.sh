#!/usr/bin/env bash
# Fuzzes one target for some seconds, from its seeds and what earlier runs have found.
set -euo pipefail
cd "$(dirname "$0")"
target="$1" seconds="${2:-1800}"
# What is too large is refused by the allocator, as by a system without that memory.
export ASAN_OPTIONS=allocator_may_return_null=1 BURN_OM4_READERS=1
corpus="$PWD/corpus/$target"
mkdir -p "$corpus"
OM4_FUZZ_SEEDS="$corpus" cargo +nightly fuzz run --fuzz-dir . "$target" -- -runs=0
cargo +nightly fuzz run --fuzz-dir . "$target" -- \
  -max_total_time="$seconds" -rss_limit_mb=2048 -malloc_limit_mb=2048 -timeout=20 -max_len=8192

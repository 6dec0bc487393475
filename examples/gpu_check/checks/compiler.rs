//! The compiler that CubeCL will ask, asked first: without it every other check fails.

use crate::bench::{Bench, NEEDS_CUDA};
use crate::check::{Finding, Outcome, not_run};
use crate::cuda;
use anyhow::Result;
use std::time::Instant;

pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    if bench.cuda.is_none() {
        return not_run(NEEDS_CUDA);
    }
    if !cfg!(feature = "cuda-nvrtc") {
        return not_run("this build compiles kernels with its own LLVM, not with NVRTC");
    }
    let started = Instant::now();
    let found = cuda::compile()?;
    Finding::new(format!("a kernel with all headers compiles: {found}"))
        .number("compile", started.elapsed().as_secs_f64(), "s")
        .found()
}

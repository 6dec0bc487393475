//! What the user asks for.

use clap::Parser;
use std::path::PathBuf;

/// Answers, on a machine with a GPU, what cannot be seen without one. Exits with 0 when everything
/// that was run passed, 1 when something failed, 2 when it could not begin, 3 when there is no GPU.
#[derive(Parser)]
pub(crate) struct Options {
    /// Device to check: auto, cuda, cuda:N, vulkan or cpu. Without a GPU most checks have nothing to
    /// ask; software Vulkan and the CPU are for testing the checks themselves.
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Runs these checks only.
    #[arg(long, value_delimiter = ',', num_args = 1..)]
    pub only: Vec<String>,
    /// Fewer repetitions.
    #[arg(long)]
    pub quick: bool,
    /// Writes what was found as JSON, after every check.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Gives up after so many seconds, and says what had been found by then.
    #[arg(long, value_name = "SECONDS", default_value_t = 540)]
    pub limit: u64,
    /// On CUDA, ends a check that takes longer; `training` has what is left of the limit.
    #[arg(long, value_name = "SECONDS", default_value_t = 90)]
    pub each: u64,
    /// Lists the checks.
    #[arg(long)]
    pub list: bool,
    /// Only compiles a kernel with NVRTC; needs no GPU.
    #[arg(long)]
    pub compiler: bool,
    /// Every check in a process of its own, as on CUDA; for testing that.
    #[arg(long, hide = true)]
    pub apart: bool,
    /// This is such a process.
    #[arg(long, hide = true)]
    pub child: bool,
}

//! The questions, from cheap and basic to long.

mod compiler;
mod distance;
mod equal;
mod flat;
mod home;
mod kernel;
mod overlap;
mod poison;
mod staging;
mod stall;
mod training;
mod upload;

use crate::check::Check;

/// All checks, in the order in which they run.
pub(crate) fn all() -> Vec<Check> {
    vec![
        Check {
            name: "compiler",
            asks: "Does NVRTC compile what CubeCL's kernels include?",
            run: compiler::run,
        },
        Check {
            name: "equal_f32",
            asks: "Do float32 batches equal the CPU's, in both orders and on both paths?",
            run: equal::float32,
        },
        Check {
            name: "equal_bf16",
            asks: "Do bfloat16 batches equal the CPU's?",
            run: equal::bfloat16,
        },
        Check {
            name: "equal_f16",
            asks: "Do float16 batches equal the CPU's?",
            run: equal::float16,
        },
        Check {
            name: "upload_rate",
            asks: "Does an upload run at the rate of a plain copy of page-locked memory?",
            run: upload::run,
        },
        Check {
            name: "no_staging",
            asks: "Does an upload cross without a copy on CubeCL's thread?",
            run: staging::run,
        },
        Check {
            name: "overlap",
            asks: "Do uploads run beside kernels?",
            run: overlap::run,
        },
        Check {
            name: "runner_stall",
            asks: "Do launches go on while an upload is on its way?",
            run: stall::run,
        },
        Check {
            name: "leases_home",
            asks: "Is every host buffer home after every batch?",
            run: home::run,
        },
        Check {
            name: "memory_flat",
            asks: "Do memory of host and device stay flat over epochs and early drops?",
            run: flat::run,
        },
        Check {
            name: "poison",
            asks: "Is no host buffer read after it went home?",
            run: poison::run,
        },
        Check {
            name: "kernel_rate",
            asks: "How many bytes a second does the kernel move, and the tensor operations?",
            run: kernel::run,
        },
        Check {
            name: "training",
            asks: "How long does training wait for its batches?",
            run: training::run,
        },
    ]
}

//! Ranks: which of several processes this is: a number, and how many there are.

use anyhow::{Context, Result, bail, ensure};

/// A process among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// From 0.
    pub rank: usize,
    /// How many processes there are.
    pub world: usize,
}

const PROCESS: &str = "SLURM_PROCID";
const PROCESSES: &str = "SLURM_NTASKS";
/// `srun` sets it, and nothing else: in a batch script or a shell of `salloc` the job's variables are
/// there, and its processes are not.
const STARTED: &str = "SLURM_STEP_NUM_TASKS";

impl Rank {
    /// From the options, else from `SLURM_PROCID` and `SLURM_NTASKS` as `variable` gives them, else
    /// the only one.
    ///
    /// # Errors
    /// One of the two without the other where that leaves a question, no number, or a rank that is not
    /// below the world.
    pub fn find(
        rank: Option<usize>,
        world: Option<usize>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let number = |name: &str| -> Result<Option<usize>> {
            let text = variable(name);
            let number = text.map(|t| t.parse().with_context(|| format!("{name} is `{t}`")));
            number.transpose()
        };
        let (rank, world) = match (rank, world) {
            (Some(rank), Some(world)) => (rank, world),
            (None, None) => match (number(PROCESS)?, number(PROCESSES)?) {
                (Some(rank), Some(world)) => (rank, world),
                // A batch script of a job that asked for no number of processes.
                (None | Some(0), None) | (None, Some(1)) => (0, 1),
                (None, Some(world)) => bail!(
                    "{PROCESSES} is {world} and {PROCESS} is not set, so this is none of {world} \
                     processes: `srun` starts them; --rank 0 --world 1 trains alone"
                ),
                (Some(rank), None) => {
                    bail!("{PROCESS} is {rank} and {PROCESSES} is not set: give --rank and --world")
                }
            },
            (rank, world) => {
                let given = |n: Option<usize>| n.map_or("not given".to_owned(), |n| n.to_string());
                bail!(
                    "a rank needs a world, and a world a rank: --rank is {}, --world is {}",
                    given(rank),
                    given(world)
                )
            }
        };
        ensure!(rank < world, "rank {rank} of a world of {world}");
        Ok(Self { rank, world })
    }

    /// A doubt whether anybody started the others, where the variables alone say that there are any.
    pub fn alone(self, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        let Self { rank, world } = self;
        (world > 1 && variable(STARTED).is_none()).then(|| {
            format!(
                "rank {rank} of {world} by {PROCESS} and {PROCESSES}, but {STARTED}, which `srun` sets, is \
                 not there: if nobody starts the others, 1 part in {world} of the windows is all that is \
                 trained on; --rank 0 --world 1 trains on all of them"
            )
        })
    }
}

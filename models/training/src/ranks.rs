//! Ranks: which of several processes this is: a number, and how many there are.

use anyhow::{Context, Result, ensure};

/// A process among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// From 0.
    pub rank: usize,
    /// How many processes there are.
    pub world: usize,
}

impl Rank {
    /// From the options, else from `SLURM_PROCID` and `SLURM_NTASKS` as `variable` gives them, else
    /// the only one.
    ///
    /// # Errors
    /// One of the two without the other, no number, or a rank that is not below the world.
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
        let given = match (rank, world) {
            (None, None) => (number("SLURM_PROCID")?, number("SLURM_NTASKS")?),
            options => options,
        };
        let (rank, world) = match given {
            (None, None) => (0, 1),
            (Some(rank), Some(world)) => (rank, world),
            _ => anyhow::bail!("a rank needs a world, and a world a rank: give both or neither"),
        };
        ensure!(rank < world, "rank {rank} of a world of {world}");
        Ok(Self { rank, world })
    }
}

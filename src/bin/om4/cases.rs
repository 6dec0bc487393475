//! The options that `bench` and `backends` share.

use crate::output;
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Which stores are measured, how often, and where the result goes. The command that takes these sets
/// the default of `cases`.
#[derive(Args)]
pub(crate) struct Cases {
    /// Folder of the bench's own stores; they are written when they are not there.
    #[arg(long, default_value = "target/bench-stores")]
    pub data: PathBuf,
    /// Where to write the result.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Stores to measure: {flat,compact}-{none,blosc,zstd}-{v2,v3,sharded}.
    #[arg(long, value_delimiter = ',')]
    pub cases: Vec<String>,
    /// Rounds.
    #[arg(long, default_value_t = 7)]
    pub rounds: usize,
}

impl Cases {
    /// Writes the result as JSON to the file that was named, or prints it.
    pub(crate) fn report(&self, result: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(result)?;
        match &self.json {
            Some(path) => std::fs::write(path, text)?,
            None => output::print(&text)?,
        }
        Ok(())
    }
}

//! Samudra's order against the batches that Samudra's samplers emitted.
use anyhow::Result;
#[test]
fn placeholder() -> Result<()> {
    Ok(())
}

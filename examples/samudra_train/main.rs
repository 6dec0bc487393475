//! Trains a Samudra model (to come).

mod maps;
mod ocean;

fn main() -> anyhow::Result<()> {
    let dir = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "target/demo-ocean".into());
    ocean::write_demo(dir.as_ref(), |_| ())?;
    println!(
        "{:?} cells, {} from {}, {} and {}, in {dir}",
        ocean::GRID,
        ocean::PROGNOSTIC,
        ocean::BOUNDARY,
        ocean::TRAIN,
        ocean::VALIDATION
    );
    let _ = (maps::write_maps, maps::write_skill);
    Ok(())
}

//! Reading planes: every fixture bit for bit, every codec and chunking, counts, errors in order.

mod faults;
mod forms;
mod published;
mod types;

use burn_om4::store::{OpenOptions, Store};
use om4_test_support::shared;

fn strict() -> OpenOptions {
    OpenOptions::default()
}

const ROWS: usize = 10;
const NY: usize = 5;
const NX: usize = 7;

fn open_fixture(name: &str) -> Option<Store> {
    let path = shared(&format!("fixtures/batches/stores/{name}/OM4.zarr"))?;
    Some(Store::open(path, &strict()).unwrap())
}

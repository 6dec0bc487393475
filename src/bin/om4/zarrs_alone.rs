//! Plain zarrs: `retrieve_array_subset` of whole planes, and a copy to where they are wanted.

use crate::stores::{Case, LEVELS, NX, NY, PLANE_BYTES};
use anyhow::Result;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use zarrs::array::codec::api::CodecOptions;
use zarrs::array::{Array, ArraySubset};
use zarrs::filesystem::FilesystemStore;

pub(crate) struct Zarrs {
    /// Each array with its planes in a row.
    arrays: Vec<(Array<FilesystemStore>, usize)>,
}

impl Zarrs {
    pub(crate) fn open(case: &Case, store: &Path) -> Result<Self> {
        let storage = Arc::new(FilesystemStore::new(store.join("OM4.zarr"))?);
        let arrays = case.arrays().into_iter().map(|(name, levels)| {
            let array = Array::open(storage.clone(), &format!("/{name}"))?;
            Ok((array, levels))
        });
        Ok(Self {
            arrays: arrays.collect::<Result<_>>()?,
        })
    }

    /// Reads all planes of `rows` into `memory`.
    pub(crate) fn read(&self, rows: Range<usize>, memory: &mut [u8], threads: usize) -> Result<()> {
        let mut rest = memory;
        let mut tasks = Vec::new();
        for row in rows {
            for (array, levels) in &self.arrays {
                let (place, after) = rest.split_at_mut(levels * PLANE_BYTES);
                rest = after;
                tasks.push(Mutex::new(Some((array, row as u64, place))));
            }
        }
        let next = AtomicUsize::new(0);
        let options = CodecOptions::default().with_concurrent_target(1);
        let work = || -> Result<()> {
            while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                let task = task.lock().expect("nobody panics").take();
                let (array, row, place) = task.expect("each task is taken once");
                let (ny, nx) = (NY as u64, NX as u64);
                let subset = match array.dimensionality() {
                    4 => ArraySubset::new_with_ranges(&[
                        0..LEVELS as u64,
                        row..row + 1,
                        0..ny,
                        0..nx,
                    ]),
                    _ => ArraySubset::new_with_ranges(&[row..row + 1, 0..ny, 0..nx]),
                };
                let values: Vec<f32> = array.retrieve_array_subset_opt(&subset, &options)?;
                place.copy_from_slice(bytemuck::cast_slice(&values));
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads
                .into_iter()
                .try_for_each(|t| t.join().expect("no panic"))
        })
    }
}

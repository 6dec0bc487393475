//! Where decoded planes land: side by side for an upload, or prepared and gathered at once.

use crate::error::{Error, ErrorKind, Result};
use crate::plan::Gather;
use crate::prepare::{ChannelConstants, Preparation};
use crate::read::PlaneSink;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Raw planes, `(y, x)` in C order, side by side in one host buffer, in the request's order.
///
/// Every plane is lent out at most once, so writers never meet.
pub struct HostPlanes<'a> {
    cells: usize,
    /// What nobody has claimed yet, by first plane.
    unclaimed: Mutex<BTreeMap<usize, &'a mut [f32]>>,
}

impl<'a> HostPlanes<'a> {
    /// Splits `buffer` into planes of `cells` values.
    ///
    /// # Panics
    /// When `cells` is 0.
    pub fn new(buffer: &'a mut [f32], cells: usize) -> Self {
        assert!(cells > 0, "a plane has at least one cell");
        Self {
            cells,
            unclaimed: Mutex::new(BTreeMap::from([(0, buffer)])),
        }
    }

    fn claim(&self, planes: &Range<usize>) -> Option<&'a mut [f32]> {
        let mut unclaimed = self
            .unclaimed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let first = *unclaimed.range(..=planes.start).next_back()?.0;
        let block = unclaimed.remove(&first)?;
        let before = (planes.start - first) * self.cells;
        let wanted = planes.len() * self.cells;
        if planes.is_empty() || block.len() < before + wanted {
            unclaimed.insert(first, block);
            return None;
        }
        let (head, rest) = block.split_at_mut(before);
        let (claimed, tail) = rest.split_at_mut(wanted);
        if !head.is_empty() {
            unclaimed.insert(first, head);
        }
        if !tail.is_empty() {
            unclaimed.insert(planes.end, tail);
        }
        Some(claimed)
    }
}

impl PlaneSink for HostPlanes<'_> {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let memory = self.claim(&planes).ok_or_else(|| claimed_twice(&planes))?;
        fill(memory)
    }
}

/// One tensor that is put together from the planes of a group: `(sample, time, channel, y, x)`.
pub struct Gathered<'a> {
    /// The tensor's values.
    pub values: &'a mut [f32],
    /// Which unique row stands at each (sample, time).
    pub gather: &'a Gather,
}

/// Prepares each plane while it is hot and copies it to every place where the tensors show it.
///
/// Used where host memory is the device's memory: no buffer of unique planes exists, and nothing
/// is touched twice.
pub struct PreparedTensors<'a> {
    cells: usize,
    preparation: Preparation,
    channels: &'a [ChannelConstants],
    /// For each plane, its places. Taken when the plane is filled.
    places: Vec<Mutex<Option<Places<'a>>>>,
    nan_in_ocean: AtomicU64,
}

type Places<'a> = Vec<&'a mut [f32]>;

thread_local! {
    /// Scratch for runs of planes, kept by the reader threads: at most one chunk's planes each.
    static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

impl<'a> PreparedTensors<'a> {
    /// `rows` unique rows of `channels`; every tensor's gather points into these rows.
    ///
    /// # Panics
    /// When a tensor's length does not match its gather.
    pub fn new(
        rows: usize,
        channels: &'a [ChannelConstants],
        preparation: Preparation,
        cells: usize,
        tensors: Vec<Gathered<'a>>,
    ) -> Self {
        let mut places: Vec<Places<'a>> = Vec::new();
        places.resize_with(rows * channels.len(), Vec::new);
        for tensor in tensors {
            let slots = tensor.gather.rows.len() * channels.len();
            assert_eq!(
                tensor.values.len(),
                slots * cells,
                "tensor and gather differ in size"
            );
            for (slot, values) in tensor.values.chunks_exact_mut(cells).enumerate() {
                let row = tensor.gather.rows[slot / channels.len()] as usize;
                places[row * channels.len() + slot % channels.len()].push(values);
            }
        }
        Self {
            cells,
            preparation,
            channels,
            places: places.into_iter().map(|p| Mutex::new(Some(p))).collect(),
            nan_in_ocean: AtomicU64::new(0),
        }
    }

    /// NaN met in the ocean so far.
    pub fn nan_in_ocean(&self) -> u64 {
        self.nan_in_ocean.load(Ordering::Relaxed)
    }

    fn take(&self, plane: usize) -> Result<Places<'a>> {
        let places = self
            .places
            .get(plane)
            .and_then(|p| p.lock().unwrap_or_else(PoisonError::into_inner).take());
        places.ok_or_else(|| claimed_twice(&(plane..plane + 1)))
    }

    fn prepare(&self, plane: usize, values: &mut [f32]) {
        let channel = &self.channels[plane % self.channels.len()];
        let nan = self.preparation.plane(values, channel);
        self.nan_in_ocean.fetch_add(nan, Ordering::Relaxed);
    }
}

impl PlaneSink for PreparedTensors<'_> {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        if planes.len() == 1 {
            let mut places = self.take(planes.start)?;
            if let Some((first, others)) = places.split_first_mut() {
                // Straight into the first tensor that wants it.
                fill(first)?;
                self.prepare(planes.start, first);
                for other in others {
                    other.copy_from_slice(first);
                }
                return Ok(());
            }
        }
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.resize(planes.len() * self.cells, 0.0);
            fill(scratch)?;
            for (plane, values) in planes.zip(scratch.chunks_exact_mut(self.cells)) {
                self.prepare(plane, values);
                for place in self.take(plane)? {
                    place.copy_from_slice(values);
                }
            }
            Ok(())
        })
    }
}

fn claimed_twice(planes: &Range<usize>) -> Error {
    Error::new(
        ErrorKind::Interrupted,
        "a plane source filled a plane that was not asked for, or filled it twice",
    )
    .found(format!("planes {planes:?} of the request"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::WetMask;
    use crate::prepare::MaskOrder;
    use crate::read::PlaneShape;

    #[test]
    fn host_planes_are_lent_once_and_only_within_bounds() {
        let mut buffer = vec![0.0; 12];
        let sink = HostPlanes::new(&mut buffer, 2);
        let write = |planes: Range<usize>, value: f32| {
            sink.fill(planes, &mut |memory| {
                memory.fill(value);
                Ok(())
            })
        };
        write(2..4, 1.0).unwrap();
        write(0..1, 2.0).unwrap();
        write(5..6, 3.0).unwrap();
        for refused in [2..3, 3..5, 0..1, 5..7, 6..7, 1..1] {
            assert!(write(refused.clone(), 9.0).is_err(), "{refused:?}");
        }
        write(4..5, 4.0).unwrap();
        write(1..2, 5.0).unwrap();
        drop(sink);
        assert_eq!(
            buffer,
            [2.0, 2.0, 5.0, 5.0, 1.0, 1.0, 1.0, 1.0, 4.0, 4.0, 3.0, 3.0]
        );
    }

    #[test]
    fn prepared_planes_reach_every_place() {
        let wet = WetMask::new(PlaneShape { ny: 1, nx: 2 }, vec![true, false]).unwrap();
        let wet = std::sync::Arc::new(wet);
        let constants = |mean| ChannelConstants {
            mean,
            std: 2.0,
            wet: wet.clone(),
        };
        let channels = [constants(0.0), constants(1.0)];
        let first = Gather {
            rows: vec![1, 0],
            times: 1,
        };
        let second = Gather {
            rows: vec![1, 1],
            times: 2,
        };
        let (mut a, mut b) = (vec![0.0; 8], vec![0.0; 8]);
        let preparation = Preparation {
            order: MaskOrder::NormaliseFirst,
            fill: 7.0,
        };
        let sink = PreparedTensors::new(
            2,
            &channels,
            preparation,
            2,
            vec![
                Gathered {
                    values: &mut a,
                    gather: &first,
                },
                Gathered {
                    values: &mut b,
                    gather: &second,
                },
            ],
        );
        // Planes: (row 0, channel 0), (0, 1), then row 1 as a run.
        sink.fill(1..2, &mut |m| {
            m.copy_from_slice(&[3.0, 0.0]);
            Ok(())
        })
        .unwrap();
        sink.fill(0..1, &mut |m| {
            m.copy_from_slice(&[f32::NAN, 0.0]);
            Ok(())
        })
        .unwrap();
        sink.fill(2..4, &mut |m| {
            m.copy_from_slice(&[4.0, 0.0, 5.0, 0.0]);
            Ok(())
        })
        .unwrap();
        assert!(sink.fill(2..3, &mut |_| Ok(())).is_err());
        assert_eq!(sink.nan_in_ocean(), 1);
        drop(sink);
        assert_eq!(a, [2.0, 7.0, 2.0, 7.0, 0.0, 7.0, 1.0, 7.0]);
        assert_eq!(b, [2.0, 7.0, 2.0, 7.0, 2.0, 7.0, 2.0, 7.0]);
    }
}

//! For tests: planes and oceans from memory, faults on demand in a source and in the files below a
//! store, the contract of a source as a suite, memory that shows who reads it too late, and the
//! preparation kernel alone.
//!
//! Needs the feature `testing`. Public so that users can test a source of their own, and their
//! training loops against one that fails.

mod contract;
#[cfg(feature = "cube")]
mod device_memory;
#[cfg(feature = "cube")]
mod kernel;
mod ocean;

pub use crate::device::operations::DevicePreparation;
pub use crate::host::poisoned::PoisonedMemory;
pub use crate::zarr::files::injected::{FileFault, FileFaults};
pub use contract::{PurityProbe, check_source};
#[cfg(feature = "cube")]
pub use device_memory::DeviceMemory;
#[cfg(feature = "cube")]
pub use kernel::PlanesOnDevice;
pub use ocean::ocean_on;

use crate::error::{Error, ErrorKind, Result};
use crate::ocean::channel::Channel;
use crate::ocean::plane::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many values of float32 lie from one to the other, in units of the last place: 0 for equal
/// ones and for the two zeros, the largest number where one is NaN.
///
/// ```
/// use burn_om4::testing::ulps;
/// assert_eq!(ulps(1.0, 1.0 + f32::EPSILON), 1);
/// assert_eq!((ulps(0.0, -0.0), ulps(f32::NAN, f32::NAN)), (0, u64::MAX));
/// ```
pub fn ulps(a: f32, b: f32) -> u64 {
    let key = |x: f32| {
        let bits = i64::from(x.to_bits() as i32);
        if bits < 0 {
            i64::from(i32::MIN) - bits
        } else {
            bits
        }
    };
    if a.is_nan() || b.is_nan() {
        u64::MAX
    } else {
        key(a).abs_diff(key(b))
    }
}

/// Value of a cell in (row, channel position, cell).
type Value = dyn Fn(usize, usize, usize) -> f32 + Send + Sync;

/// Planes computed on the fly.
pub struct MemorySource {
    channels: Vec<Channel>,
    rows: usize,
    shape: PlaneShape,
    value: Box<Value>,
    planes_read: AtomicU64,
}

impl MemorySource {
    /// A source of `rows` rows whose cells hold `value(row, channel position, cell)`.
    pub fn new(
        channels: Vec<Channel>,
        rows: usize,
        shape: PlaneShape,
        value: impl Fn(usize, usize, usize) -> f32 + Send + Sync + 'static,
    ) -> Self {
        Self {
            channels,
            rows,
            shape,
            value: Box::new(value),
            planes_read: AtomicU64::new(0),
        }
    }

    /// Planes read so far.
    pub fn planes_read(&self) -> u64 {
        self.planes_read.load(Ordering::Relaxed)
    }
}

impl PlaneSource for MemorySource {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn shape(&self) -> PlaneShape {
        self.shape
    }

    fn read(&self, request: &PlaneRequest<'_>, sink: &dyn PlaneSink) -> Result<ReadCounts> {
        request.check(self)?;
        for plane in 0..request.planes() {
            let row = request.rows[plane / request.channels.len()];
            let channel = request.channels[plane % request.channels.len()];
            sink.fill(plane..plane + 1, &mut |memory| {
                for (cell, value) in memory.iter_mut().enumerate() {
                    *value = (self.value)(row, channel, cell);
                }
                Ok(())
            })?;
        }
        let planes = request.planes() as u64;
        self.planes_read.fetch_add(planes, Ordering::Relaxed);
        Ok(ReadCounts {
            planes,
            chunks: planes,
            ..ReadCounts::default()
        })
    }

    fn planned_chunks(&self, request: &PlaneRequest<'_>) -> Result<u64> {
        request.check(self)?;
        Ok(request.planes() as u64)
    }
}

/// What goes wrong in a [`FaultySource`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A read that touches this row fails, as if its chunk were corrupt.
    ErrorAt(usize),
    /// A read that touches this row panics.
    PanicAt(usize),
    /// Every read takes this much longer.
    Delay(Duration),
}

/// A source with a fault on top.
pub struct FaultySource<S> {
    inner: S,
    fault: Fault,
}

impl<S: PlaneSource> FaultySource<S> {
    /// Puts `fault` on `inner`.
    pub fn new(inner: S, fault: Fault) -> Self {
        Self { inner, fault }
    }
}

impl<S: PlaneSource> PlaneSource for FaultySource<S> {
    fn channels(&self) -> &[Channel] {
        self.inner.channels()
    }

    fn rows(&self) -> usize {
        self.inner.rows()
    }

    fn shape(&self) -> PlaneShape {
        self.inner.shape()
    }

    fn location(&self) -> Option<&Path> {
        self.inner.location()
    }

    fn read(&self, request: &PlaneRequest<'_>, sink: &dyn PlaneSink) -> Result<ReadCounts> {
        match self.fault {
            Fault::ErrorAt(row) if request.rows.contains(&row) => {
                return Err(Error::new(ErrorKind::Corrupt, "an injected fault").row(row));
            }
            Fault::PanicAt(row) if request.rows.contains(&row) => {
                panic!("an injected panic at row {row}");
            }
            Fault::Delay(delay) => std::thread::sleep(delay),
            _ => {}
        }
        self.inner.read(request, sink)
    }

    fn planned_chunks(&self, request: &PlaneRequest<'_>) -> Result<u64> {
        self.inner.planned_chunks(request)
    }
}

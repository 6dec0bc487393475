//! How the bytes of files are had: a back end for each way of reading chunks, and the storage that
//! zarrs reads metadata and small arrays through.
//!
//! ```text
//!  chunk_files ──▶ pread | mmap ──▶ mapping | direct | io_uring ──▶ ring
//!  one enum        each a `BackEnd`           (unsafe: mapping, ring)
//! ```

pub(crate) mod back_end;
pub(crate) mod chunk_files;
#[cfg(target_os = "linux")]
pub(crate) mod direct;
mod faults;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod injected;
#[cfg(target_os = "linux")]
pub(crate) mod io_uring;
pub(crate) mod kind;
pub(crate) mod mapping;
pub(crate) mod mmap;
pub(crate) mod pread;
#[cfg(target_os = "linux")]
pub(crate) mod ring;
pub(crate) mod storage;

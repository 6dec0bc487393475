//! How the bytes of files are had.

#[cfg(target_os = "linux")]
pub(crate) mod direct;
#[cfg(target_os = "linux")]
pub(crate) mod io_uring;
pub(crate) mod mmap;
pub(crate) mod open_file;
pub(crate) mod pread;
pub(crate) mod storage;

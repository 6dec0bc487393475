//! What the tests, and the examples that compare with the original, share. Not published.

pub mod faults;
pub mod fixtures;
pub mod inputs;
pub mod memory;
#[cfg(unix)]
pub mod rights;
pub mod samplers;
pub mod soak;
pub mod stores;

use burn::tensor::Device;
use std::path::{Path, PathBuf};

/// A file or folder beside the project: golden fixtures and stores, which are not part of it. Where they
/// are missing a test skips with a message, except in CI, where missing is a failure.
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared")
        .join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "{} is missing in CI",
        path.display()
    );
    eprintln!("skipped: {} is missing", path.display());
    None
}

/// All values of a NumPy file, C order.
pub fn read_npy<T: npyz::Deserialize>(path: &Path) -> Vec<T> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    npyz::NpyFile::new(&bytes[..]).unwrap().into_vec().unwrap()
}

/// The first Vulkan device. Where there is none a test skips with a message, except in CI.
pub fn vulkan() -> Option<Device> {
    match burn_om4::DeviceChoice::Vulkan.open() {
        Ok(device) => Some(device),
        Err(error) => {
            assert!(
                std::env::var_os("CI").is_none(),
                "no Vulkan device in CI: {error}"
            );
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// Whether a device lacks a type. A test skips it with a message; in CI only bfloat16 may be lacking,
/// which software Vulkan has not.
pub fn lacks(device: &Device, precision: burn_om4::Precision) -> bool {
    if device.supports_dtype(precision.dtype()) {
        return false;
    }
    let may = precision == burn_om4::Precision::Bf16;
    assert!(
        may || std::env::var_os("CI").is_none(),
        "this device lacks {precision:?}"
    );
    eprintln!("skipped: this device lacks {precision:?}");
    true
}

/// The library's own error in a cause chain.
///
/// # Panics
/// There is none.
pub fn own_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a burn_om4::Error {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let own = chain.into_iter().find_map(|error| error.downcast_ref());
    own.expect("an error of the library in the chain")
}

/// Threads of this process, where the system says.
pub fn threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

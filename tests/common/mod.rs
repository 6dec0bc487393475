//! What several test programs share.
// Every test program uses its own part of this.
#![allow(dead_code)]

pub mod memory;
pub mod stores;

use burn::tensor::Device;
use std::path::{Path, PathBuf};

/// A folder of golden fixtures, which are not part of the project. Where they are missing a test
/// skips with a message, except in CI, where missing is a failure.
pub fn fixtures(folder: &str) -> Option<PathBuf> {
    shared(&format!("fixtures/{folder}"))
}

/// A file or folder beside the project.
pub fn shared(folder: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared")
        .join(folder);
    if root.exists() {
        return Some(root);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "{} is missing in CI",
        root.display()
    );
    eprintln!("skipped: {} is missing", root.display());
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

/// What all streams of a CubeCL device hold, staging buffers left out.
#[cfg(feature = "vulkan")]
pub fn device_memory(device: &Device) -> burn_cubecl::cubecl::MemoryUsage {
    use burn::backend::DispatchDevice;
    use burn_cubecl::cubecl::{MemoryScope, MemoryUsage};
    let DispatchDevice::Cube(cube) = device.as_dispatch() else {
        panic!("{device:?} is no CubeCL device");
    };
    let report = cube.client().memory_report(MemoryScope::Device);
    let pools = report.streams.iter().map(|stream| stream.pools.usage());
    pools.fold(MemoryUsage::default(), |sum, usage| sum.combine(usage))
}

/// Threads of this process, where the system says.
pub fn threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

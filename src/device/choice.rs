//! Which device: chosen at run time, with a clear word when its driver is missing.

use crate::error::{Error, ErrorKind, Result};
use burn::tensor::Device;
#[cfg(any(feature = "cuda", feature = "vulkan"))]
use burn::tensor::DeviceType;
use std::fmt;
use std::str::FromStr;

/// A device as a user names it: `auto`, `cpu`, `cuda`, `cuda:1`, `vulkan`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first CUDA device, else the CPU. Software Vulkan devices exist, so Vulkan is never
    /// taken without being asked for.
    #[default]
    Auto,
    /// Burn's CPU backend, flex.
    Cpu,
    /// The n-th CUDA device (feature `cuda`).
    Cuda(usize),
    /// The first Vulkan device (feature `vulkan`).
    Vulkan,
}

impl DeviceChoice {
    /// Opens the device.
    ///
    /// # Errors
    /// The feature is not compiled in, no driver is installed, or there is no such device.
    pub fn open(self) -> Result<Device> {
        match self {
            Self::Cpu => Ok(Device::flex()),
            Self::Auto => Ok(first(cuda_devices(), 0).unwrap_or_else(Device::flex)),
            Self::Cuda(index) => {
                let devices = cuda_devices();
                let found = devices.as_ref().map_or(0, Vec::len);
                first(devices, index).ok_or_else(|| {
                    missing("cuda", cfg!(feature = "cuda")).found(format!("{found} CUDA devices"))
                })
            }
            Self::Vulkan => first(vulkan_devices(), 0)
                .ok_or_else(|| missing("vulkan", cfg!(feature = "vulkan")).found("no device")),
        }
    }
}

/// Whether tensors of this device live in host memory, so that the reader prepares them itself.
pub fn is_cpu(device: &Device) -> bool {
    *device == Device::flex()
}

fn first(devices: Option<Vec<Device>>, index: usize) -> Option<Device> {
    devices?.into_iter().nth(index)
}

/// Listing loads a driver library; some of them panic when it is absent.
#[cfg(any(feature = "cuda", feature = "vulkan"))]
fn list(kind: DeviceType) -> Option<Vec<Device>> {
    std::panic::catch_unwind(|| Device::enumerate(kind).into_vec()).ok()
}

fn cuda_devices() -> Option<Vec<Device>> {
    #[cfg(feature = "cuda")]
    return list(DeviceType::Cuda);
    #[cfg(not(feature = "cuda"))]
    None
}

fn vulkan_devices() -> Option<Vec<Device>> {
    #[cfg(feature = "vulkan")]
    return list(DeviceType::Vulkan);
    #[cfg(not(feature = "vulkan"))]
    None
}

fn missing(name: &str, compiled: bool) -> Error {
    if compiled {
        let needs = format!("a {name} driver and device on this machine");
        Error::new(
            ErrorKind::Device,
            format!("device `{name}` is not available"),
        )
        .expected(needs)
    } else {
        Error::config(format!("device `{name}` is not part of this build"))
            .expected(format!("a build with `--features {name}`"))
    }
}

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            Error::config("unknown device")
                .expected("auto, cpu, cuda, cuda:N or vulkan")
                .found(format!("`{text}`"))
        };
        Ok(match text {
            "auto" => Self::Auto,
            "cpu" => Self::Cpu,
            "cuda" => Self::Cuda(0),
            "vulkan" => Self::Vulkan,
            _ => {
                let index = text.strip_prefix("cuda:").ok_or_else(unknown)?;
                Self::Cuda(index.parse().map_err(|_| unknown())?)
            }
        })
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
            Self::Vulkan => f.write_str("vulkan"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_unknown_ones_are_refused() {
        for name in ["auto", "cpu", "cuda:0", "cuda:3", "vulkan"] {
            assert_eq!(name.parse::<DeviceChoice>().unwrap().to_string(), name);
        }
        assert_eq!(
            "cuda".parse::<DeviceChoice>().unwrap(),
            DeviceChoice::Cuda(0)
        );
        for name in ["", "gpu", "cuda:", "cuda:x", "cuda:-1"] {
            let error = name.parse::<DeviceChoice>().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Config, "{name}");
        }
    }

    #[test]
    fn the_cpu_is_always_there() {
        assert!(is_cpu(&DeviceChoice::Cpu.open().unwrap()));
        assert!(is_cpu(&Device::flex().autodiff()));
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_device_outside_the_build_says_which_feature_it_needs() {
        let error = DeviceChoice::Cuda(0).open().unwrap_err();
        assert!(error.to_string().contains("--features cuda"), "{error}");
    }
}

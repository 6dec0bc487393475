//! What several test programs share.
#![allow(dead_code)]

use burn::tensor::Device;
use burn_om4::testing::MemorySource;
use burn_om4::{
    ChannelConstants, DatasetOptions, Grid, Ocean, OceanChannel, OceanDataset, OceanPair,
    PlaneShape, PlaneSource, TimeAxis, TimeValues, WetMask, WindowSpec,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder of golden fixtures, which are not part of the project. Where they are missing a test
/// skips with a message, except in CI, where missing is a failure.
pub fn fixtures(folder: &str) -> Option<PathBuf> {
    shared(&format!("fixtures/{folder}"))
}

/// A folder beside the project.
pub fn shared(folder: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared")
        .join(folder);
    if root.is_dir() {
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

/// Threads of this process, where the system says.
pub fn threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

/// A source of `rows` rows, two prognostic channels and one boundary channel, 2 x 3 cells, whose
/// values are `row * 100 + channel * 10 + cell`.
pub fn memory_source(rows: usize) -> MemorySource {
    let channels = ["thetao_0", "zos", "hfds"].map(|n| n.parse().unwrap());
    let shape = PlaneShape { ny: 2, nx: 3 };
    MemorySource::new(channels.into(), rows, shape, |row, channel, cell| {
        (row * 100 + channel * 10 + cell) as f32
    })
}

/// A data set over one source, with means 0, deviations 1, all cells wet, daily times, history 1.
pub fn try_memory_dataset(
    source: impl PlaneSource + 'static,
    steps: usize,
) -> burn_om4::Result<OceanDataset> {
    let wet = Arc::new(WetMask::new(
        source.plane(),
        vec![true; source.plane().cells()],
    )?);
    let channel = OceanChannel {
        constants: ChannelConstants {
            mean: 0.0,
            std: 1.0,
            wet: wet.clone(),
        },
        unit: None,
    };
    let days = TimeValues::Int((0..source.rows() as i64).collect());
    let ocean = Ocean {
        time: TimeAxis::decode(&days, "days since 2000-01-01", "julian")?,
        grid: Arc::new(Grid::of_shape(source.plane())),
        surface: wet,
        channels: source
            .channels()
            .iter()
            .map(|c| (c.clone(), channel.clone()))
            .collect(),
        planes: Arc::new(source),
    };
    let names = |list: &[&str]| list.iter().map(|n| n.parse().unwrap()).collect();
    let options = DatasetOptions::new(names(&["thetao_0", "zos"]), names(&["hfds"])).with_window(
        WindowSpec {
            steps,
            ..WindowSpec::default()
        },
    );
    OceanDataset::from_oceans(
        vec![OceanPair {
            input: ocean,
            label: None,
        }],
        &options,
    )
}

/// As [`try_memory_dataset`], which must succeed.
pub fn memory_dataset(source: impl PlaneSource + 'static, steps: usize) -> OceanDataset {
    try_memory_dataset(source, steps).unwrap()
}

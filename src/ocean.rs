//! A store with everything that turns its planes into model input: masks, statistics, time, grid.

use crate::error::Result;
use crate::grid::Grid;
use crate::mask::WetMask;
use crate::options::OpenOptions;
use crate::prepare::ChannelConstants;
use crate::read::PlaneSource;
use crate::schema::Channel;
use crate::stats::Statistics;
use crate::store::Store;
use crate::time::TimeAxis;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a store and its statistics lie.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Om4Paths {
    /// The fields.
    pub data: PathBuf,
    /// Mean of every channel.
    pub means: PathBuf,
    /// Standard deviation of every channel.
    pub stds: PathBuf,
}

impl Om4Paths {
    /// `OM4.zarr`, `OM4_means.zarr` and `OM4_stds.zarr` in one folder, as they are published.
    pub fn in_dir(dir: impl AsRef<Path>) -> Self {
        let dir = dir.as_ref();
        Self {
            data: dir.join("OM4.zarr"),
            means: dir.join("OM4_means.zarr"),
            stds: dir.join("OM4_stds.zarr"),
        }
    }
}

/// What a channel is prepared with, and what it is called.
#[derive(Clone, Debug)]
pub struct OceanChannel {
    /// Mean, standard deviation and the channel's own wet mask.
    pub constants: ChannelConstants,
    /// Unit as the store states it, such as `degC`.
    pub unit: Option<String>,
}

/// A plane source together with its time axis, grid, masks and statistics.
///
/// [`Ocean::open`] makes one from an OM4 store; the fields are public so that any other
/// [`PlaneSource`] can be dressed up as one.
#[derive(Clone)]
pub struct Ocean {
    /// Fills planes.
    pub planes: Arc<dyn PlaneSource>,
    /// One entry per row of `planes`.
    pub time: TimeAxis,
    /// Extent as `planes.plane()`.
    pub grid: Arc<Grid>,
    /// Wet mask of the surface: applies to every boundary channel.
    pub surface: Arc<WetMask>,
    /// The channels that may be asked for.
    pub channels: BTreeMap<Channel, OceanChannel>,
    /// What is odd about the store without being an error.
    pub warnings: Vec<String>,
}

impl Ocean {
    /// Opens a store and the statistics of `wanted` channels; those of `options` do not count.
    ///
    /// # Errors
    /// A malformed store, a channel that the store or the statistics lack, a missing mask.
    ///
    /// What is odd without being an error is logged, and kept in `warnings`.
    pub fn open(paths: &Om4Paths, wanted: &[Channel], options: &OpenOptions) -> Result<Self> {
        let options = options.clone().with_channels(wanted.iter().cloned());
        let store = Store::open(&paths.data, &options)?;
        let statistics = Statistics::open(&paths.means, &paths.stds, &options)?;
        let mut channels = BTreeMap::new();
        for channel in wanted {
            let stats = statistics.get(channel)?;
            let wet = store.wet_mask(channel.mask_level())?;
            let constants = ChannelConstants {
                mean: stats.mean,
                std: stats.std,
                wet,
            };
            let unit = store.unit(channel).map(str::to_owned);
            channels.insert(channel.clone(), OceanChannel { constants, unit });
        }
        let warnings = [store.warnings(), statistics.warnings()].concat();
        for warning in &warnings {
            log::warn!("{}: {warning}", paths.data.display());
        }
        Ok(Self {
            warnings,
            time: store.time().clone(),
            grid: Arc::new(store.grid().clone()),
            surface: store.wet_mask(0)?,
            channels,
            planes: Arc::new(store),
        })
    }
}

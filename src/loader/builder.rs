//! A loader in one statement, in the words of Burn's `DataLoaderBuilder`.

use crate::augment::transform::Transform;
use crate::dataset::ocean_dataset::OceanDataset;
use crate::error::{Error, Result};
use crate::host::pool::HostPool;
use crate::loader::batcher::OceanBatcher;
use crate::loader::ocean_loader::OceanLoader;
use crate::loader::prefetch::PrefetchOptions;
use crate::observe::timeline::Timeline;
use crate::order::options::{Order, ScheduleOptions};
use crate::order::schedule::Schedule;
use crate::order::state::LoaderState;
use crate::prepare::path::DevicePath;
use crate::prepare::precision::Precision;
use crate::prepare::transfer::Transfer;
use crate::threads::set_reader_threads;
use burn::tensor::Device;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Makes an [`OceanLoader`]. Begin with [`OceanLoader::builder`], end with [`build`](Self::build).
///
/// Method names are those of Burn's `DataLoaderBuilder` where both have the thing: `batch_size`,
/// `shuffle`, `num_workers`, `build`. As there, the order is sequential unless something else is asked
/// for. Nothing is checked before `build`.
///
/// ```
/// # use burn_om4::synth::SynthOptions;
/// # let temp = tempfile::tempdir()?;
/// # let dir = temp.path();
/// # SynthOptions::new(6, 12).with_levels(2).with_rows(12).write(dir)?;
/// use burn::data::dataloader::DataLoader;
/// use burn_om4::{
///     DatasetOptions, DeviceChoice, OceanDataset, OceanLoader, Om4Paths, parse_channels,
/// };
///
/// let options = DatasetOptions::new(parse_channels("thetao_0, zos")?, parse_channels("hfds")?);
/// let dataset = OceanDataset::open(&Om4Paths::in_dir(dir), &options)?;
/// let device = DeviceChoice::Cpu.open()?;
/// let loader = OceanLoader::builder(dataset).batch_size(4).shuffle(15).build(&device)?;
/// let batches = loader.iter().collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(batches.iter().map(|batch| batch.len()).sum::<usize>(), loader.num_items());
/// # Ok::<(), anyhow::Error>(())
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct OceanLoaderBuilder {
    dataset: OceanDataset,
    schedule: ScheduleOptions,
    prefetch: Option<PrefetchOptions>,
    num_workers: Option<usize>,
    precision: Precision,
    transfer: Transfer,
    device_path: DevicePath,
    host_pool: Option<HostPool>,
    augment: Option<(usize, Arc<dyn Transform>)>,
    timeline: Option<Timeline>,
    first: FirstPass,
}

/// Where the first pass begins.
enum FirstPass {
    Epoch(usize),
    State(LoaderState),
}

impl OceanLoader {
    /// A builder of a loader over `dataset`: batches of one window, in sequential order.
    pub fn builder(dataset: OceanDataset) -> OceanLoaderBuilder {
        OceanLoaderBuilder {
            dataset,
            schedule: ScheduleOptions::default().with_order(Order::Sequential),
            prefetch: None,
            num_workers: None,
            precision: Precision::default(),
            transfer: Transfer::default(),
            device_path: DevicePath::default(),
            host_pool: None,
            augment: None,
            timeline: None,
            first: FirstPass::Epoch(0),
        }
    }
}

impl OceanLoaderBuilder {
    /// Sets the windows per batch (and rank), at least 1. Default 1.
    pub fn batch_size(mut self, batch_size: usize) -> Self {
        self.schedule.batch_size = batch_size;
        self
    }

    /// Shuffles all windows anew in each epoch ([`Order::Shuffled`]), by this seed.
    pub fn shuffle(mut self, seed: i64) -> Self {
        self.schedule.order = Order::Shuffled;
        self.schedule.seed = seed;
        self
    }

    /// Sets the order of windows. The seed is that of [`seed`](Self::seed) or
    /// [`shuffle`](Self::shuffle). Default [`Order::Sequential`].
    pub fn order(mut self, order: Order) -> Self {
        self.schedule.order = order;
        self
    }

    /// Sets the seed of the order. Default 0.
    pub fn seed(mut self, seed: i64) -> Self {
        self.schedule.seed = seed;
        self
    }

    /// Drops short batches and incomplete rounds of ranks. Default false: nothing is lost.
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.schedule.drop_last = drop_last;
        self
    }

    /// Delivers the batches of `rank` out of `world` ranks. Default rank 0 of 1.
    pub fn rank(mut self, rank: usize, world: usize) -> Self {
        self.schedule.rank = rank;
        self.schedule.world = world;
        self
    }

    /// Replaces everything that has been said of order, batch size, seed and ranks.
    pub fn schedule(mut self, schedule: ScheduleOptions) -> Self {
        self.schedule = schedule;
        self
    }

    /// Sets the threads that read and decode. They are shared by all loaders of the process, so the
    /// first loader decides ([`set_reader_threads`]); one for each
    /// core by default.
    ///
    /// 0 means what it means in Burn: nothing is read ahead, each batch is made when it is asked for.
    pub fn num_workers(mut self, num_workers: usize) -> Self {
        self.num_workers = Some(num_workers);
        self
    }

    /// Sets how far the loader reads ahead. Default: two batches, at most 16 GiB.
    pub fn prefetch(mut self, prefetch: PrefetchOptions) -> Self {
        self.prefetch = Some(prefetch);
        self
    }

    /// Sets the element type of tensors. Default float32.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Sets what crosses to devices that are not a CPU. Default raw planes in float32.
    pub fn transfer(mut self, transfer: Transfer) -> Self {
        self.transfer = transfer;
        self
    }

    /// Sets what prepares planes on devices that are not a CPU.
    pub fn device_path(mut self, path: DevicePath) -> Self {
        self.device_path = path;
        self
    }

    /// Takes all host buffers from `pool`, whatever the device.
    pub fn host_pool(mut self, pool: HostPool) -> Self {
        self.host_pool = Some(pool);
        self
    }

    /// Delivers every window `picks` times per epoch, each time changed by `transform`
    /// ([`OceanLoader::augment`]).
    pub fn augment(mut self, picks: usize, transform: impl Transform + 'static) -> Self {
        self.augment = Some((picks, Arc::new(transform)));
        self
    }

    /// Records what happens when into `timeline`.
    pub fn timeline(mut self, timeline: &Timeline) -> Self {
        self.timeline = Some(timeline.clone());
        self
    }

    /// Makes the first pass this epoch: after `Learner`'s `checkpoint(k)`, that is k. The last of
    /// `epoch` and [`resume`](Self::resume) counts. Default 0.
    pub fn epoch(mut self, epoch: usize) -> Self {
        self.first = FirstPass::Epoch(epoch);
        self
    }

    /// Goes on from a saved state ([`OceanLoader::resume`]).
    pub fn resume(mut self, state: &LoaderState) -> Self {
        self.first = FirstPass::State(state.clone());
        self
    }

    /// Makes the loader.
    ///
    /// # Errors
    /// A batch size, world, block or pool of 0; a rank outside the world; a custom batch that the
    /// data set cannot serve; a prefetch or path that the device does not offer; a number of workers
    /// other than that of the loaders before; a transform that cannot serve the data set; a state of
    /// another data set, order or seed.
    pub fn build(self, device: &Device) -> Result<OceanLoader> {
        let prefetch = match (self.num_workers, self.prefetch) {
            (Some(0), Some(prefetch)) if prefetch.batches > 0 => {
                return Err(Error::config("without workers nothing can be read ahead")
                    .expected("at least 1 worker, or a prefetch of 0 batches")
                    .found(format!("a prefetch of {} batches", prefetch.batches)));
            }
            (Some(0), prefetch) => prefetch.unwrap_or_default().with_batches(0),
            (_, prefetch) => prefetch.unwrap_or_default(),
        };
        if let Some(threads) = self.num_workers.and_then(NonZeroUsize::new) {
            set_reader_threads(threads)?;
        }
        let schedule = Schedule::new(self.schedule, self.dataset.groups())?;
        let mut batcher = OceanBatcher::new(self.dataset)
            .with_precision(self.precision)
            .with_transfer(self.transfer)
            .with_device_path(self.device_path);
        if let Some(pool) = self.host_pool {
            batcher = batcher.with_host_pool(pool);
        }
        let mut loader = OceanLoader::new(batcher, schedule, prefetch, device)?;
        if let Some(timeline) = &self.timeline {
            loader = loader.with_timeline(timeline);
        }
        if let Some((picks, transform)) = self.augment {
            loader = loader.augment(picks, transform)?;
        }
        match self.first {
            FirstPass::Epoch(epoch) => Ok(loader.starting_at(epoch)),
            FirstPass::State(state) => loader.resume(&state),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::noise::Noise;
    use crate::dataset::options::DatasetOptions;
    use crate::dataset::source::OceanPair;
    use crate::error::ErrorKind;
    use crate::ocean::mask::WetMask;
    use crate::ocean::plane::PlaneShape;
    use crate::plan::window::Window;
    use crate::prepare::arithmetic::ChannelConstants;
    use crate::store::reader_threads;
    use crate::testing::{MemorySource, ocean_on};
    use burn::data::dataloader::DataLoader;

    fn dataset() -> OceanDataset {
        let shape = PlaneShape { ny: 1, nx: 2 };
        let channels = ["zos", "hfds"].map(|name| name.parse().unwrap());
        let source = MemorySource::new(channels.to_vec(), 23, shape, |row, _, _| row as f32);
        let constants = ChannelConstants {
            mean: 0.0,
            std: 1.0,
            wet: Arc::new(WetMask::new(shape, vec![true; 2]).unwrap()),
        };
        let input = ocean_on(source, vec![constants; 2]).unwrap();
        let [zos, hfds] = channels_of(&["zos", "hfds"]);
        let options = DatasetOptions::new(vec![zos], vec![hfds]);
        OceanDataset::from_oceans(vec![OceanPair { input, label: None }], &options).unwrap()
    }

    fn channels_of<const N: usize>(names: &[&str; N]) -> [crate::Channel; N] {
        names.map(|name| name.parse().unwrap())
    }

    fn pass(loader: &OceanLoader) -> Vec<Vec<Window>> {
        let windows = |batch: crate::ModelBatch| batch.windows().to_vec();
        loader.iter().map(|batch| windows(batch.unwrap())).collect()
    }

    fn by_parts(schedule: ScheduleOptions) -> OceanLoader {
        let schedule = Schedule::new(schedule, dataset().groups()).unwrap();
        let (batcher, prefetch) = (OceanBatcher::new(dataset()), PrefetchOptions::default());
        OceanLoader::new(batcher, schedule, prefetch, &Device::flex()).unwrap()
    }

    #[test]
    fn it_makes_the_loader_that_its_parts_make() {
        let device = Device::flex();
        let plain = OceanLoader::builder(dataset()).build(&device).unwrap();
        let expected = ScheduleOptions::default().with_order(Order::Sequential);
        assert_eq!(
            pass(&plain),
            pass(&by_parts(expected)),
            "sequential, as in Burn"
        );

        let shuffled = OceanLoader::builder(dataset())
            .batch_size(3)
            .shuffle(15)
            .drop_last(true)
            .rank(1, 2);
        let expected = ScheduleOptions::default()
            .with_batch_size(3)
            .with_seed(15)
            .with_drop_last(true)
            .with_world(2)
            .with_rank(1);
        let expected = by_parts(expected);
        let shuffled = shuffled.build(&device).unwrap();
        assert_eq!(shuffled.schedule().options(), expected.schedule().options());
        assert_eq!(pass(&shuffled), pass(&expected));

        let blocks = Order::Blocks { block: 4, pool: 2 };
        let built = OceanLoader::builder(dataset())
            .order(blocks.clone())
            .seed(7);
        let expected = by_parts(ScheduleOptions::default().with_order(blocks).with_seed(7));
        assert_eq!(pass(&built.build(&device).unwrap()), pass(&expected));
    }

    #[test]
    fn it_resumes_in_mid_epoch_and_starts_at_an_epoch() {
        let device = Device::flex();
        let builder = || OceanLoader::builder(dataset()).batch_size(2).shuffle(3);
        let loader = builder().build(&device).unwrap();
        let (first, second) = (pass(&loader), pass(&loader));
        let loader = builder().epoch(1).build(&device).unwrap();
        assert_eq!(pass(&loader), second);

        let loader = builder().build(&device).unwrap();
        let mut batches = loader.iter();
        batches.next().unwrap().unwrap();
        batches.next().unwrap().unwrap();
        let state = loader.state();
        drop(batches);
        let resumed = builder().resume(&state).build(&device).unwrap();
        assert_eq!(pass(&resumed), first[2..]);
        assert_eq!(pass(&resumed), second);
    }

    #[test]
    fn workers_are_the_reader_threads_and_zero_reads_nothing_ahead() {
        let device = Device::flex();
        let now = reader_threads().unwrap();
        let with = |n| OceanLoader::builder(dataset()).num_workers(n);
        assert_eq!(pass(&with(now).build(&device).unwrap()).len(), 20);
        let other = with(now + 1).build(&device).map(drop).unwrap_err();
        assert_eq!(other.kind(), ErrorKind::Config);

        assert_eq!(pass(&with(0).build(&device).unwrap()).len(), 20);
        let prefetch = PrefetchOptions::default().with_batches(2);
        let both = with(0).prefetch(prefetch).build(&device).map(drop);
        assert_eq!(both.unwrap_err().kind(), ErrorKind::Config);
    }

    #[test]
    fn the_other_parts_arrive() {
        let timeline = Timeline::start();
        let loader = OceanLoader::builder(dataset())
            .schedule(ScheduleOptions::default().with_batch_size(5))
            .precision(Precision::Bf16)
            .transfer(Transfer::Prepared)
            .device_path(DevicePath::Operations)
            .augment(2, Noise::new(0.1).unwrap())
            .timeline(&timeline)
            .build(&Device::flex())
            .unwrap();
        assert_eq!(loader.batcher().precision(), Precision::Bf16);
        assert_eq!(loader.num_items(), 2 * 20);
        let batch = loader.iter().next().unwrap().unwrap();
        assert_eq!((batch.len(), batch.picks().len()), (5, 5));
        let trace = timeline.to_json();
        let mut events = trace["traceEvents"].as_array().unwrap().iter();
        assert!(events.any(|e| e["cat"] == "host read" && e["name"] == "batch 0"));

        let refused = OceanLoader::builder(dataset()).batch_size(0);
        let refused = refused.build(&Device::flex()).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Config);
    }
}

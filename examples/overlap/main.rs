//! What a slow source costs a slower consumer: almost nothing after the first batch.
//!
//! A source that takes a while for every read feeds a consumer that computes for longer, on the CPU
//! and, where there is one, on a Vulkan device. Prints the exposed wait and fails where it is 2 %
//! or more of the consumer's time.
//!
//! ```sh
//! cargo run --release --features vulkan --example overlap -- --trace timeline.json
//! # The picture in the book:
//! cargo run --release --features vulkan --example overlap -- \
//!     --batches 20 --levels 19 --svg book/src/images/timeline.svg
//! ```

mod picture;

use anyhow::{Context, Result, ensure};
use burn::data::dataloader::DataLoader;
use burn::tensor::{Device, Tensor};
use burn_om4::testing::{Fault, FaultySource, MemorySource};
use burn_om4::{
    Channel, ChannelConstants, DatasetOptions, DeviceChoice, Grid, Ocean, OceanBatcher,
    OceanChannel, OceanDataset, OceanLoader, OceanPair, PlaneShape, PlaneSource, Prefetch,
    Schedule, ScheduleSpec, TimeAxis, TimeValues, Timeline, WetMask, WindowSpec, is_cpu,
};
use clap::Parser;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Parser)]
struct Options {
    /// Delay of each read group, milliseconds; a batch has two.
    #[arg(long, default_value_t = 30)]
    read: u64,
    /// What the consumer computes per batch, milliseconds.
    #[arg(long, default_value_t = 120)]
    consumer: u64,
    /// Batches.
    #[arg(long, default_value_t = 50)]
    batches: usize,
    /// Depths of temperature and salinity: 1 to 19, which decide how much crosses to the device.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=19))]
    levels: u64,
    /// Where to write the timeline of the last device.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Where to draw the first batches of that timeline.
    #[arg(long)]
    svg: Option<PathBuf>,
}

/// Batches in the picture.
const DRAWN: u64 = 7;

fn dataset(options: &Options) -> Result<OceanDataset> {
    let (rows, delay) = (options.batches + 20, Duration::from_millis(options.read));
    let shape = PlaneShape { ny: 90, nx: 180 };
    let levels = |name: &'static str| (0..options.levels).map(move |k| format!("{name}_{k}"));
    let names = levels("thetao").chain(levels("so"));
    let names = names.chain(["zos".into(), "hfds".into()]);
    let channels: Vec<Channel> = names.map(|n| n.parse()).collect::<Result<_, _>>()?;
    let (prognostic, boundary) = channels.split_at(channels.len() - 1);
    let windows = DatasetOptions::new(prognostic.to_vec(), boundary.to_vec())
        .with_window(WindowSpec::default().with_steps(2));
    let source = MemorySource::new(channels, rows, shape, |row, channel, cell| {
        (row * 7 + channel * 3 + cell % 180) as f32
    });
    let wet = Arc::new(WetMask::new(
        shape,
        (0..shape.cells()).map(|c| c % 3 > 0).collect(),
    )?);
    let constants = ChannelConstants {
        mean: 100.0,
        std: 50.0,
        wet: wet.clone(),
    };
    let channel = OceanChannel {
        constants,
        unit: None,
    };
    let days = TimeValues::Int((0..rows as i64).collect());
    let ocean = Ocean {
        time: TimeAxis::decode(&days, "days since 2000-01-01", "julian")?,
        grid: Arc::new(Grid::of_shape(shape)),
        surface: wet,
        warnings: Vec::new(),
        channels: source
            .channels()
            .iter()
            .map(|c| (c.clone(), channel.clone()))
            .collect(),
        planes: Arc::new(FaultySource::new(source, Fault::Delay(delay))),
    };
    let pair = OceanPair {
        input: ocean,
        label: None,
    };
    Ok(OceanDataset::from_oceans(vec![pair], &windows)?)
}

/// A few operations on the device, then a pause that stands for a model whose kernels run on their
/// own. Software devices compute on the cores that also read and upload, so a consumer that filled
/// them would measure the machine and not the lane.
fn consume(inputs: Tensor<4>, busy: Duration) {
    let until = Instant::now() + busy;
    let result = inputs * 0.5 + 1.0;
    result.device().sync().expect("the device works");
    std::thread::sleep(until.saturating_duration_since(Instant::now()));
}

fn measure(device: &Device, options: &Options, timeline: &Timeline) -> Result<f64> {
    let dataset = dataset(options)?;
    let spec = ScheduleSpec {
        batch_size: 1,
        ..ScheduleSpec::default()
    };
    let schedule = Schedule::new(spec, dataset.groups())?;
    let batcher = OceanBatcher::new(dataset);
    let loader =
        OceanLoader::new(batcher, schedule, Prefetch::default(), device)?.with_timeline(timeline);
    let mut computed = Duration::ZERO;
    for batch in loader.iter().take(options.batches) {
        let started = Instant::now();
        consume(batch?.input(0)?, Duration::from_millis(options.consumer));
        computed += started.elapsed();
    }
    let wait = loader.counters().wait;
    let share = wait.seconds / computed.as_secs_f64();
    println!(
        "{device:?}: exposed wait {:.3} % of the consumer's time; mean {:.2} ms, p50 {:.2} ms, \
         p99 {:.2} ms, max {:.2} ms over {} batches; first batch {:.0} ms",
        share * 100.0,
        wait.mean * 1e3,
        wait.p50 * 1e3,
        wait.p99 * 1e3,
        wait.max * 1e3,
        wait.batches,
        wait.first_seconds * 1e3,
    );
    Ok(share)
}

fn main() -> Result<()> {
    let options = Options::parse();
    let mut devices = vec![Device::flex()];
    devices.extend(DeviceChoice::Vulkan.open());
    for device in &devices {
        let timeline = Timeline::start();
        let share = measure(device, &options, &timeline)?;
        if let Some(path) = &options.trace {
            timeline.write(path)?;
        }
        if let Some(path) = &options.svg {
            let title = match is_cpu(device) {
                true => "Batches on a CPU device",
                false => "Batches on a Vulkan device",
            };
            let svg = picture::draw(&timeline.to_json(), title, DRAWN)?;
            std::fs::write(path, svg).with_context(|| path.display().to_string())?;
        }
        ensure!(
            share < 0.02,
            "the consumer waited for {:.1} % of its time",
            share * 100.0
        );
    }
    Ok(())
}

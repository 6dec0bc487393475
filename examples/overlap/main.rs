//! What a slow source costs a slower consumer: almost nothing after the first batch.
//!
//! A source that takes a while for every read feeds a consumer that computes for longer, on the CPU
//! and, where there is one, on a Vulkan device. Prints the exposed wait and fails where it is 2 %
//! or more of the consumer's time.
//!
//! ```sh
//! cargo run --release --features vulkan --example overlap -- --trace timeline.json
//! # The picture in the book:
//! cargo run --release --features vulkan --example overlap -- --svg book/src/images/timeline.svg
//! ```

mod picture;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result, ensure};
use burn::data::dataloader::DataLoader;
use burn::tensor::{Device, Tensor};
use burn_om4::dataset::OceanPair;
use burn_om4::device::is_cpu;
use burn_om4::ocean::{PlaneShape, WetMask};
use burn_om4::prepare::ChannelConstants;
use burn_om4::testing::{Fault, FaultySource, MemorySource, ocean_on};
use burn_om4::{DatasetOptions, DeviceChoice, OceanDataset, OceanLoader, Timeline, WindowOptions};
use clap::Parser;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Parser)]
struct Options {
    /// Delay of each read group, milliseconds; a batch has two.
    #[arg(long, default_value_t = 50)]
    read: u64,
    /// What the consumer computes per batch, milliseconds.
    #[arg(long, default_value_t = 200)]
    consumer: u64,
    /// Batches.
    #[arg(long, default_value_t = 50)]
    batches: usize,
    /// Where to write the timeline of the last device.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Where to draw the first batches of that timeline.
    #[arg(long)]
    svg: Option<PathBuf>,
}

/// Batches in the picture.
const DRAWN: u64 = 7;

fn dataset(rows: usize, delay: Duration) -> Result<OceanDataset> {
    let shape = PlaneShape { ny: 90, nx: 180 };
    let names = ["thetao_0", "so_0", "zos", "hfds"];
    let channels = names.map(|n| n.parse().expect("a known channel"));
    let source = MemorySource::new(channels.into(), rows, shape, |row, channel, cell| {
        (row * 7 + channel * 3 + cell % 180) as f32
    });
    let wet = Arc::new(WetMask::new(
        shape,
        (0..shape.cells()).map(|c| c % 3 > 0).collect(),
    )?);
    let constants = ChannelConstants {
        mean: 100.0,
        std: 50.0,
        wet,
    };
    let source = FaultySource::new(source, Fault::Delay(delay));
    let ocean = ocean_on(source, vec![constants; names.len()])?;
    let list = |names: &[&str]| {
        names
            .iter()
            .map(|n| n.parse())
            .collect::<Result<Vec<_>, _>>()
    };
    let options = DatasetOptions::new(list(&names[..3])?, list(&names[3..])?)
        .with_window(WindowOptions::default().with_steps(2));
    let pair = OceanPair {
        input: ocean,
        label: None,
    };
    Ok(OceanDataset::from_oceans(vec![pair], &options)?)
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

fn loader(device: &Device, options: &Options, timeline: &Timeline) -> Result<OceanLoader> {
    let dataset = dataset(options.batches + 20, Duration::from_millis(options.read))?;
    let loader = OceanLoader::builder(dataset).shuffle(0).timeline(timeline);
    Ok(loader.build(device)?)
}

/// The exposed wait as a share of the consumer's time.
fn measure(device: &Device, options: &Options, timeline: &Timeline) -> Result<f64> {
    let busy = Duration::from_millis(options.consumer);
    // A first batch from another loader, so that kernels are compiled.
    for batch in loader(device, options, &Timeline::default())?
        .iter()
        .take(1)
    {
        consume(batch?.input(0)?, Duration::ZERO);
    }
    let loader = loader(device, options, timeline)?;
    let mut computed = Duration::ZERO;
    for batch in loader.iter().take(options.batches) {
        let started = Instant::now();
        consume(batch?.input(0)?, busy);
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
    let mut longest = 0.0f64;
    for device in &devices {
        let timeline = Timeline::start();
        longest = longest.max(measure(device, &options, &timeline)?);
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
    }
    ensure!(
        longest < 0.02,
        "the consumer waited for {:.1} % of its time",
        longest * 100.0
    );
    Ok(())
}

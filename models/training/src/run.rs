//! A run from options to report.

use crate::checkpoint::Checkpoints;
use crate::config::RunConfig;
use crate::data::{Defaults, Loaders, PUBLISHED, Task, describe};
use crate::demo;
use crate::epochs::{CheckpointPolicy, train};
use crate::network::{self, Size};
use crate::options::Options;
use crate::pictures;
use crate::progress::Progress;
use crate::report::{LoaderReport, Loading, Report, loader_summary, skills, table};
use crate::signals::Stop;
use anyhow::{Context, Result, ensure};
use burn::module::Module;
use burn::tensor::Device;
use burn_om4::Timeline;
use samudra::Samudra;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

/// Where the small ocean is kept.
const DEMO: &str = "target/demo_ocean";
/// Steps of the tiny network's recipe, with which its rate goes together.
const TINY_STEPS: usize = 432;
const TINY_RATE: f64 = 5e-3;
/// The published recipe.
const EPOCHS: usize = 70;
const RATE: f64 = 6e-4;

/// What a run left.
pub struct Outcome {
    /// What `report.json` holds.
    pub report: Report<RunConfig>,
    /// Whether it was the small ocean.
    pub demo: bool,
}

/// Trains, validates, and writes report, maps and weights.
///
/// # Errors
/// Whatever cannot be opened, read, trained or written;
/// [`Interrupted`](crate::signals::Interrupted) when told to stop.
pub fn run(options: &Options, stop: &Stop) -> Result<Outcome> {
    let options = &options.clone().of_rank(|name| std::env::var(name).ok())?;
    if let Some(readers) = options.readers {
        burn_om4::store::set_reader_threads(readers)?;
    }
    let device = options.device.open()?;
    let task = match &options.data {
        Some(dir) => Task::new(dir, options, &PUBLISHED)?,
        None => Task::new(demo_store()?, options, &SMALL_OCEAN)?,
    };
    let mut loaders = Loaders::open(&task, options, &device)?;
    let trace = options.trace.as_deref().map(Trace::to).transpose()?;
    if let Some(Trace { timeline, .. }) = &trace {
        loaders.train = loaders.train.with_timeline(timeline);
    }
    let (network, config) = prepare(&task, &loaders, options, &device)?;
    println!("{}", facts(&task, &loaders, &config)?);

    std::fs::create_dir_all(&options.out)
        .with_context(|| format!("creating {}", options.out.display()))?;
    let started = Instant::now();
    let policy = CheckpointPolicy {
        checkpoints: Checkpoints::of(&options.out),
        every: options.save_every.map(NonZeroUsize::get),
        resume: options.resume,
        stop: stop.clone(),
    };
    let trained = train(network, loaders, &config, &device, &policy);
    let trained = match &trace {
        Some(trace) => trace.written_after(trained)?,
        None => trained?,
    };
    let loaders = &trained.loaders;
    let context = loaders.validation.batcher().dataset().context(0);
    let report = Report {
        validation: skills(&trained.scores, context),
        validation_windows: trained.scores.windows(),
        epochs: trained.epochs,
        config,
        loader: LoaderReport {
            train: Loading::of(&loaders.train),
            validation: Loading::of(&loaders.validation),
        },
        seconds: started.elapsed().as_secs_f64(),
    };
    print!("\n{}", table(&report.validation));
    println!("\n{}", loader_summary(&report.loader));
    let pictures = pictures::draw(&trained.network, &loaders.validation, &report, options)?;
    let weights = options.out.join("samudra.safetensors");
    trained.network.state_dict().write_safetensors(&weights)?;
    let path = options
        .report
        .clone()
        .unwrap_or_else(|| options.out.join("report.json"));
    report.write(&path)?;
    let written = [&weights, &path].into_iter().chain(&options.trace);
    for file in pictures.iter().chain(written) {
        println!("wrote {}", file.display());
    }
    Ok(Outcome {
        report,
        demo: options.data.is_none(),
    })
}

/// A timeline, and the file it is for.
struct Trace<'a> {
    timeline: Timeline,
    file: &'a Path,
}

impl<'a> Trace<'a> {
    /// Starts now. A file that cannot be written is found out here and not at the end.
    fn to(file: &'a Path) -> Result<Self> {
        let timeline = Timeline::start();
        timeline.write(file)?;
        Ok(Self { timeline, file })
    }

    /// Writes the file whatever came of the work: the trace of a run that stopped is of use, too.
    fn written_after<T>(&self, work: Result<T>) -> Result<T> {
        match (work, self.timeline.write(self.file)) {
            (Ok(done), Ok(())) => Ok(done),
            (Ok(_), Err(error)) => Err(error.into()),
            (Err(error), written) => {
                // The first failure is the one to return.
                if let Err(second) = written {
                    eprintln!("{second:#}");
                }
                Err(error)
            }
        }
    }
}

/// The small ocean's own channels and years.
const SMALL_OCEAN: Defaults = Defaults {
    prognostic: demo::PROGNOSTIC,
    boundary: demo::BOUNDARY,
    times: Some([demo::TRAIN, demo::VALIDATION]),
};

/// Writes the small ocean unless it is there.
fn demo_store() -> Result<&'static Path> {
    let dir = Path::new(DEMO);
    let progress = Progress::new("making an ocean", 100);
    demo::write_demo(dir, |done| progress.at((100.0 * done) as u64))?;
    progress.finish();
    Ok(dir)
}

/// The network, and the options with all defaults filled in.
fn prepare(
    task: &Task,
    loaders: &Loaders,
    options: &Options,
    device: &Device,
) -> Result<(Samudra, RunConfig)> {
    let context = loaders.train.batcher().dataset().context(0);
    let network = network::config(options.model, context);
    let built = network.init(
        &network::grid(context.grid()),
        u64::from(options.seed),
        &device.clone().autodiff(),
    )?;
    let batches = loaders.train.batches() as usize;
    let (epochs, rate) = match options.model {
        Size::Tiny => (TINY_STEPS.div_ceil(batches), TINY_RATE),
        Size::V1 | Size::V2 | Size::V2Highres => (EPOCHS, RATE),
    };
    let config = RunConfig {
        data: task.paths.data.clone(),
        prognostic: task.prognostic.clone(),
        boundary: task.boundary.clone(),
        history: options.history,
        steps: options.steps,
        stride: options.stride,
        batch_size: options.batch_size,
        epochs: options.epochs.unwrap_or(epochs),
        lr: options.lr.unwrap_or(rate),
        seed: options.seed,
        train_time: task.train_time,
        val_time: task.val_time,
        model: options.model,
        network,
        parameters: built.num_params(),
        device: format!("{device:?}"),
        prefetch: options.prefetch,
        readers: burn_om4::store::reader_threads()?,
        rank: options.rank.unwrap_or(0),
        world: options.world.unwrap_or(1),
    };
    ensure!(config.epochs > 0, "--epochs must be at least 1");
    ensure!(config.lr > 0.0, "--lr must be above 0");
    Ok((built, config))
}

/// A few lines on what is about to happen.
fn facts(task: &Task, loaders: &Loaders, config: &RunConfig) -> Result<String> {
    let dataset = loaders.train.batcher().dataset();
    let context = dataset.context(0);
    let (time, shape) = (context.time(), context.shape());
    let first = loaders.train.schedule().epoch(0).batch(0);
    let windows: Vec<_> = first
        .iter()
        .filter_map(|i| dataset.window(*i as usize))
        .collect();
    let plan = dataset.plan(&windows)?;
    let validation = loaders.validation.batcher().dataset().windows();
    let (shown, unique) = (plan.touched_planes(), plan.unique_planes());
    let fewer = match shown > unique {
        true => format!(" ({:.1} times fewer)", shown as f64 / unique as f64),
        false => String::new(),
    };
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let lines = [
        (
            "store",
            format!(
                "{}, {} x {} cells, {} rows from {} to {}",
                task.paths.data.display(),
                shape.ny,
                shape.nx,
                time.len(),
                time.date(0),
                time.date(time.len() - 1),
            ),
        ),
        ("predicted", describe(&task.prognostic)),
        ("given", describe(&task.boundary)),
        (
            "windows",
            format!(
                "{} in and out, {}, stride {}: {} in {}, {validation} to validate in {}",
                plural(config.history + 1, "time"),
                plural(config.steps, "step"),
                config.stride,
                dataset.windows(),
                task.train_time,
                task.val_time,
            ),
        ),
        (
            "batches",
            format!(
                "{} of {}; the first shows {shown} planes and reads {unique}{fewer}",
                loaders.train.batches(),
                plural(config.batch_size, "window"),
            ),
        ),
        (
            "network",
            format!(
                "widths {:?}, {} parameters, on {}",
                config.network.widths, config.parameters, config.device,
            ),
        ),
        (
            "recipe",
            format!(
                "{}, learning rate {}, seed {}",
                plural(config.epochs, "epoch"),
                config.lr,
                config.seed,
            ),
        ),
    ];
    let lines = lines.map(|(what, text)| format!("{what:<10} {text}"));
    Ok(lines.join("\n"))
}

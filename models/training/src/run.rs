//! A run from options to report.

use crate::before;
use crate::checkpoint::Checkpoints;
use crate::config::RunConfig;
use crate::data::{Defaults, Loaders, PUBLISHED, Task};
use crate::demo;
use crate::epochs::{CheckpointPolicy, Trained, train};
use crate::facts::facts;
use crate::files;
use crate::network::{self, Size};
use crate::options::Options;
use crate::output::{Voice, note, warn};
use crate::pictures;
use crate::progress::Progress;
use crate::report::{ChannelSkill, LoaderReport, Loading, Report, loader_summary, skills, table};
use crate::signals::Stop;
use crate::trainer::write_weights;
use anyhow::{Result, ensure};
use burn::module::Module;
use burn::tensor::Device;
use burn_om4::Timeline;
use samudra::Samudra;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
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
/// Whatever cannot be opened, read, trained or written: before the first step where that can tell;
/// [`Interrupted`](crate::signals::Interrupted) when told to stop.
pub fn run(options: &Options, stop: &Stop) -> Result<Outcome> {
    let options = &options.clone().of_rank(|name| std::env::var(name).ok())?;
    if let Some(readers) = options.readers {
        burn_om4::store::set_reader_threads(readers)?;
    }
    let voice = options.voice();
    let device = options.device.open()?;
    if burn_om4::device::is_cpu(&device) {
        samudra::keep_freed_memory();
    }
    let task = match &options.data {
        Some(dir) => Task::new(dir, options, &PUBLISHED)?,
        None => Task::new(demo_store(voice)?, options, &SMALL_OCEAN)?,
    };
    let mut loaders = Loaders::open(&task, options, &device)?;
    let trace = options.trace.as_deref().map(Trace::to);
    if let Some(Trace { timeline, .. }) = &trace {
        loaders.train = loaders.train.with_timeline(timeline);
    }
    let (network, config) = prepare(&task, &loaders, options, &device)?;
    voice.say(&facts(&task, &loaders, &config)?);
    before::check_files(options)?;
    let (weighting, odd) = before::try_validation(&network, &loaders.validation, &device)?;
    let found = loaders.found();
    let mut warnings = [&options.warnings[..], &loaders.warnings()?, &found, &odd].concat();
    warnings.extend(before::single_values(&config.network, &loaders));
    warnings.iter().for_each(|warning| warn(warning));

    let started = Instant::now();
    let policy = CheckpointPolicy {
        checkpoints: Checkpoints::of(&options.out),
        every: options.save_every.map(NonZeroUsize::get),
        resume: options.resume,
        extend: options.extend,
        stop: stop.clone(),
    };
    let trained = match train(network, loaders, &config, &device, &policy, voice) {
        Ok(trained) => trained,
        Err(error) => {
            // The trace of a run that stopped is of use, too; the first failure is the one to return.
            if let Some(Err(second)) = trace.as_ref().map(Trace::write) {
                note(&format!("{second:#}"));
            }
            return Err(error);
        }
    };
    let loaders = &trained.loaders;
    let context = loaders.validation.batcher().dataset().context(0);
    let validation = skills(&trained.scores, context);
    warnings.extend(trained.found.iter().cloned());
    warnings.extend(without_ratio(&validation));
    let report = Report {
        validation,
        validation_windows: trained.scores.windows(),
        weighting,
        epochs: trained.epochs.clone(),
        extensions: trained.extensions.clone(),
        warnings,
        config,
        loader: LoaderReport {
            train: Loading::of(&loaders.train),
            validation: Loading::of(&loaders.validation),
        },
        seconds: started.elapsed().as_secs_f64(),
    };
    write(&trained, &report, options, trace.as_ref())?;
    Ok(Outcome {
        report,
        demo: options.data.is_none(),
    })
}

/// Channels whose validation error has nothing to be compared with. Said once training has shown it.
fn without_ratio(skills: &[ChannelSkill]) -> Option<String> {
    let still = |s: &&ChannelSkill| s.ratio.is_none() && s.persistence[0] == 0.0;
    let still: Vec<&str> = skills
        .iter()
        .filter(still)
        .map(|s| s.name.as_str())
        .collect();
    let warning = (!still.is_empty()).then(|| {
        format!(
            "persistence makes no error at lead 1 for {}: there is no ratio to it, and the mean over \
             channels leaves it out",
            still.join(", ")
        )
    })?;
    warn(&warning);
    Some(warning)
}

/// Writes what a run leaves, weights first. One file that cannot be written keeps none of the others from
/// being so.
fn write(
    trained: &Trained,
    report: &Report<RunConfig>,
    options: &Options,
    trace: Option<&Trace>,
) -> Result<()> {
    let mut failures = Vec::new();
    let mut files = Vec::new();
    let mut done = |result: Result<Vec<PathBuf>>| match result {
        Ok(written) => files.extend(written),
        Err(error) => failures.push(error),
    };
    let weights = options.out.join("samudra.safetensors");
    let written = files::put(&weights, |to| write_weights(&trained.network, to));
    done(written.map(|()| vec![weights]));
    let default = || options.out.join("report.json");
    let path = options.report.clone().unwrap_or_else(default);
    done(report.write(&path).map(|()| vec![path]));
    if let Some(trace) = trace {
        done(trace.write().map(|()| vec![trace.file.to_owned()]));
    }
    done(pictures::draw(
        &trained.network,
        &trained.loaders.validation,
        report,
        options,
    ));
    let voice = options.voice();
    voice.say(&format!("\n{}", table(&report.validation)));
    voice.say(&loader_summary(&report.loader));
    for file in files {
        voice.say(&format!("wrote {}", file.display()));
    }
    let mut failures = failures.into_iter();
    let Some(first) = failures.next() else {
        return Ok(());
    };
    failures.for_each(|other| note(&format!("{other:#}")));
    Err(first.context("the training is done, but not all of its files are written"))
}

/// A timeline, and the file it is for.
struct Trace<'a> {
    timeline: Timeline,
    file: &'a Path,
}

impl<'a> Trace<'a> {
    /// Starts now.
    fn to(file: &'a Path) -> Self {
        let timeline = Timeline::start();
        Self { timeline, file }
    }

    fn write(&self) -> Result<()> {
        files::put(self.file, |to| Ok(self.timeline.write(to)?))
    }
}

/// The small ocean's own channels and years.
const SMALL_OCEAN: Defaults = Defaults {
    prognostic: demo::PROGNOSTIC,
    boundary: demo::BOUNDARY,
    times: Some([demo::TRAIN, demo::VALIDATION]),
};

/// Writes the small ocean unless it is there.
fn demo_store(voice: Voice) -> Result<&'static Path> {
    let dir = Path::new(DEMO);
    let progress = Progress::new("making an ocean", 100, voice);
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
        prognostic: task.dataset.prognostic.clone(),
        boundary: task.dataset.boundary.clone(),
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
        time_name: options.time_name.clone(),
        lenient: options.lenient,
        max_nan_share: options.max_nan_share,
        rank: options.rank.unwrap_or(0),
        world: options.world.unwrap_or(1),
    };
    ensure!(config.epochs > 0, "--epochs must be at least 1");
    ensure!(
        config.lr > 0.0 && config.lr.is_finite(),
        "--lr must be above 0 and finite"
    );
    Ok((built, config))
}

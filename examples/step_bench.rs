//! Times a training step of a Samudra network on the CPU, beside a matrix product of the same run.
//!
//! ```sh
//! cargo run --release --example step_bench -- --model model.json --threads 2 --json step.json
//! ```
//!
//! The model file holds a [`SamudraConfig`]; weights, inputs and labels are drawn from the seed, and
//! a fifth of the cells is land. A step is forward, backward, clipping and Adam. Steps and matrix
//! products take turns, so that both see the same machine; a rate is GFLOP per second of processor
//! time, all threads together. The operations of a step are those of its convolutions: twice the
//! multiplications forward, as many again for each of the two gradients, but none for the gradient
//! of the network's input. What the system counts is read from `/proc`, so this needs Linux.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Bool, Device, Tensor, TensorData};
use clap::Parser;
use samudra::{
    Grid, Loss, Metric, RolloutStep, Samudra, SamudraConfig, clip_total_norm, keep_freed_memory,
};
use samudra_training::optimiser::adam;
use serde::Serialize;

/// Time a training step on the CPU.
#[derive(Parser)]
struct Args {
    /// JSON file of a `SamudraConfig`.
    #[arg(long)]
    model: PathBuf,
    /// Rows and columns of the grid.
    #[arg(long, num_args = 2, default_values_t = [180, 360])]
    grid: Vec<usize>,
    /// Samples in a batch.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Threads of the pool; as many as there are processors when absent.
    #[arg(long)]
    threads: Option<usize>,
    /// Seed of weights and data.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rounds that are measured, after two that are not.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// File to write the numbers to.
    #[arg(long)]
    json: PathBuf,
}

/// The least processor time of a round, seconds: the system counts in hundredths.
const ROUND: f64 = 0.5;

fn main() -> Result<()> {
    let args = Args::parse();
    keep_freed_memory();
    ensure!(args.rounds > 0, "no round to measure");
    if let Some(threads) = args.threads {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build_global()
            .context("starting the threads")?;
    }
    let report = Bench::new(&args)?.run(args.rounds)?;
    let text = serde_json::to_string_pretty(&report)?;
    std::fs::write(&args.json, format!("{text}\n"))
        .with_context(|| format!("writing {}", args.json.display()))?;
    println!("{text}");
    Ok(())
}

/// What the run found.
#[derive(Serialize)]
struct Report {
    threads: usize,
    parameters: usize,
    /// One step's forward pass; the loss is part of it.
    forward: Part,
    /// A whole step.
    step: Part,
    /// Matrix products, in turns with the steps.
    matrix_product: Part,
    /// The step's rate over the matrix product's.
    step_to_matrix_product: f64,
    /// Share of the step's processor time on the calling thread, while the others wait.
    one_thread_alone: f64,
    /// Pages that the system had to provide per step, after the second one.
    page_faults_per_step: f64,
    /// Largest resident memory, bytes.
    peak_memory: u64,
    /// Loss of the last step.
    loss: f32,
}

/// Time of a part of the work, per step or product.
#[derive(Serialize)]
struct Part {
    wall_seconds: f64,
    cpu_seconds: f64,
    gflop: f64,
    gflop_per_cpu_second: f64,
}

impl Part {
    fn new(cost: &Cost, times: usize, gflop: f64) -> Self {
        let cpu_seconds = cost.cpu / times as f64;
        Self {
            wall_seconds: cost.wall / times as f64,
            cpu_seconds,
            gflop,
            gflop_per_cpu_second: gflop / cpu_seconds,
        }
    }
}

struct Bench {
    network: Option<Samudra>,
    optimiser: ModuleOptimizer,
    start: Tensor<4>,
    step: RolloutStep,
    mask: Tensor<3, Bool>,
    square: Tensor<2>,
    gflop: Gflop,
    parameters: usize,
    loss: f32,
}

impl Bench {
    fn new(args: &Args) -> Result<Self> {
        let path = args.model.display();
        let text =
            std::fs::read_to_string(&args.model).with_context(|| format!("reading {path}"))?;
        let config: SamudraConfig =
            serde_json::from_str(&text).with_context(|| format!("reading {path}"))?;
        ensure!(
            config.perceiver.is_none(),
            "{path}: operations are counted for U-Nets only"
        );
        let device = Device::flex();
        let (ny, nx) = (args.grid[0], args.grid[1]);
        let network = config.init(&Grid::new(ny, nx), args.seed, &device.clone().autodiff())?;
        let mut seed = args.seed;
        let mut plane = |channels| {
            seed += 1;
            noise([args.batch, channels, ny, nx], seed, &device)
        };
        let start = plane(config.out_channels());
        let step = RolloutStep {
            boundary: plane(config.boundary_channels()),
            label: plane(config.out_channels()),
        };
        let mask = noise([1, config.out_channels(), ny, nx], seed + 1, &device);
        Ok(Self {
            gflop: Gflop::of(&network, args.batch, ny, nx),
            parameters: network.num_params(),
            network: Some(network),
            optimiser: adam(),
            start,
            step,
            mask: mask.squeeze_dim::<3>(0).greater_elem(-0.6),
            square: noise([SIDE, SIDE], 1, &device),
            loss: f32::NAN,
        })
    }

    fn run(mut self, rounds: usize) -> Result<Report> {
        self.one_step()?;
        // The second step is the first with an optimiser state.
        let [_, whole] = self.one_step()?;
        let steps = (ROUND / whole.cpu.max(1e-3)).ceil().max(1.0) as usize;
        let products = (ROUND / self.product().cpu.max(1e-3)).ceil().max(1.0) as usize;
        let [mut forward, mut step, mut product] = [Cost::default(); 3];
        for _ in 0..rounds {
            for _ in 0..products {
                product.add(&self.product());
            }
            for _ in 0..steps {
                let [first, whole] = self.one_step()?;
                forward.add(&first);
                step.add(&whole);
            }
        }
        let times = rounds * steps;
        let matrix_product = 2.0 * (SIDE as f64).powi(3) / 1e9;
        let matrix_product = Part::new(&product, rounds * products, matrix_product);
        let whole = Part::new(&step, times, self.gflop.step);
        Ok(Report {
            threads: rayon::current_num_threads(),
            parameters: self.parameters,
            forward: Part::new(&forward, times, self.gflop.forward),
            step_to_matrix_product: whole.gflop_per_cpu_second
                / matrix_product.gflop_per_cpu_second,
            step: whole,
            matrix_product,
            one_thread_alone: step.calling_thread / step.cpu,
            page_faults_per_step: step.faults / times as f64,
            peak_memory: peak_memory(),
            loss: self.loss,
        })
    }

    /// The cost of the forward pass, and of the whole step.
    fn one_step(&mut self) -> Result<[Cost; 2]> {
        let network = self
            .network
            .take()
            .context("a step that failed is the last")?;
        let (start, step, mask) = (self.start.clone(), self.step.clone(), self.mask.clone());
        let begin = Cost::now();
        let loss = network
            .rollout_loss(start, [step], mask, &Loss::Plain(Metric::Mse), None)
            .total;
        let forward = begin.until_now();
        let mut gradients = GradientsParams::from_grads(loss.backward(), &network);
        clip_total_norm(&network, &mut gradients, 1.0)?;
        let network = self.optimiser.step(1e-4, network, gradients);
        self.loss = loss.inner().into_scalar::<f32>();
        let whole = begin.until_now();
        self.network = Some(network);
        Ok([forward, whole])
    }

    fn product(&self) -> Cost {
        let begin = Cost::now();
        let product = self.square.clone().matmul(self.square.clone());
        let cost = begin.until_now();
        drop(product);
        cost
    }
}

/// Rows and columns of the square matrices that are multiplied.
const SIDE: usize = 1536;

/// Values between -1 and 1, the same for a seed everywhere.
fn noise<const D: usize>(shape: [usize; D], seed: u64, device: &Device) -> Tensor<D> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
        })
        .collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Operations of a step, in 10^9.
struct Gflop {
    forward: f64,
    step: f64,
}

impl Gflop {
    /// Counted from the network's weights: each one meets every cell of its level once.
    fn of(network: &Samudra, batch: usize, ny: usize, nx: usize) -> Self {
        let levels = network.config().widths.len();
        let mut sum = Self {
            forward: 0.0,
            step: 0.0,
        };
        for parameter in network.parameters() {
            if parameter.shape.len() < 2 || !parameter.name.ends_with("weight") {
                continue;
            }
            let block = block_of(&parameter.name);
            let level = block.map_or(0, |block| block.min(2 * levels - block));
            let cells = (batch * (ny >> level) * (nx >> level)) as f64;
            let forward = 2.0 * cells * parameter.shape.iter().product::<usize>() as f64 / 1e9;
            // Nobody asks for the gradient of the network's input.
            let name = &parameter.name;
            let input = block == Some(0) && (name.contains("convblock.0") || name.contains("skip"));
            sum.forward += forward;
            sum.step += if input { 2.0 } else { 3.0 } * forward;
        }
        sum
    }
}

/// Which block of the U-Net a parameter belongs to, counted from the input; `None` for the decoder.
fn block_of(name: &str) -> Option<usize> {
    let layer = name.strip_prefix("unet.layers.")?.split('.').next()?;
    Some(layer.parse::<usize>().ok()? / 2)
}

/// What the process used.
#[derive(Clone, Copy, Default)]
struct Cost {
    wall: f64,
    cpu: f64,
    calling_thread: f64,
    faults: f64,
}

/// A reading of the clocks.
struct Reading {
    at: Instant,
    cost: Cost,
}

impl Cost {
    fn now() -> Reading {
        let process = Stat::of("/proc/self/stat");
        Reading {
            cost: Self {
                wall: 0.0,
                cpu: process.seconds,
                calling_thread: Stat::of("/proc/thread-self/stat").seconds,
                faults: process.faults,
            },
            at: Instant::now(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.wall += other.wall;
        self.cpu += other.cpu;
        self.calling_thread += other.calling_thread;
        self.faults += other.faults;
    }
}

impl Reading {
    fn until_now(&self) -> Cost {
        let wall = self.at.elapsed().as_secs_f64();
        let now = Cost::now().cost;
        Cost {
            wall,
            cpu: now.cpu - self.cost.cpu,
            calling_thread: now.calling_thread - self.cost.calling_thread,
            faults: now.faults - self.cost.faults,
        }
    }
}

struct Stat {
    seconds: f64,
    faults: f64,
}

impl Stat {
    /// Fields 10 (minor faults), 14 and 15 (user and system time, hundredths of a second) of
    /// proc_pid_stat(5); what the system does not tell is NaN.
    fn of(path: &str) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        // The second field is a name in brackets, which may hold anything.
        let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = rest.split(' ').collect();
        let field = |number: usize| {
            let field = fields.get(number - 3).and_then(|f| f.parse().ok());
            field.unwrap_or(f64::NAN)
        };
        Self {
            seconds: (field(14) + field(15)) / 100.0,
            faults: field(10),
        }
    }
}

/// Largest resident memory so far, bytes; 0 where the system does not say.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_network_is_measured_and_its_operations_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let config = SamudraConfig::tiny(2, 1)
            .with_history(0)
            .with_widths(vec![4, 6]);
        let model = folder.path().join("model.json");
        std::fs::write(&model, serde_json::to_string(&config).unwrap()).unwrap();
        let args = Args {
            model,
            grid: vec![6, 8],
            batch: 2,
            threads: None,
            seed: 1,
            rounds: 1,
            json: folder.path().join("unused.json"),
        };
        let bench = Bench::new(&args).unwrap();
        // Blocks of in, out at 48, 12, 2, 12 and 48 cells, with an inner width of twice in: two
        // kernels of 9, one of 1, and one more on the way around where in is not out. The decoder.
        let blocks = [(3, 4, 48), (4, 6, 12), (6, 6, 2), (6, 4, 12), (4, 4, 48)];
        let forward = blocks.map(|(input, output, cells)| {
            let around = if input == output { 0 } else { input * output };
            let inner = 2 * input;
            cells * (9 * input * inner + 9 * inner * inner + inner * output + around)
        });
        let forward = 2 * 2 * (forward.iter().sum::<usize>() + 48 * 9 * 4 * 2);
        // Two kernels see the input, whose gradient nobody asks for.
        let input = 2 * 2 * 48 * (9 * 3 * 6 + 3 * 4);
        let near = |found: f64, count: usize| (found * 1e9 - count as f64).abs() < 0.5;
        assert!(near(bench.gflop.forward, forward));
        assert!(near(bench.gflop.step, 3 * forward - input));

        let report = bench.run(args.rounds).unwrap();
        assert!(report.loss.is_finite() && report.parameters > 0);
        assert!(report.step.cpu_seconds >= report.forward.cpu_seconds);
    }
}

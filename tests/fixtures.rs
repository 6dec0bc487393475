//! Every public fixture case, from every store that it lists, bit for bit against the batches of
//! the original Python, through the public loader API.

mod common;

use burn::data::dataloader::DataLoader;
use burn::tensor::{Device, Tensor};
use burn_om4::testing::ulps;
use burn_om4::{
    Channel, DatasetOptions, Date, DateRange, Inputs, MaskOrder, ModelBatch, OceanBatcher,
    OceanDataset, OceanLoader, Om4Paths, Order, PrefetchOptions, ReadMethod, Role, Schedule,
    ScheduleOptions, Strictness, WindowOptions,
};
use common::stores::methods;
use serde::Deserialize;
#[cfg(feature = "vulkan")]
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Manifest {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    prognostic: Vec<String>,
    boundary: Vec<String>,
    hist: usize,
    steps: usize,
    stride: usize,
    indices: Vec<u64>,
    normalize_before_mask: bool,
    masked_fill_value: f32,
    time_slice: Option<[Date; 2]>,
    stores: Vec<PathBuf>,
    label_stores: Option<Vec<PathBuf>>,
    length: usize,
    input_time_indices: Vec<Vec<Vec<usize>>>,
    label_time_indices: Vec<Vec<Vec<usize>>>,
    tolerance: String,
}

impl Case {
    fn derived(&self) -> bool {
        self.boundary.iter().any(|c| c == "hfds_anomalies")
    }

    fn open(&self, root: &Path, store: usize, io: ReadMethod) -> burn_om4::Result<OceanDataset> {
        let channels = |names: &[String]| -> Vec<Channel> {
            names.iter().map(|n| n.parse().unwrap()).collect()
        };
        let window = WindowOptions::default()
            .with_history(self.hist)
            .with_steps(self.steps)
            .with_stride(self.stride);
        let order = match self.normalize_before_mask {
            true => MaskOrder::NormaliseFirst,
            false => MaskOrder::MaskFirst,
        };
        let mut options = DatasetOptions::new(channels(&self.prognostic), channels(&self.boundary))
            .with_window(window)
            .with_mask_order(order)
            .with_masked_fill_value(self.masked_fill_value)
            .with_inputs(Inputs::All)
            .with_strictness(Strictness::Lenient)
            .with_io(io);
        if let Some([start, end]) = self.time_slice {
            options = options.with_time(DateRange { start, end });
        }
        let paths = Om4Paths::in_dir(root.join(&self.stores[store]));
        match &self.label_stores {
            None => OceanDataset::open(&paths, &options),
            Some(labels) => {
                let labels = Om4Paths::in_dir(root.join(&labels[store % labels.len()]));
                OceanDataset::open_with_labels(&paths, &labels, &options)
            }
        }
    }

    fn batcher(&self, root: &Path, store: usize, io: ReadMethod) -> OceanBatcher {
        let dataset = self.open(root, store, io).unwrap();
        assert_eq!(dataset.windows(), self.length, "{}", self.id);
        OceanBatcher::new(dataset)
    }

    fn batch(&self, batcher: &OceanBatcher, device: &Device) -> (OceanLoader, ModelBatch) {
        let spec = ScheduleOptions::default()
            .with_order(Order::Custom(vec![self.indices.clone()]))
            .with_batch_size(self.indices.len());
        let (batcher, prefetch) = (batcher.clone(), PrefetchOptions::default());
        let schedule = Schedule::new(spec, batcher.dataset().groups()).unwrap();
        let loader = OceanLoader::new(batcher, schedule, prefetch, device).unwrap();
        let batch = loader.iter().next().unwrap().unwrap();
        (loader, batch)
    }
}

fn cases() -> Option<(PathBuf, Vec<Case>)> {
    let root = common::fixtures("batches")?;
    let text = std::fs::read_to_string(root.join("manifest.json")).unwrap();
    let manifest: Manifest = serde_json::from_str(&text).unwrap();
    assert!(manifest.cases.len() >= 22);
    Some((root, manifest.cases))
}

fn values(steps: impl Iterator<Item = Tensor<4>>) -> Vec<f32> {
    steps
        .flat_map(|t| t.into_data().try_to_vec::<f32>().unwrap())
        .collect()
}

const ROLES: [(Role, &str); 3] = [
    (Role::Input, "input"),
    (Role::Boundary, "boundary"),
    (Role::Label, "label"),
];

/// All that a batch shows in one role, step by step.
fn shown(batch: &ModelBatch, role: Role) -> Vec<f32> {
    let steps = (0..batch.steps()).map(|k| match role {
        Role::Input => batch.input(k).unwrap(),
        Role::Boundary => batch.boundary(k),
        Role::Label => batch.label(k),
    });
    values(steps)
}

fn check(case: &Case, name: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{} {name}", case.id);
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        let near = match case.tolerance.as_str() {
            "exact" => ulps(f, e) == 0,
            // Statistics in float64: the original then calculates in float64.
            "atol 5e-7 + rtol 3e-7" => (f - e).abs() <= 5e-7 + 3e-7 * e.abs(),
            other => panic!("unknown tolerance {other}"),
        };
        assert!(
            near,
            "{} {name} value {i}: expected {e:?}, found {f:?}",
            case.id
        );
    }
}

fn check_batch(case: &Case, root: &Path, batch: &ModelBatch) {
    let expected = |name: &str| {
        let path = root
            .join("expected")
            .join(&case.id)
            .join(format!("{name}.npy"));
        common::read_npy::<f32>(&path)
    };
    let steps = || 0..batch.steps();
    for (role, name) in ROLES {
        check(case, name, &shown(batch, role), &expected(name));
    }
    let mask = root.join("expected").join(&case.id).join("label_mask.npy");
    let mask: Vec<bool> = common::read_npy::<u8>(&mask)
        .iter()
        .map(|&m| m != 0)
        .collect();
    let found: Vec<bool> = batch.label_mask().into_data().iter::<bool>().collect();
    assert_eq!(found, mask, "{}", case.id);

    let window = batch.context().window();
    let rows = |of: &dyn Fn(usize, usize) -> Vec<usize>| -> Vec<Vec<Vec<usize>>> {
        steps()
            .map(|k| batch.windows().iter().map(|w| of(w.start, k)).collect())
            .collect()
    };
    assert_eq!(
        rows(&|s, k| window.input_rows(s, k).collect()),
        case.input_time_indices
    );
    assert_eq!(
        rows(&|s, k| window.label_rows(s, k).collect()),
        case.label_time_indices
    );
}

#[test]
fn every_case_equals_the_original_bit_for_bit_on_the_cpu() {
    let Some((root, cases)) = cases() else { return };
    let mut compared = 0;
    for case in cases.iter().filter(|c| !c.derived()) {
        for store in 0..case.stores.len() {
            compare(case, &root, store, ReadMethod::default());
            compared += 1;
        }
    }
    assert!(compared >= 90, "only {compared} batches compared");
}

fn compare(case: &Case, root: &Path, store: usize, io: ReadMethod) {
    let (loader, batch) = case.batch(&case.batcher(root, store, io), &Device::flex());
    check_batch(case, root, &batch);
    let counters = loader.counters();
    assert_eq!(
        counters.planes_read, counters.unique_planes,
        "{} by {io}",
        case.id
    );
    assert_eq!(counters.missing_chunks, 0, "{} by {io}", case.id);
}

#[test]
fn every_case_equals_the_original_by_every_way_of_reading() {
    let Some((root, cases)) = cases() else { return };
    let mut compared = 0;
    let all = methods(&root.join("stores/A/flat_v2_none/OM4.zarr"));
    // The default has a test of its own.
    for io in all.into_iter().filter(|io| *io != ReadMethod::default()) {
        for case in cases.iter().filter(|c| !c.derived()) {
            for store in 0..case.stores.len() {
                compare(case, &root, store, io);
                compared += 1;
            }
        }
    }
    assert!(compared >= 90, "only {compared} batches compared");
}

/// The device lane against the CPU path, which equals the original. Vulkan allows a division 2.5 ulp;
/// what NaN and infinities became is no quotient and has to be the same.
#[cfg(feature = "vulkan")]
#[test]
fn every_case_and_store_through_the_device_lane_equals_the_cpu() {
    let Some((root, cases)) = cases() else { return };
    let Some(device) = common::vulkan() else {
        return;
    };
    let (mut compared, mut own_labels) = (0, 0);
    let (mut with_nan, mut with_infinities) = (BTreeSet::new(), BTreeSet::new());
    for case in cases.iter().filter(|c| !c.derived()) {
        for store in 0..case.stores.len() {
            let batcher = case.batcher(&root, store, ReadMethod::default());
            let (loader, cpu) = case.batch(&batcher, &Device::flex());
            let (on_device, batch) = case.batch(&batcher, &device);
            let groups = 2 + u64::from(cpu.context().has_own_labels());
            assert_eq!(on_device.counters().uploads, groups, "one copy each");
            for (role, name) in ROLES {
                let (cpu, found) = (shown(&cpu, role), shown(&batch, role));
                assert_eq!(found.len(), cpu.len(), "{} {name}", case.id);
                for (i, (&c, &f)) in cpu.iter().zip(&found).enumerate() {
                    let infinite = c.abs() == f32::MAX;
                    if infinite {
                        with_infinities.insert(&case.id);
                    }
                    let near = if infinite || c == 0.0 {
                        f == c
                    } else {
                        ulps(f, c) <= 3
                    };
                    let place = || format!("{} {} {name}", case.id, case.stores[store].display());
                    assert!(near, "{} value {i}: expected {c:?}, found {f:?}", place());
                }
            }
            let masks = [cpu.label_mask(), batch.label_mask()];
            let [of_cpu, found] = masks.map(|m| m.into_data().iter::<bool>().collect::<Vec<_>>());
            assert_eq!(found, of_cpu, "{}", case.id);
            if loader.counters().nan_in_ocean > 0 {
                with_nan.insert(&case.id);
            }
            own_labels += u32::from(cpu.context().has_own_labels());
            compared += 1;
        }
    }
    println!("{compared} stores; NaN in {with_nan:?}, infinities in {with_infinities:?}");
    assert!(compared >= 90, "only {compared} stores compared");
    assert!(!with_nan.is_empty() && !with_infinities.is_empty() && own_labels > 0);
}

#[test]
fn derived_channels_are_refused_by_name() {
    let Some((root, cases)) = cases() else { return };
    for case in cases.iter().filter(|c| c.derived()) {
        let error = case.open(&root, 0, ReadMethod::default()).err().unwrap();
        assert!(error.to_string().contains("hfds_anomalies"), "{error}");
    }
}

//! Every public fixture case, from every store that it lists, bit for bit against the batches of
//! the original Python, through the public loader API.

use burn::data::dataloader::DataLoader;
use burn::tensor::{Device, Tensor};
use burn_om4::testing::ulps;
use burn_om4::{ModelBatch, OceanBatcher, OceanLoader, ReadMethod, Role};
use om4_test_support::fixtures::{GoldenCase, golden};
use om4_test_support::stores::methods;
#[cfg(feature = "vulkan")]
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn batcher(golden: &GoldenCase, root: &Path, store: usize, io: ReadMethod) -> OceanBatcher {
    let dataset = golden.case.open(root, store, io).unwrap();
    assert_eq!(
        dataset.windows(),
        golden.expected.length,
        "{}",
        golden.case.id
    );
    OceanBatcher::new(dataset)
}

fn batch(
    golden: &GoldenCase,
    batcher: &OceanBatcher,
    device: &Device,
) -> (OceanLoader, ModelBatch) {
    let loader = golden.case.loader(batcher.clone(), device).unwrap();
    let batch = loader.iter().next().unwrap().unwrap();
    (loader, batch)
}

fn cases() -> Option<(PathBuf, Vec<GoldenCase>)> {
    let (root, manifest) = golden()?;
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

fn check(golden: &GoldenCase, name: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{} {name}", golden.case.id);
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        let near = match golden.expected.tolerance.as_str() {
            "exact" => ulps(f, e) == 0,
            // Statistics in float64: the original then calculates in float64.
            "atol 5e-7 + rtol 3e-7" => (f - e).abs() <= 5e-7 + 3e-7 * e.abs(),
            other => panic!("unknown tolerance {other}"),
        };
        assert!(
            near,
            "{} {name} value {i}: expected {e:?}, found {f:?}",
            golden.case.id
        );
    }
}

fn check_batch(golden: &GoldenCase, root: &Path, batch: &ModelBatch) {
    let expected = |name: &str| {
        let path = root
            .join("expected")
            .join(&golden.case.id)
            .join(format!("{name}.npy"));
        om4_test_support::read_npy::<f32>(&path)
    };
    let steps = || 0..batch.steps();
    for (role, name) in ROLES {
        check(golden, name, &shown(batch, role), &expected(name));
    }
    let mask = root
        .join("expected")
        .join(&golden.case.id)
        .join("label_mask.npy");
    let mask: Vec<bool> = om4_test_support::read_npy::<u8>(&mask)
        .iter()
        .map(|&m| m != 0)
        .collect();
    let found: Vec<bool> = batch.label_mask().into_data().iter::<bool>().collect();
    assert_eq!(found, mask, "{}", golden.case.id);

    let window = batch.context().window();
    let rows = |of: &dyn Fn(usize, usize) -> Vec<usize>| -> Vec<Vec<Vec<usize>>> {
        steps()
            .map(|k| batch.windows().iter().map(|w| of(w.start, k)).collect())
            .collect()
    };
    assert_eq!(
        rows(&|s, k| window.input_rows(s, k).collect()),
        golden.expected.input_time_indices
    );
    assert_eq!(
        rows(&|s, k| window.label_rows(s, k).collect()),
        golden.expected.label_time_indices
    );
}

#[test]
fn every_case_equals_the_original_bit_for_bit_on_the_cpu() {
    let Some((root, cases)) = cases() else { return };
    let mut compared = 0;
    for golden in &cases {
        for store in 0..golden.case.stores.len() {
            compare(golden, &root, store, ReadMethod::default());
            compared += 1;
        }
    }
    assert!(compared >= 90, "only {compared} batches compared");
}

fn compare(golden: &GoldenCase, root: &Path, store: usize, io: ReadMethod) {
    let (loader, batch) = batch(golden, &batcher(golden, root, store, io), &Device::flex());
    check_batch(golden, root, &batch);
    let counters = loader.counters();
    assert_eq!(
        counters.planes_read, counters.unique_planes,
        "{} by {io}",
        golden.case.id
    );
    assert_eq!(counters.missing_chunks, 0, "{} by {io}", golden.case.id);
}

#[test]
fn every_case_equals_the_original_by_every_way_of_reading() {
    let Some((root, cases)) = cases() else { return };
    let mut compared = 0;
    let all = methods(&root.join("stores/A/flat_v2_none/OM4.zarr"));
    // The default has a test of its own.
    let others = all.iter().filter(|io| **io != ReadMethod::default());
    for &io in others {
        for golden in &cases {
            for store in 0..golden.case.stores.len() {
                compare(golden, &root, store, io);
                compared += 1;
            }
        }
    }
    // Mapping is never refused; of the others `methods` believes what it could not do either.
    let batches: usize = cases.iter().map(|g| g.case.stores.len()).sum();
    assert!(all.contains(&ReadMethod::Mmap) && batches >= 90);
    assert_eq!(compared, (all.len() - 1) * batches);
}

/// The device lane against the CPU path, which equals the original. Vulkan allows a division 2.5 ulp;
/// what NaN and infinities became is no quotient and has to be the same.
#[cfg(feature = "vulkan")]
#[test]
fn every_case_and_store_through_the_device_lane_equals_the_cpu() {
    let Some((root, cases)) = cases() else { return };
    let Some(device) = om4_test_support::vulkan() else {
        return;
    };
    let (mut compared, mut own_labels) = (0, 0);
    let (mut with_nan, mut with_infinities) = (BTreeSet::new(), BTreeSet::new());
    for golden in &cases {
        for store in 0..golden.case.stores.len() {
            let batcher = batcher(golden, &root, store, ReadMethod::default());
            let (loader, cpu) = batch(golden, &batcher, &Device::flex());
            let (on_device, batch) = batch(golden, &batcher, &device);
            let groups = 2 + u64::from(cpu.context().has_own_labels());
            assert_eq!(on_device.counters().uploads, groups, "one copy each");
            for (role, name) in ROLES {
                let (cpu, found) = (shown(&cpu, role), shown(&batch, role));
                assert_eq!(found.len(), cpu.len(), "{} {name}", golden.case.id);
                for (i, (&c, &f)) in cpu.iter().zip(&found).enumerate() {
                    let infinite = c.abs() == f32::MAX;
                    if infinite {
                        with_infinities.insert(&golden.case.id);
                    }
                    let near = if infinite || c == 0.0 {
                        f == c
                    } else {
                        ulps(f, c) <= 3
                    };
                    let place = || {
                        format!(
                            "{} {} {name}",
                            golden.case.id,
                            golden.case.stores[store].display()
                        )
                    };
                    assert!(near, "{} value {i}: expected {c:?}, found {f:?}", place());
                }
            }
            let masks = [cpu.label_mask(), batch.label_mask()];
            let [of_cpu, found] = masks.map(|m| m.into_data().iter::<bool>().collect::<Vec<_>>());
            assert_eq!(found, of_cpu, "{}", golden.case.id);
            if loader.counters().nan_in_ocean > 0 {
                with_nan.insert(&golden.case.id);
            }
            own_labels += u32::from(cpu.context().has_own_labels());
            compared += 1;
        }
    }
    println!("{compared} stores; NaN in {with_nan:?}, infinities in {with_infinities:?}");
    assert!(compared >= 90, "only {compared} stores compared");
    assert!(!with_nan.is_empty() && !with_infinities.is_empty() && own_labels > 0);
}

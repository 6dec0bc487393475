//! Random lives of loaders, and passes of a process that may open few files.

use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use burn_om4::synth::{Chunking, Codec};
use burn_om4::{DatasetOptions, OceanDataset, OceanLoader, Om4Paths, parse_channels};
use om4_test_support::soak::{quiet_panics, soak};

#[test]
fn iterators_deliver_what_they_must_whatever_is_done_with_the_others() {
    quiet_panics();
    let tally = soak(0, 1000);
    assert_eq!(tally.schedules, 1000);
    // All that can happen did.
    let least = tally
        .batches
        .min(tally.errors)
        .min(tally.ends)
        .min(tally.early_drops);
    assert!(least > 50, "{tally:?}");
}

const FEW: &str = "OM4_TEST_FEW_FILES";

/// Passes, whole and dropped early, two at a time.
fn passes(dir: &std::path::Path) {
    let names = |names| parse_channels(names).unwrap();
    let options = DatasetOptions::new(names("thetao_0,thetao_1,zos"), names("hfds"));
    let dataset = OceanDataset::open(&Om4Paths::in_dir(dir), &options).unwrap();
    let loader = OceanLoader::builder(dataset)
        .batch_size(2)
        .build(&Device::flex())
        .unwrap();
    for pass in 0..100 {
        let (mut one, mut other) = (loader.iter(), loader.iter());
        for _ in 0..pass % 5 {
            one.next().unwrap().unwrap();
        }
        drop(one);
        assert!(other.all(|batch| batch.is_ok()));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_may_open_64_files_reads_on() {
    if let Some(dir) = std::env::var_os(FEW) {
        return passes(dir.as_ref());
    }
    let name = "a_process_that_may_open_64_files_reads_on";
    for (codec, chunking) in [
        (Codec::None, Chunking::OneRow),
        (Codec::Zstd, Chunking::Shards(4)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        om4_test_support::faults::write(dir.path(), codec, chunking);
        let child = std::process::Command::new("sh")
            .args([
                "-c",
                "ulimit -n 64 && exec \"$0\" --exact \"$1\" --nocapture",
            ])
            .arg(std::env::current_exe().unwrap())
            .arg(name)
            .env(FEW, dir.path())
            .output()
            .unwrap();
        let text = [child.stdout, child.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(
            child.status.success() && text.contains("1 passed"),
            "{text}"
        );
    }
}

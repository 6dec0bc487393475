//! Channels that a store lacks.

use crate::{open, options, write};
use burn_om4::Channel;
use burn_om4::synth::field;
use std::fs;

#[test]
fn what_is_derived_is_kept_in_the_runs_folder_and_found_there() {
    let dir = tempfile::tempdir().unwrap();
    let plane = |channel: &Channel, row: usize, out: &mut [f32]| {
        let name = channel.name().len() as f32;
        for (i, value) in out.iter_mut().enumerate() {
            *value = name + (0.4 * row as f32 + i as f32).sin();
        }
    };
    write(dir.path(), 3 * 73, &mut field(|_, _, x| x > 0, plane));
    let mut options = options(dir.path(), &[]);
    options.boundary = Some("hfds,hfds_anomalies".parse().unwrap());
    let kept = || -> Vec<_> {
        let files = fs::read_dir(dir.path().join("out/derived")).unwrap();
        let files = files.map(|f| f.unwrap());
        files
            .map(|f| (f.file_name(), f.metadata().unwrap().modified().unwrap()))
            .collect()
    };
    let loaders = open(&options);
    let first = kept();
    assert_eq!(first.len(), 1);
    let constants = |of: &burn_om4::OceanLoader| {
        let constants = of
            .batcher()
            .dataset()
            .context(0)
            .boundary_constants(1)
            .clone();
        (constants.mean, constants.std)
    };
    let of_training = constants(&loaders.train);
    assert!(of_training.1 > 0.0);
    assert_eq!(constants(&loaders.validation), of_training);
    open(&options);
    assert_eq!(kept(), first, "it is not written again");
}

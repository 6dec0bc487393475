//! The Python lines of the chapter "Make a store with xarray" make a store that opens in strict mode and trains.
//!
//! They run by the Python that `OM4_PYTHON` names (then it must have what they need) or by `python3`, where
//! that has it.

use burn::tensor::{Device, Tensor};
use burn_om4::{
    DatasetOptions, OceanBatcher, OceanDataset, Om4Paths, WindowOptions, parse_channels,
};
use std::path::Path;
use std::process::Command;

const CHAPTER: &str = include_str!("../book/src/make-a-store.md");
const NEEDED: &str = "import cftime, dask, numpy, xarray, zarr";

/// The chapter's Python, in its order.
fn lines_of_the_chapter() -> String {
    let blocks = CHAPTER.split("```python\n").skip(1);
    let blocks: Vec<&str> = blocks.map(|b| b.split_once("```").unwrap().0).collect();
    assert!(blocks.len() >= 4, "{} blocks", blocks.len());
    blocks.concat()
}

/// Runs Python in `dir`; what it printed to its error output when it failed.
fn python(program: &str, code: &str, dir: &Path) -> Result<(), String> {
    let run = Command::new(program)
        .args(["-c", code])
        .current_dir(dir)
        .output();
    let run = run.map_err(|e| format!("{program}: {e}"))?;
    match run.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&run.stderr).into_owned()),
    }
}

#[test]
fn the_lines_of_the_book_make_a_store_that_is_read_in_strict_mode() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let named = std::env::var("OM4_PYTHON").ok();
    let program = named.as_deref().unwrap_or("python3");
    if let Err(e) = python(program, NEEDED, dir) {
        assert!(named.is_none(), "OM4_PYTHON: {e}");
        eprintln!("skipped: {program} lacks xarray, zarr, dask or cftime");
        return;
    }
    python(program, &lines_of_the_chapter(), dir).unwrap();

    let prognostic = "thetao_0,thetao_1,thetao_2,so_0,so_1,so_2,zos";
    let options = DatasetOptions::new(
        parse_channels(prognostic).unwrap(),
        parse_channels("hfds,").unwrap(),
    )
    .with_window(WindowOptions::default().with_history(0))
    .with_time("1958-01-01..1958-06-30".parse().unwrap());
    let dataset = OceanDataset::open(&Om4Paths::in_dir(dir), &options).unwrap();
    // 36 rows of five days up to the 27th of June.
    assert_eq!(dataset.windows(), 35);
    let warnings: Vec<&str> = dataset.warnings().collect();
    assert!(warnings.is_empty(), "{warnings:?}");
    let thetao = dataset.context(0).prognostic_position("thetao_2").unwrap();
    assert_eq!(dataset.context(0).unit(thetao), Some("degC"));

    // The labels of all windows are rows 1 to 35, of the 36 that the statistics are of.
    let windows = (0..35).map(|w| dataset.window(w).unwrap()).collect();
    let batch = OceanBatcher::new(dataset)
        .try_batch(windows, &Device::flex())
        .unwrap();
    let wet = batch.label_mask();
    let label = batch.label(0);
    for (channel, name) in prognostic.split(',').enumerate() {
        let wet: Tensor<2> = wet.clone().float().narrow(0, channel, 1).squeeze_dim(0);
        let cells = wet.clone().sum().into_scalar::<f32>();
        assert!(
            cells > 100.0 && cells < 600.0,
            "{name}: {cells} of 648 cells are ocean"
        );
        let values: Tensor<3> = label
            .clone()
            .slice([0..35, channel..channel + 1])
            .squeeze_dim(1);
        // Land is 0 after the mask.
        let sum = values.clone().sum().into_scalar::<f32>();
        let squares = (values.clone() * values).sum().into_scalar::<f32>();
        let (mean, square) = (sum / (35.0 * cells), squares / (35.0 * cells));
        assert!(
            mean.abs() < 0.05 && (square - 1.0).abs() < 0.05,
            "{name}: {mean}, {square}"
        );
    }
}

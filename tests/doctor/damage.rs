//! The damaged stores.

use crate::Place::{Array, Chunk, Row, Store};
use crate::{Case, Form, Place};
use burn_om4::survey::FindingKind::{self, *};
use om4_test_support::stores::{Bend, Writer};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const fn case(
    name: &'static str,
    form: Form,
    damage: fn(&Path),
    kind: FindingKind,
    array: &'static str,
    place: Place,
) -> Case {
    let follow = &[];
    Case {
        name,
        form,
        damage,
        kind,
        array,
        place,
        follow,
    }
}

impl Case {
    const fn and(mut self, follow: &'static [FindingKind]) -> Self {
        self.follow = follow;
        self
    }
}

pub(crate) fn all() -> Vec<Case> {
    let mut cases = chunks();
    cases.extend(files());
    cases.extend(axes());
    cases.extend(values());
    cases.extend(statistics());
    cases.extend(metadata());
    cases
}

fn data(dir: &Path) -> PathBuf {
    dir.join("OM4.zarr")
}

/// The third chunk of `zos`, whatever the format.
fn chunk(dir: &Path) -> PathBuf {
    let zos = data(dir).join("zos");
    let keys = ["3.0.0", "c/3/0/0", "c/0/0/0"].map(|key| zos.join(key));
    keys.into_iter().find(|key| key.exists()).unwrap()
}

fn cut(path: &Path, keep: impl Fn(usize) -> usize) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..keep(bytes.len())]).unwrap();
}

#[rustfmt::skip]
fn chunks() -> Vec<Case> {
    vec![
        case("a chunk is not there", Form::Plain, |dir| {
            fs::remove_file(chunk(dir)).unwrap();
        }, MissingChunk, "zos", Chunk("3.0.0")),
        case("the last chunk is not there", Form::Plain, |dir| {
            fs::remove_file(data(dir).join("zos/11.0.0")).unwrap();
        }, MissingChunk, "zos", Chunk("11.0.0")),
        case("a compact chunk is not there", Form::Compact, |dir| {
            fs::remove_file(data(dir).join("thetao/0.5.0.0")).unwrap();
        }, MissingChunk, "thetao", Chunk("0.5.0.0")),
        case("metadata ahead of the data", Form::Plain, |dir| {
            let days: Vec<f64> = (0..14).map(|i| 5.0 * f64::from(i)).collect();
            let writer = Writer::new(data(dir), false);
            writer.time(&days);
            for name in names(&data(dir), 12) {
                writer.edit(&name, |document| document["shape"][0] = json!(14));
            }
        }, MissingChunk, "zos", Chunk("13.0.0")),
        case("one byte short", Form::Plain, |dir| cut(&chunk(dir), |n| n - 1), Size, "zos", Chunk("3.0.0")),
        case("half a chunk", Form::Plain, |dir| cut(&chunk(dir), |n| n / 2), Size, "zos", Chunk("3.0.0")),
        case("an empty chunk", Form::Plain, |dir| cut(&chunk(dir), |_| 0), Size, "zos", Chunk("3.0.0")),
        case("an empty encoded chunk", Form::Zstd, |dir| cut(&chunk(dir), |_| 0), Size, "zos", Chunk("c/3/0/0")),
        case("a chunk too long", Form::Plain, |dir| {
            let mut bytes = fs::read(chunk(dir)).unwrap();
            bytes.extend([0; 4]);
            fs::write(chunk(dir), bytes).unwrap();
        }, Size, "zos", Chunk("3.0.0")),
        case("a blosc chunk cut", Form::Blosc, |dir| cut(&chunk(dir), |n| n / 2), Corrupt, "zos", Chunk("3.0.0")),
        case("a blosc header changed", Form::Blosc, |dir| {
            let mut bytes = fs::read(chunk(dir)).unwrap();
            bytes[4] ^= 0x40;
            fs::write(chunk(dir), bytes).unwrap();
        }, Corrupt, "zos", Chunk("3.0.0")),
        case("something else in a chunk's place", Form::Zstd, |dir| {
            fs::write(chunk(dir), "<html>404</html>").unwrap();
        }, Corrupt, "zos", Chunk("c/3/0/0")),
        case("a shard without its index", Form::Sharded, |dir| cut(&chunk(dir), |_| 10), Corrupt, "zos", Chunk("c/0/0/0")),
        case("a chunk that the metadata does not know", Form::Plain, |dir| {
            fs::copy(chunk(dir), data(dir).join("zos/12.0.0")).unwrap();
        }, Stray, "zos", Chunk("12.0.0")),
    ]
}

#[cfg(unix)]
#[rustfmt::skip]
fn files() -> Vec<Case> {
    use std::os::unix::fs::symlink;
    vec![
        case("a folder in a chunk's place", Form::Plain, |dir| {
            let chunk = chunk(dir);
            fs::remove_file(&chunk).unwrap();
            fs::create_dir(chunk).unwrap();
        }, Unreadable, "zos", Chunk("3.0.0")),
        case("a link to itself", Form::Plain, |dir| {
            let chunk = chunk(dir);
            fs::remove_file(&chunk).unwrap();
            symlink(&chunk, &chunk).unwrap();
        }, Unreadable, "zos", Chunk("3.0.0")),
        case("a link that leads nowhere", Form::Plain, |dir| {
            let chunk = chunk(dir);
            fs::remove_file(&chunk).unwrap();
            symlink("nowhere", chunk).unwrap();
        }, Unreadable, "zos", Chunk("3.0.0")),
        case("a pipe in a chunk's place", Form::Plain, |dir| {
            let chunk = chunk(dir);
            fs::remove_file(&chunk).unwrap();
            assert!(std::process::Command::new("mkfifo").arg(chunk).status().unwrap().success());
        }, Unreadable, "zos", Chunk("3.0.0")),
        case("a socket in a chunk's place", Form::Plain, |dir| {
            let chunk = chunk(dir);
            fs::remove_file(&chunk).unwrap();
            drop(std::os::unix::net::UnixListener::bind(chunk).unwrap());
        }, Unreadable, "zos", Chunk("3.0.0")),
    ]
}

#[cfg(not(unix))]
fn files() -> Vec<Case> {
    Vec::new()
}

/// Days of the rows, one of them changed.
fn times(dir: &Path, change: impl Fn(&mut [f64])) {
    let mut days: Vec<f64> = (0..Form::ROWS).map(|row| 5.0 * row as f64).collect();
    change(&mut days);
    Writer::new(data(dir), false).time(&days);
}

/// Replaces the level coordinate.
fn levels(dir: &Path, depths: &[f64]) {
    let writer = Writer::new(data(dir), false);
    let n = depths.len() as u64;
    writer.array(
        "lev",
        &["lev"],
        &[n],
        &[n],
        "float64",
        &Bend::default(),
        depths,
    );
}

#[rustfmt::skip]
fn axes() -> Vec<Case> {
    vec![
        case("time runs back", Form::Plain, |dir| times(dir, |days| days[5] = 1.0), Time, "time", Row(5)),
        case("a time twice", Form::Plain, |dir| times(dir, |days| days[5] = days[4]), Time, "time", Row(5)),
        case("a time that is none", Form::Plain, |dir| times(dir, |days| days[7] = f64::NAN), Time, "time", Row(7)),
        case("a gap", Form::Plain, |dir| times(dir, |days| days[6..].iter_mut().for_each(|d| *d += 20.0)), Gap, "time", Row(6)),
        case("no time", Form::Plain, |dir| fs::remove_dir_all(data(dir).join("time")).unwrap(), Time, "time", Array),
        case("times that were not written", Form::Plain, |dir| fs::remove_file(data(dir).join("time/0")).unwrap(), MissingChunk, "time", Chunk("0")),
        case("levels from the bottom", Form::Plain, |dir| levels(dir, &[10.0, 2.5]), Levels, "lev", Array).and(&[Metadata]),
        case("fewer levels than channels", Form::Plain, |dir| levels(dir, &[2.5]), Levels, "thetao_1", Array),
    ]
}

/// Changes the value of a cell of a plane that is stored plainly.
fn put(path: &Path, cell: usize, value: f32) {
    let mut bytes = fs::read(path).unwrap();
    bytes[cell * 4..cell * 4 + 4].copy_from_slice(&value.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

/// Changes the first ocean cell of `zos` in row 3.
fn spoil(dir: &Path, value: f32) {
    let wet = mask(dir, 0).iter().position(|wet| *wet != 0).unwrap();
    put(&chunk(dir), wet, value);
}

fn mask(dir: &Path, level: usize) -> Vec<u8> {
    fs::read(data(dir).join(format!("mask_{level}/0.0"))).unwrap()
}

#[rustfmt::skip]
fn values() -> Vec<Case> {
    vec![
        case("a mask inverted", Form::Plain, |dir| {
            let inverted: Vec<u8> = mask(dir, 0).iter().map(|wet| u8::from(*wet == 0)).collect();
            fs::write(data(dir).join("mask_0/0.0"), inverted).unwrap();
        }, Mask, "zos", Row(0)).and(&[NanInOcean, Constant, Statistics]),
        case("a mask without ocean", Form::Plain, |dir| {
            fs::write(data(dir).join("mask_1/0.0"), [0; 6 * 12]).unwrap();
            let land: Vec<u8> = [1f32; 6 * 12].iter().flat_map(|v| v.to_le_bytes()).collect();
            fs::write(data(dir).join("so_1/3.0.0"), land).unwrap();
        }, Mask, "so_1", Row(3)),
        case("a mask of other numbers", Form::Plain, |dir| {
            let twos: Vec<u8> = mask(dir, 0).iter().map(|wet| wet * 2).collect();
            fs::write(data(dir).join("mask_0/0.0"), twos).unwrap();
        }, Mask, "mask_0", Array),
        case("a mask that is not there", Form::Plain, |dir| {
            fs::remove_dir_all(data(dir).join("mask_1")).unwrap();
        }, Mask, "thetao_1", Array).and(&[NanInOcean, Statistics]),
        case("a cell without a value", Form::Plain, |dir| spoil(dir, f32::NAN), NanInOcean, "zos", Row(3)),
        case("an infinite value", Form::Plain, |dir| spoil(dir, f32::INFINITY), Infinite, "zos", Row(3)).and(&[Statistics]),
        case("a missing value that no attribute names", Form::Plain, |dir| spoil(dir, 1e20), Extreme, "zos", Row(3)).and(&[Statistics]),
        case("a plane without values", Form::Plain, |dir| {
            let nan: Vec<u8> = [f32::NAN; 6 * 12].iter().flat_map(|v| v.to_le_bytes()).collect();
            fs::write(chunk(dir), nan).unwrap();
        }, NanInOcean, "zos", Row(3)),
        case("one value throughout", Form::Plain, |dir| {
            let sevens: Vec<u8> = [7f32; 6 * 12].iter().flat_map(|v| v.to_le_bytes()).collect();
            for row in 0..Form::ROWS {
                fs::write(data(dir).join(format!("hfds/{row}.0.0")), &sevens).unwrap();
            }
        }, Constant, "hfds", Array),
    ]
}

fn std_of_zos(dir: &Path, std: f32) {
    fs::write(dir.join("OM4_stds.zarr/zos/0"), std.to_le_bytes()).unwrap();
}

#[rustfmt::skip]
fn statistics() -> Vec<Case> {
    vec![
        case("no deviations", Form::Plain, |dir| fs::remove_dir_all(dir.join("OM4_stds.zarr")).unwrap(), Statistics, "", Store),
        case("no mean of a channel", Form::Plain, |dir| fs::remove_dir_all(dir.join("OM4_means.zarr/zos")).unwrap(), Statistics, "zos", Array),
        case("a deviation of zero", Form::Plain, |dir| std_of_zos(dir, 0.0), Statistics, "zos", Array),
        case("a negative deviation", Form::Plain, |dir| std_of_zos(dir, -1.0), Statistics, "zos", Array),
        case("a deviation that is NaN", Form::Plain, |dir| std_of_zos(dir, f32::NAN), Statistics, "zos", Array),
        case("the deviation of another unit", Form::Plain, |dir| std_of_zos(dir, 1e3), Statistics, "zos", Array),
        case("a mean cut short", Form::Plain, |dir| cut(&dir.join("OM4_means.zarr/zos/0"), |_| 2), Size, "zos", Chunk("0")).and(&[Corrupt]),
        case("the mean of another channel", Form::Plain, |dir| {
            fs::copy(dir.join("OM4_means.zarr/hfds/0"), dir.join("OM4_means.zarr/thetao_0/0")).unwrap();
            fs::copy(dir.join("OM4_stds.zarr/hfds/0"), dir.join("OM4_stds.zarr/thetao_0/0")).unwrap();
        }, Statistics, "thetao_0", Array),
    ]
}

/// Arrays whose first extent is `n`.
fn names(store: &Path, n: u64) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(store).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Ok(bytes) = fs::read(store.join(&name).join(".zarray")) else {
            continue;
        };
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        if document["shape"][0] == n && document["shape"].as_array().unwrap().len() == 3 {
            names.push(name);
        }
    }
    names
}

#[rustfmt::skip]
fn metadata() -> Vec<Case> {
    vec![
        case("a copy of the metadata that is older", Form::Consolidated, |dir| {
            fs::write(data(dir).join("zos/.zattrs"), json!({"_ARRAY_DIMENSIONS": ["time", "y", "x"], "units": "km"}).to_string()).unwrap();
        }, Consolidated, "zos", Array),
        case("a document cut short", Form::Plain, |dir| cut(&data(dir).join("zos/.zarray"), |n| n / 2), Metadata, "", Store),
        case("dimensions by other names", Form::Plain, |dir| {
            fs::write(data(dir).join("zos/.zattrs"), json!({"_ARRAY_DIMENSIONS": ["time", "a", "b"]}).to_string()).unwrap();
        }, Metadata, "zos", Array).and(&[Statistics]),
        case("another grid", Form::Plain, |dir| {
            fs::remove_dir_all(data(dir).join("zos")).unwrap();
            let writer = Writer::new(data(dir), false);
            writer.flat("zos", Form::ROWS, 6, 11, &Bend::default());
        }, Metadata, "zos", Array),
        case("more rows than times", Form::Plain, |dir| {
            Writer::new(data(dir), false).edit("zos", |document| document["shape"][0] = json!(13));
        }, Metadata, "zos", Array).and(&[MissingChunk]),
        case("a codec that nobody knows", Form::Plain, |dir| {
            Writer::new(data(dir), false).edit("zos", |document| document["compressor"] = json!({"id": "nope"}));
        }, Metadata, "zos", Array),
        case("no group", Form::Plain, |dir| fs::remove_file(data(dir).join(".zgroup")).unwrap(), Metadata, "", Store),
    ]
}

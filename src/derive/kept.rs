//! A climatology in a file, so that a run that starts again need not compute it.
//!
//! ```text
//!  header (one line of JSON) ─ newline ─ mean, std, means (f32, little-endian) ─ digest (32 hex digits)
//! ```
//!
//! The header is what the file must be about, byte by byte: nothing in it is parsed, and no size is
//! taken from it.

use crate::derive::climatology::{Climatology, zeroed};
use crate::derive::days::Days;
use crate::error::{Error, ErrorKind, Result};
use crate::ocean::channel::Channel;
use crate::ocean::plane::PlaneShape;
use crate::order::fingerprint::FingerprintPart;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// The file of a climatology.
pub(crate) struct Kept {
    folder: PathBuf,
    name: String,
    header: String,
}

/// What a file held.
pub(crate) enum Found {
    Climatology(Climatology),
    /// There is no file.
    Nothing,
    /// Another content than its digest says, or than it should have: it is computed again.
    Damaged(String),
}

/// Values that are converted at once.
const PIECE: usize = 1 << 16;

impl Kept {
    /// The file in `folder` of the climatology that `channel` is derived by. `source` is a digest of
    /// what it was computed from.
    pub(crate) fn new(
        folder: &Path,
        channel: &Channel,
        source: &str,
        days: &Days,
        shape: PlaneShape,
    ) -> Self {
        let header = serde_json::json!({
            "file": "burn-om4 climatology 1",
            "channel": channel.name(),
            "source": source,
            "days": days.numbers,
            "ny": shape.ny,
            "nx": shape.nx,
        });
        Self {
            folder: folder.to_owned(),
            name: format!("{channel}-{:.16}.climatology", source),
            header: format!("{header}\n"),
        }
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// The file cannot be read, or memory ends.
    pub(crate) fn read(&self, days: &Days, shape: PlaneShape) -> Result<Found> {
        let cells = shape.cells();
        let path = self.path();
        let file = match File::open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            file => file.map_err(|e| self.refused("cannot read", e))?,
        };
        let mut means = zeroed(days.numbers.len() * cells)?;
        let [mut mean, mut std] = [[0.0]; 2];
        let read = || -> io::Result<Option<String>> {
            let mut reader = Reader::new(BufReader::new(file));
            if reader.bytes(self.header.len())? != self.header.as_bytes() {
                return Ok(Some("it is about something else".to_owned()));
            }
            for values in [&mut mean[..], &mut std, &mut means] {
                reader.values(values)?;
            }
            let digest = reader.digest.finish();
            let same = reader.bytes(digest.len())? == digest.as_bytes();
            let end = reader.inner.read(&mut [0])? == 0;
            Ok((!(same && end)).then(|| "its digest differs".to_owned()))
        };
        match read() {
            Ok(None) => Ok(Found::Climatology(Climatology {
                cells,
                of_row: days.of_row.clone(),
                means,
                mean: mean[0],
                std: std[0],
            })),
            Ok(Some(damage)) => Ok(Found::Damaged(damage)),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                Ok(Found::Damaged("it is too short".to_owned()))
            }
            Err(e) => Err(self.refused("cannot read", e)),
        }
    }

    /// Writes the file: under another name first, so that a file of this name is whole.
    ///
    /// # Errors
    /// The folder cannot be made, or the file cannot be written.
    pub(crate) fn write(&self, climatology: &Climatology) -> Result<()> {
        let write = || -> io::Result<()> {
            fs::create_dir_all(&self.folder)?;
            let mut new = tempfile_in(&self.folder, &self.name)?;
            let written = self.write_to(&mut new.file, climatology);
            let placed = written.and_then(|()| fs::rename(&new.path, self.path()));
            if placed.is_err() {
                let _ = fs::remove_file(&new.path);
            }
            placed
        };
        write().map_err(|e| self.refused("cannot write", e))
    }

    fn write_to(&self, file: &mut File, climatology: &Climatology) -> io::Result<()> {
        let mut digest = FingerprintPart::default();
        let mut out = BufWriter::new(&mut *file);
        let mut put = |bytes: &[u8]| {
            digest.bytes(bytes);
            out.write_all(bytes)
        };
        put(self.header.as_bytes())?;
        let statistics = [[climatology.mean], [climatology.std]];
        for values in [&statistics[0][..], &statistics[1], &climatology.means] {
            for piece in values.chunks(PIECE) {
                let bytes: Vec<u8> = piece.iter().flat_map(|v| v.to_le_bytes()).collect();
                put(&bytes)?;
            }
        }
        out.write_all(digest.finish().as_bytes())?;
        out.flush()?;
        drop(out);
        file.sync_all()
    }

    fn refused(&self, what: &str, e: io::Error) -> Error {
        let path = self.path();
        let message = format!("{what} the climatology in {}", path.display());
        Error::new(ErrorKind::Io, message).caused_by(e)
    }
}

/// A new file beside the one that it will replace.
struct New {
    file: File,
    path: PathBuf,
}

/// A name that no other process or thread takes.
fn tempfile_in(folder: &Path, name: &str) -> io::Result<New> {
    let process = std::process::id();
    for attempt in 0.. {
        let path = folder.join(format!(".{name}-{process}-{attempt}"));
        match File::create_new(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            file => return file.map(|file| New { file, path }),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Reads and digests.
struct Reader<R> {
    inner: R,
    digest: FingerprintPart,
    bytes: Vec<u8>,
}

impl<R: Read> Reader<R> {
    fn new(inner: R) -> Self {
        Self {
            inner,
            digest: FingerprintPart::default(),
            bytes: Vec::new(),
        }
    }

    fn bytes(&mut self, n: usize) -> io::Result<&[u8]> {
        self.bytes.resize(n, 0);
        self.inner.read_exact(&mut self.bytes)?;
        self.digest.bytes(&self.bytes);
        Ok(&self.bytes)
    }

    fn values(&mut self, values: &mut [f32]) -> io::Result<()> {
        for piece in values.chunks_mut(PIECE) {
            let bytes = self.bytes(piece.len() * 4)?;
            for (value, bytes) in piece.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *value = f32::from_le_bytes(*bytes);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: PlaneShape = PlaneShape { ny: 2, nx: 3 };

    fn days() -> Days {
        Days {
            numbers: vec![3, 8, 366],
            of_row: vec![0, 1, 2, 0],
        }
    }

    fn kept(folder: &Path, source: &str) -> Kept {
        let channel = "hfds_anomalies".parse().unwrap();
        Kept::new(folder, &channel, source, &days(), SHAPE)
    }

    fn climatology() -> Climatology {
        let mut means: Vec<f32> = (0..18).map(|i| i as f32 * 0.1 - 1.0).collect();
        means[4] = f32::NAN;
        Climatology {
            cells: 6,
            of_row: days().of_row,
            means,
            mean: -3.5e-8,
            std: 20.25,
        }
    }

    fn damage(kept: &Kept) -> String {
        match kept.read(&days(), SHAPE).unwrap() {
            Found::Damaged(damage) => damage,
            Found::Nothing => "nothing".to_owned(),
            Found::Climatology(_) => "none".to_owned(),
        }
    }

    #[test]
    fn what_was_written_is_read_to_the_bit() {
        let dir = tempfile::tempdir().unwrap();
        let kept = kept(&dir.path().join("a/b"), "0123456789abcdef0123456789abcdef");
        assert_eq!(damage(&kept), "nothing");
        let written = climatology();
        kept.write(&written).unwrap();
        kept.write(&written).unwrap();
        let Found::Climatology(read) = kept.read(&days(), SHAPE).unwrap() else {
            panic!("nothing is kept");
        };
        let bits = |c: &Climatology| c.means.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&read), bits(&written));
        assert_eq!((read.mean, read.std), (written.mean, written.std));
        assert_eq!(read.of_row, written.of_row);
        let names = fs::read_dir(dir.path().join("a/b")).unwrap();
        assert_eq!(names.count(), 1, "nothing else is left");
    }

    #[test]
    fn every_damaged_byte_and_every_length_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let kept = kept(dir.path(), "0123456789abcdef0123456789abcdef");
        kept.write(&climatology()).unwrap();
        let good = fs::read(kept.path()).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(kept.path(), &bad).unwrap();
            assert_ne!(damage(&kept), "none", "byte {at}");
            fs::write(kept.path(), &good[..at]).unwrap();
            assert_eq!(damage(&kept), "it is too short", "{at} bytes");
        }
        fs::write(kept.path(), [&good[..], b"x"].concat()).unwrap();
        assert_eq!(damage(&kept), "its digest differs");
        fs::write(kept.path(), &good).unwrap();
        assert_eq!(damage(&kept), "none");
    }

    #[test]
    fn the_file_of_another_source_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let one = kept(dir.path(), "0123456789abcdef0000000000000000");
        let other = kept(dir.path(), "0123456789abcdef1111111111111111");
        // The same name, by accident.
        assert_eq!(one.path(), other.path());
        one.write(&climatology()).unwrap();
        assert_eq!(damage(&one), "none");
        assert_eq!(damage(&other), "it is about something else");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), b"").unwrap();
        let kept = kept(&dir.path().join("file"), "0123456789abcdef0123456789abcdef");
        let e = kept.write(&climatology()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Io);
        assert!(e.to_string().contains("hfds_anomalies"), "{e}");
    }
}

//! The limit: the same files, read and decoded by the C libraries alone, into warm memory.

use crate::memory::warm;
use crate::stores::{ChunkFile, Compression, PLANE_BYTES};
use anyhow::{Context, Result, ensure};
use burn_om4::host::HostLease;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The C library that decodes a chunk.
enum Decoder {
    Blosc,
    Zstd,
}

impl Decoder {
    /// None where the bytes are plain.
    fn of(compression: Compression) -> Option<Self> {
        match compression {
            Compression::None => None,
            Compression::Blosc => Some(Self::Blosc),
            Compression::Zstd => Some(Self::Zstd),
        }
    }
}

/// What a thread keeps.
struct Worker {
    encoded: HostLease,
    zstd: zstd::zstd_safe::DCtx<'static>,
}

/// Threads' belongings, kept warm from round to round.
pub(crate) struct Limit {
    workers: Vec<Mutex<Worker>>,
}

impl Limit {
    /// `longest` is the number of planes in a file.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn new(threads: usize, longest: usize) -> Result<Self> {
        let worker = |_| -> Result<Mutex<Worker>> {
            Ok(Mutex::new(Worker {
                encoded: warm(longest * PLANE_BYTES / 2)?,
                zstd: zstd::zstd_safe::DCtx::create(),
            }))
        };
        Ok(Self {
            workers: (0..threads).map(worker).collect::<Result<_>>()?,
        })
    }

    /// Reads every file into `memory`.
    pub(crate) fn read(
        &self,
        files: &[ChunkFile],
        compression: Compression,
        memory: &mut [u8],
    ) -> Result<()> {
        let mut rest = memory;
        let mut places = Vec::with_capacity(files.len());
        for file in files {
            let (place, after) = rest.split_at_mut(file.planes * PLANE_BYTES);
            places.push(Mutex::new(Some(place)));
            rest = after;
        }
        let next = AtomicUsize::new(0);
        let work = |worker: &Mutex<Worker>| -> Result<()> {
            let mut worker = worker.lock().expect("nobody panics");
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(file) = files.get(index) else {
                    return Ok(());
                };
                let place = places[index].lock().expect("nobody panics").take();
                let place = place.expect("each place is taken once");
                worker
                    .read(file, compression, place)
                    .with_context(|| file.path.display().to_string())?;
            }
        };
        std::thread::scope(|scope| {
            let work = &work;
            let threads = self.workers.iter().map(|w| scope.spawn(move || work(w)));
            let threads: Vec<_> = threads.collect();
            threads
                .into_iter()
                .try_for_each(|t| t.join().expect("no panic"))
        })
    }
}

impl Worker {
    fn read(&mut self, chunk: &ChunkFile, compression: Compression, out: &mut [u8]) -> Result<()> {
        let file = File::open(&chunk.path)?;
        if chunk.sharded {
            let length = file.metadata()?.len();
            let mut index = vec![0; chunk.planes * 16 + 4];
            let at = length - index.len() as u64;
            file.read_exact_at(&mut index, at)?;
            for (entry, out) in index.chunks_exact(16).zip(out.chunks_mut(PLANE_BYTES)) {
                let word = |k: usize| u64::from_le_bytes(entry[k..k + 8].try_into().expect("8"));
                let (offset, n) = (word(0), word(8) as usize);
                match Decoder::of(compression) {
                    None => file.read_exact_at(out, offset)?,
                    Some(decoder) => {
                        file.read_exact_at(&mut self.encoded()[..n], offset)?;
                        self.decode(n, decoder, out)?;
                    }
                }
            }
            return Ok(());
        }
        match Decoder::of(compression) {
            None => {
                let n = file.read_at(out, 0)?;
                ensure!(n == out.len(), "{n} bytes");
            }
            Some(decoder) => {
                let n = file.read_at(self.encoded(), 0)?;
                self.decode(n, decoder, out)?;
            }
        }
        Ok(())
    }

    /// Room for an encoded chunk, twice as large as a decoded one.
    fn encoded(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(self.encoded.as_mut_slice())
    }

    fn decode(&mut self, n: usize, decoder: Decoder, out: &mut [u8]) -> Result<()> {
        let Self { encoded, zstd } = self;
        let encoded: &[u8] = bytemuck::cast_slice(encoded.as_mut_slice());
        let encoded = &encoded[..n];
        match decoder {
            Decoder::Zstd => {
                let written = zstd.decompress(out, encoded);
                let written = written.map_err(|code| anyhow::anyhow!("zstd error {code}"))?;
                ensure!(written == out.len(), "{written} bytes");
            }
            Decoder::Blosc => {
                // SAFETY: blosc reads as many bytes as its header says, which are there, and writes
                // at most as many as it is told.
                let written = unsafe {
                    let header = u32::from_le_bytes(encoded[12..16].try_into()?);
                    ensure!(header as usize == n, "blosc size");
                    blosc_src::blosc_decompress_ctx(
                        encoded.as_ptr().cast(),
                        out.as_mut_ptr().cast(),
                        out.len(),
                        1,
                    )
                };
                ensure!(written as usize == out.len(), "{written} bytes");
            }
        }
        Ok(())
    }
}

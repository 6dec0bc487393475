//! Faults on demand in the files of a store, for tests: between the default back end and the operating
//! system, so that all of the reader is above them.

use crate::sync::lock;
use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Bytes that a short read gets at most.
const FEW: usize = 16;

/// What goes wrong in one system call on a chunk file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFault {
    /// Opening: no such file, `ENOENT`.
    NotFound,
    /// Opening: permission denied, `EACCES`.
    Denied,
    /// Any call: a broken disk, `EIO`.
    Broken,
    /// Any call: a file handle of a network file system that is not valid any more, `ESTALE`.
    Stale,
    /// Reading: some bytes, 16 at most, and then the end of the file.
    EndsEarly,
    /// Reading: some bytes, 16 at most. The rest comes when it is asked for.
    Short,
    /// Reading: a signal came first, `EINTR`.
    Interrupted,
    /// Reading: one bit of the byte in the middle is another.
    Flipped,
    /// Any call: takes this much longer.
    Late(Duration),
    /// Any call: a panic.
    Panic,
}

/// The kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Open,
    Size,
    Read,
}

impl FileFault {
    fn concerns(self, call: Call) -> bool {
        match self {
            Self::NotFound | Self::Denied => call == Call::Open,
            Self::EndsEarly | Self::Short | Self::Interrupted | Self::Flipped => call == Call::Read,
            Self::Broken | Self::Stale | Self::Late(_) | Self::Panic => true,
        }
    }

    fn effect(self) -> Option<Effect> {
        match self {
            Self::EndsEarly => Some(Effect::FewThenEnd),
            Self::Short => Some(Effect::Few),
            Self::Flipped => Some(Effect::Flip),
            _ => None,
        }
    }

    fn error(self) -> Option<io::Error> {
        Some(match self {
            Self::NotFound => io::ErrorKind::NotFound.into(),
            Self::Denied => io::ErrorKind::PermissionDenied.into(),
            Self::Interrupted => io::ErrorKind::Interrupted.into(),
            #[cfg(unix)]
            Self::Broken => io::Error::from_raw_os_error(libc::EIO),
            #[cfg(unix)]
            Self::Stale => io::Error::from_raw_os_error(libc::ESTALE),
            #[cfg(not(unix))]
            Self::Broken | Self::Stale => io::Error::other("an injected fault"),
            _ => return None,
        })
    }
}

/// What a read does instead of what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Few,
    FewThenEnd,
    AtEnd,
    Flip,
}

impl Effect {
    /// Reads like this.
    pub(super) fn apply(
        self,
        out: &mut [u8],
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        match self {
            Self::AtEnd => Ok(0),
            Self::Few | Self::FewThenEnd => {
                let some = out.len().div_ceil(2).min(FEW);
                read(&mut out[..some])
            }
            Self::Flip => {
                let n = read(out)?;
                if let Some(byte) = out[..n].get_mut(n / 2) {
                    *byte ^= 1;
                }
                Ok(n)
            }
        }
    }
}

/// A store whose files fail on demand, while this lives. The path must be the one that the store is
/// opened by, and the store be read by [`ReadMethod::Pread`](crate::ReadMethod::Pread), the default.
///
/// Calls are opening a file, asking for its size, and reading from it. They are counted in the order
/// in which the reader threads make them. Set a fault after the store has been opened, or its metadata
/// is met first.
#[derive(Debug)]
pub struct FileFaults {
    root: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The fault, and how many of the calls that it concerns come before it.
    fault: Option<(FileFault, u64)>,
    calls: u64,
    hit: Option<PathBuf>,
}

/// Stores that a test wants faults in.
static STORES: Mutex<Vec<(PathBuf, Arc<Shared>)>> = Mutex::new(Vec::new());

/// How many they are: calls need no lock where there is none.
static WANTED: AtomicUsize = AtomicUsize::new(0);

/// The file that this thread opened last, if it is in one of them.
struct Opened {
    shared: Arc<Shared>,
    path: PathBuf,
    /// Nothing comes any more.
    at_end: bool,
}

thread_local! {
    static OPENED: RefCell<Option<Opened>> = const { RefCell::new(None) };
}

impl FileFaults {
    /// Faults in the store at `root`, none until they are asked for.
    pub fn under(root: impl AsRef<Path>) -> Self {
        let root = root.as_ref().to_owned();
        let shared = Arc::<Shared>::default();
        lock(&STORES).push((root.clone(), shared.clone()));
        WANTED.fetch_add(1, Ordering::SeqCst);
        Self { root, shared }
    }

    /// From now on: `fault` in call `k`, counted from 0, of the calls that it concerns, and in no other.
    pub fn set(&self, fault: FileFault, k: u64) {
        *lock(&self.shared.0) = State {
            fault: Some((fault, k)),
            ..State::default()
        };
    }

    /// From now on: none.
    pub fn clear(&self) {
        *lock(&self.shared.0) = State::default();
    }

    /// Calls since the fault was set that it concerns.
    pub fn calls(&self) -> u64 {
        lock(&self.shared.0).calls
    }

    /// The file that the fault was met in, if it has been.
    pub fn hit(&self) -> Option<PathBuf> {
        lock(&self.shared.0).hit.clone()
    }
}

impl Drop for FileFaults {
    fn drop(&mut self) {
        let mine = |shared: &Arc<Shared>| Arc::ptr_eq(shared, &self.shared);
        lock(&STORES).retain(|(root, shared)| *root != self.root || !mine(shared));
        WANTED.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    /// What the fault does to this call, if it has one. Delays, errors and panics happen here.
    fn meet(&self, call: Call, path: &Path) -> io::Result<Option<Effect>> {
        let mut state = lock(&self.0);
        let Some((fault, k)) = state.fault.filter(|(fault, _)| fault.concerns(call)) else {
            return Ok(None);
        };
        let now = state.calls == k;
        state.calls += 1;
        if !now {
            return Ok(None);
        }
        state.hit = Some(path.to_owned());
        drop(state);
        match fault {
            FileFault::Late(delay) => std::thread::sleep(delay),
            FileFault::Panic => panic!("an injected panic in {}", path.display()),
            _ => {}
        }
        fault.error().map_or(Ok(fault.effect()), Err)
    }
}

fn wanted() -> bool {
    WANTED.load(Ordering::Relaxed) > 0
}

/// Before a file is opened.
pub(super) fn open(path: &Path) -> io::Result<()> {
    if !wanted() {
        return Ok(());
    }
    let stores = lock(&STORES);
    let store = stores.iter().find(|(root, _)| path.starts_with(root));
    let shared = store.map(|(_, shared)| shared.clone());
    drop(stores);
    let opened = |shared| Opened {
        shared,
        path: path.to_owned(),
        at_end: false,
    };
    OPENED.set(shared.clone().map(opened));
    shared.map_or(Ok(()), |shared| shared.meet(Call::Open, path).map(drop))
}

/// Before a file is asked for its size.
pub(super) fn size() -> io::Result<()> {
    call(Call::Size).map(drop)
}

/// Before a file is read from: what that read does.
pub(super) fn read() -> io::Result<Option<Effect>> {
    call(Call::Read)
}

fn call(call: Call) -> io::Result<Option<Effect>> {
    if !wanted() {
        return Ok(None);
    }
    OPENED.with_borrow_mut(|opened| {
        let Some(opened) = opened else {
            return Ok(None);
        };
        if opened.at_end && call == Call::Read {
            return Ok(Some(Effect::AtEnd));
        }
        let effect = opened.shared.meet(call, &opened.path)?;
        opened.at_end = effect == Some(Effect::FewThenEnd);
        Ok(effect)
    })
}

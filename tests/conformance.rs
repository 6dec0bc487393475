//! The suite finds every breach it is there for, and passes what the crate itself offers.

use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use burn_om4::dataset::{Ocean, OceanPair};
use burn_om4::host::HostPlanes;
use burn_om4::ocean::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts, WetMask};
use burn_om4::prepare::ChannelConstants;
use burn_om4::store::{OpenOptions, Store};
use burn_om4::testing::{Fault, FaultySource, MemorySource, PurityProbe, check_source, ocean_on};
use burn_om4::{
    Channel, DatasetOptions, Error, ErrorKind, OceanDataset, OceanLoader, Precision,
    PrefetchOptions, Result, Transfer, parse_channels,
};
use om4_test_support::own_error;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const SHAPE: PlaneShape = PlaneShape { ny: 2, nx: 3 };

fn good() -> MemorySource {
    let channels = parse_channels("zos, thetao_0, thetao_1, hfds").unwrap();
    MemorySource::new(channels, 7, SHAPE, |row, channel, cell| {
        if cell == 1 {
            f32::NAN
        } else {
            (row * 100 + channel * 10 + cell) as f32
        }
    })
}

/// One way to break the contract.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Breach {
    ChannelTwice,
    NoRows,
    MissesAPlane,
    FillsTwice,
    FillsBeyond,
    CountsWrong,
    PlansWrong,
    LeavesMemory,
    Impure,
    ChecksNothing,
    ChecksLate,
    SwallowsErrors,
}

const ALL: [(Breach, &str); 12] = [
    (Breach::ChannelTwice, "there twice"),
    (Breach::NoRows, "nothing to read"),
    (Breach::MissesAPlane, "not filled"),
    (Breach::FillsTwice, "filled twice"),
    (Breach::FillsBeyond, "not asked for are filled"),
    (Breach::CountsWrong, "not what was asked for"),
    (Breach::PlansWrong, "not what was asked for"),
    (Breach::LeavesMemory, "other values"),
    (Breach::Impure, "other values"),
    (Breach::ChecksNothing, "not there"),
    (Breach::ChecksLate, "before the whole request"),
    (Breach::SwallowsErrors, "swallowed"),
];

struct Broken {
    breach: Breach,
    channels: Vec<Channel>,
    reads: AtomicUsize,
}

impl Broken {
    fn new(breach: Breach) -> Self {
        let names = match breach {
            Breach::ChannelTwice => "zos, hfds, zos",
            _ => "zos, hfds",
        };
        let names = names.split(", ").map(|n| n.parse().unwrap());
        Self {
            breach,
            channels: names.collect(),
            reads: AtomicUsize::new(0),
        }
    }

    fn check(&self, request: &PlaneRequest<'_>) -> Result<()> {
        if self.breach == Breach::ChecksNothing {
            return Ok(());
        }
        request.check(self)
    }
}

impl PlaneSource for Broken {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn rows(&self) -> usize {
        if self.breach == Breach::NoRows { 0 } else { 5 }
    }

    fn shape(&self) -> PlaneShape {
        SHAPE
    }

    fn read(&self, request: &PlaneRequest<'_>, sink: &dyn PlaneSink) -> Result<ReadCounts> {
        let breach = self.breach;
        if breach != Breach::ChecksLate {
            self.check(request)?;
        }
        let read = self.reads.fetch_add(1, Ordering::Relaxed);
        let mut planes = request.planes() as u64;
        let n = request.channels.len();
        for plane in 0..request.planes() {
            let (row, channel) = (request.rows[plane / n], request.channels[plane % n]);
            if breach == Breach::ChecksLate && (row >= 5 || channel >= 2) {
                return Err(Error::config("noticed too late").row(row));
            }
            let mut fill = |values: &mut [f32]| {
                let value = (row * 10 + channel) as f32;
                match breach {
                    // One value is left as it was.
                    Breach::LeavesMemory => values[1..].fill(value),
                    Breach::Impure => values.fill(value + read as f32),
                    _ => values.fill(value),
                }
                Ok(())
            };
            let last = plane + 1 == request.planes();
            match breach {
                Breach::MissesAPlane if last && plane > 0 => continue,
                Breach::FillsTwice if last => sink.fill(plane..plane + 1, &mut fill)?,
                Breach::FillsBeyond if last => sink.fill(plane + 1..plane + 2, &mut fill)?,
                _ => {}
            }
            match sink.fill(plane..plane + 1, &mut fill) {
                Err(_) if breach == Breach::SwallowsErrors => {}
                done => done?,
            }
        }
        if breach == Breach::CountsWrong {
            planes += 1;
        }
        let chunks = request.planes() as u64;
        Ok(ReadCounts {
            planes,
            chunks,
            ..ReadCounts::default()
        })
    }

    fn planned_chunks(&self, request: &PlaneRequest<'_>) -> Result<u64> {
        self.check(request)?;
        let extra = u64::from(self.breach == Breach::PlansWrong);
        Ok(request.planes() as u64 + extra)
    }
}

#[test]
fn every_breach_is_found() {
    for (breach, words) in ALL {
        let error = check_source(&Broken::new(breach)).unwrap_err().to_string();
        assert!(error.contains(words), "{breach:?}: {error}");
        // A probe finds it too, or lets it through; it never panics.
        check_source(&PurityProbe::new(Broken::new(breach))).unwrap_err();
    }
}

/// The devices there are: what is read for a CPU goes another way than what is read for others.
fn devices() -> Vec<Device> {
    let mut devices = vec![Device::flex()];
    #[cfg(feature = "vulkan")]
    devices.extend(om4_test_support::vulkan());
    devices
}

/// A batch never holds what memory held before: a loader finds a plane that is missing, there twice
/// or beyond the request, on every way to a device.
#[test]
fn a_loader_holds_a_source_to_its_promise() {
    let promises = [
        (Breach::MissesAPlane, "did not fill a plane"),
        (Breach::FillsTwice, "filled a plane twice"),
        (Breach::FillsBeyond, "not asked for"),
    ];
    for (breach, words) in promises {
        for device in devices() {
            for (transfer, carry) in [
                (Transfer::Raw, 0),
                (Transfer::Raw, 1 << 20),
                (Transfer::Prepared, 1 << 20),
            ] {
                let input = ocean_of(Broken::new(breach));
                let channels = |list: &str| parse_channels(list).unwrap();
                let options = DatasetOptions::new(channels("zos"), channels("hfds"));
                let pair = OceanPair { input, label: None };
                let dataset = OceanDataset::from_oceans(vec![pair], &options).unwrap();
                let loader = OceanLoader::builder(dataset)
                    .prefetch(PrefetchOptions::default().with_carry(carry))
                    .precision(Precision::F16)
                    .transfer(transfer)
                    .build(&device)
                    .unwrap();
                let error = loader.iter().next().unwrap().err().unwrap();
                let error = own_error(&error);
                let place = format!("{breach:?} {transfer:?} {device:?}: {error}");
                assert_eq!(error.kind(), ErrorKind::Config, "{place}");
                assert!(error.to_string().contains(words), "{place}");
                assert!(error.to_string().contains("prognostic planes"), "{place}");
                if breach != Breach::FillsBeyond {
                    assert_eq!(error.array_name(), Some("zos"), "{place}");
                    // The last of the rows 0 to 3.
                    assert_eq!(error.time_row(), Some(3), "{place}");
                }
                drop(loader.iter());
                assert_eq!(loader.batcher().host_pool().leased, 0, "{place}");
            }
        }
    }
}

fn ocean_of(source: Broken) -> Ocean {
    let wet = Arc::new(WetMask::new(SHAPE, vec![true; SHAPE.cells()]).unwrap());
    let constants = ChannelConstants {
        mean: 0.0,
        std: 1.0,
        wet,
    };
    ocean_on(source, vec![constants; 2]).unwrap()
}

#[test]
fn what_the_crate_offers_keeps_the_contract() {
    check_source(&good()).unwrap();
    check_source(&PurityProbe::new(good())).unwrap();
    let slow = Fault::Delay(std::time::Duration::ZERO);
    check_source(&FaultySource::new(good(), slow)).unwrap();
}

#[test]
fn stores_of_every_form_keep_the_contract() {
    use burn_om4::synth::{Chunking, Codec, Format, Layout, SynthOptions};
    let plain = || SynthOptions::new(6, 12).with_levels(3).with_rows(9);
    let forms = [
        plain(),
        plain().with_codec(Codec::BloscLz4),
        plain()
            .with_layout(Layout::CompactLevTime)
            .with_codec(Codec::Zstd),
        plain()
            .with_format(Format::V3)
            .with_chunking(Chunking::Shards(4)),
    ];
    for options in forms {
        let dir = tempfile::tempdir().unwrap();
        options.write(dir.path()).unwrap();
        let store = Store::open(dir.path().join("OM4.zarr"), &OpenOptions::default()).unwrap();
        check_source(&store).unwrap_or_else(|e| panic!("{options:?}: {e:?}"));
        check_source(&PurityProbe::new(store)).unwrap();
    }
}

#[test]
fn the_probe_names_the_plane_that_changed() {
    let reads = AtomicUsize::new(0);
    let channels = parse_channels("zos, hfds").unwrap();
    // The channel at 1 changes after a while.
    let source = MemorySource::new(channels, 5, SHAPE, move |row, channel, cell| {
        let late = channel == 1 && cell == 0 && reads.fetch_add(1, Ordering::Relaxed) >= 3;
        row as f32 + f32::from(u8::from(late))
    });
    let probe = PurityProbe::new(source);
    let read = |rows: Range<usize>| {
        let rows: Vec<usize> = rows.collect();
        let request = PlaneRequest {
            rows: &rows,
            channels: &[0, 1],
        };
        let mut memory = vec![0.0; request.planes() * SHAPE.cells()];
        probe.read(&request, &HostPlanes::new(&mut memory, SHAPE.cells()))
    };
    read(0..3).unwrap();
    assert_eq!(probe.planes_seen(), 6);
    let error = read(1..2).unwrap_err();
    assert_eq!(
        (error.time_row(), error.array_name()),
        (Some(1), Some("hfds"))
    );
}

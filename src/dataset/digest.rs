//! What a data set is recognised by when a run is resumed.

use crate::dataset::channel_group::ChannelGroup;
use crate::dataset::ocean_dataset::OceanDataset;
use crate::dataset::source::Source;
use crate::ocean::grid::{Coordinate, Grid};
use crate::ocean::mask::WetMask;
use crate::order::fingerprint::{Fingerprint, FingerprintBuilder, FingerprintPart};
use crate::prepare::arithmetic::MaskOrder;

impl OceanDataset {
    /// Digests of everything that gives a batch its meaning, in these parts:
    ///
    /// * `time axis`: calendar and every time of every source;
    /// * `grid`: extent and coordinates, of inputs and of labels;
    /// * `levels`: the level coordinates of inputs and labels, where there are some;
    /// * `channels`: names and order, and units of labels;
    /// * `statistics`: mean and standard deviation of every channel;
    /// * `masks`: wet cells of every channel and of the surface;
    /// * `windows`: history, steps, stride, and the first row of every window;
    /// * `labels`: whether they come from a store of their own, and with which offset of rows;
    /// * `preparation`: whether normalising or masking comes first, and the value of land.
    ///
    /// The fields themselves are not read, and where the stores lie does not matter. Taken once, at
    /// a cost of some milliseconds for each million cells of masks; then kept.
    pub fn fingerprint(&self) -> &Fingerprint {
        self.fingerprint.get_or_init(|| {
            let mut builder = FingerprintBuilder::default();
            for source in self.sources.iter() {
                add_source(&mut builder, source);
            }
            builder.finish()
        })
    }
}

fn add_source(builder: &mut FingerprintBuilder, source: &Source) {
    let context = &source.context;
    let time = context.time();
    builder
        .part("time axis")
        .text(&format!("{:?}", time.calendar()))
        .i64s(time.micros());

    let grid = builder.part("grid");
    for of in [context.grid(), context.label_grid()] {
        add_grid(grid, of);
    }

    for of in [context.grid(), context.label_grid()] {
        if let Some(depths) = of.depths() {
            builder.part("levels").f64s(depths);
        }
    }

    let channels = builder.part("channels");
    for list in [context.prognostic(), context.boundary()] {
        channels.u64s(&[list.len() as u64]);
        for channel in list {
            channels.text(channel.name());
        }
    }
    for channel in 0..context.prognostic().len() {
        channels.text(context.unit(channel).unwrap_or_default());
    }

    for (_, group) in source.groups.iter() {
        add_group(builder, group);
    }
    add_mask(builder.part("masks"), context.surface());

    let window = context.window();
    let sizes = [window.history, window.steps, window.stride];
    let starts: Vec<u64> = source.starts.iter().map(|s| *s as u64).collect();
    let windows = builder.part("windows");
    windows.u64s(&sizes.map(|n| n as u64)).u64s(&starts);

    let offset: Vec<i64> = source
        .groups
        .label
        .iter()
        .map(|l| l.offset as i64)
        .collect();
    builder.part("labels").i64s(&offset);

    let preparation = context.preparation();
    let order = match preparation.order {
        MaskOrder::NormaliseFirst => "normalise first",
        MaskOrder::MaskFirst => "mask first",
    };
    let part = builder.part("preparation");
    part.text(order).f32s(&[preparation.fill]);
}

fn add_grid(part: &mut FingerprintPart, grid: &Grid) {
    part.u64s(&[grid.ny() as u64, grid.nx() as u64]);
    for coordinate in [grid.latitude(), grid.longitude()] {
        match coordinate {
            None => part.text("none"),
            Some(Coordinate::Line(values)) => part.text("line").f64s(values),
            Some(Coordinate::Plane(values)) => part.text("plane").f64s(values),
        };
    }
}

fn add_group(builder: &mut FingerprintBuilder, group: &ChannelGroup) {
    let statistics = builder.part("statistics");
    for constants in &group.constants {
        statistics.f32s(&[constants.mean, constants.std]);
    }
    for constants in &group.constants {
        add_mask(builder.part("masks"), &constants.wet);
    }
}

fn add_mask(part: &mut FingerprintPart, mask: &WetMask) {
    part.bytes(bytemuck::cast_slice(mask.as_slice()));
}

//! Dimension names: which axis of an array is time, level, y or x.

use crate::zarr::metadata::ArrayMeta;

/// The role of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Axis {
    Time,
    Level,
    Y,
    X,
}

/// Name of the time dimension and its coordinate, unless the options say another.
pub(crate) const TIME_NAME: &str = "time";
/// Accepted names of the vertical dimension.
pub(crate) const LEVEL_NAMES: [&str; 5] = ["lev", "z_l", "depth", "level", "z"];
/// Accepted names of the meridional dimension.
pub(crate) const Y_NAMES: [&str; 4] = ["y", "lat", "latitude", "yh"];
/// Accepted names of the zonal dimension.
pub(crate) const X_NAMES: [&str; 4] = ["x", "lon", "longitude", "xh"];

/// The axes that an array of planes may have, in their order.
pub(crate) const PLANE_AXES: [&[Axis]; 3] = [
    &[Axis::Time, Axis::Y, Axis::X],
    &[Axis::Time, Axis::Level, Axis::Y, Axis::X],
    &[Axis::Level, Axis::Time, Axis::Y, Axis::X],
];

/// What the names mean, for messages.
pub(crate) const EXPECTED: &str = "(time, y, x), (time, level, y, x) or (level, time, y, x) with time; \
     lev, z_l, depth, level or z; y, lat, latitude or yh; x, lon, longitude or xh";

/// The role a dimension's name stands for, where it is a known one; `time` is that of the time axis.
pub(crate) fn axis_of(name: &str, time: &str) -> Option<Axis> {
    let known = [
        (Axis::Time, &[time][..]),
        (Axis::Level, &LEVEL_NAMES[..]),
        (Axis::Y, &Y_NAMES[..]),
        (Axis::X, &X_NAMES[..]),
    ];
    let found = known.iter().find(|(_, names)| names.contains(&name));
    found.map(|(axis, _)| *axis)
}

/// The roles of an array's dimensions, where all have known names.
pub(crate) fn axes_of(meta: &ArrayMeta, time: &str) -> Option<Vec<Axis>> {
    let dims = meta.dims.as_ref()?;
    dims.iter().map(|name| axis_of(name, time)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_accepted_name_has_one_role() {
        let of = |name| axis_of(name, TIME_NAME);
        assert_eq!(of("time"), Some(Axis::Time));
        assert_eq!(of("z_l"), Some(Axis::Level));
        assert_eq!(of("yh"), Some(Axis::Y));
        assert_eq!(of("longitude"), Some(Axis::X));
        assert_eq!(of("yq"), None);
        assert_eq!(of("Time"), None);
        assert_eq!(axis_of("Time", "Time"), Some(Axis::Time));
        assert_eq!(axis_of("time", "Time"), None);
    }
}

//! Whether labels of a store of their own lie where the inputs lie: cells of another size are legal, a
//! grid that is turned over or begins elsewhere is not.

use crate::error::{Error, ErrorKind, Result};
use crate::ocean::grid::{Coordinate, Grid};

/// Where a coordinate begins, and the step to the next cell, degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Start {
    first: f64,
    step: f64,
}

/// Compares the grids of inputs and labels along y and x: both coordinates run in the same direction,
/// and the first cells are not further apart than half of the larger step, which is where they are
/// when two grids share their edge. Longitudes are compared around the globe.
///
/// What one of the grids does not have cannot be compared: that is a warning.
///
/// # Errors
/// [`ErrorKind::Values`]: they run in opposite directions, or begin elsewhere.
pub(super) fn check(input: &Grid, label: &Grid) -> Result<Option<String>> {
    let latitudes = [input, label].map(|grid| {
        let next = match grid.latitude()? {
            Coordinate::Line(_) => 1,
            Coordinate::Plane(_) => grid.nx(),
        };
        start(grid.latitude()?, next, |step| step)
    });
    let longitudes = [input, label].map(|grid| start(grid.longitude()?, 1, around));
    let mut unknown = Vec::new();
    for (what, starts) in [("latitude", latitudes), ("longitude", longitudes)] {
        let [Some(input), Some(label)] = starts else {
            unknown.push(what);
            continue;
        };
        compare(what, input, label)?;
    }
    Ok((!unknown.is_empty()).then(|| {
        format!(
            "labels may lie elsewhere than inputs: no {} in one of their stores to compare",
            unknown.join(", no ")
        )
    }))
}

fn start(coordinate: &Coordinate, next: usize, step: impl Fn(f64) -> f64) -> Option<Start> {
    let (Coordinate::Line(values) | Coordinate::Plane(values)) = coordinate;
    let first = *values.first()?;
    let step = step(values.get(next)? - first);
    Some(Start { first, step })
}

/// A difference of longitudes by the shorter way, -180 to 180.
fn around(degrees: f64) -> f64 {
    (degrees + 180.0).rem_euclid(360.0) - 180.0
}

fn compare(what: &str, input: Start, label: Start) -> Result<()> {
    let bad = |message: &str| {
        Error::new(ErrorKind::Values, format!("the {what} of labels {message}"))
            .expected(shown(input))
            .found(shown(label))
    };
    if input.step * label.step < 0.0 {
        return Err(bad("runs against that of inputs"));
    }
    let apart = match what {
        "longitude" => around(label.first - input.first),
        _ => label.first - input.first,
    };
    // A hundredth more, because coordinates are rounded.
    if apart.abs() > 0.505 * input.step.abs().max(label.step.abs()) {
        return Err(bad("begins elsewhere than that of inputs"));
    }
    Ok(())
}

fn shown(Start { first, step }: Start) -> String {
    format!("{first}, {}, ... degrees", first + step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ocean::plane::PlaneShape;

    fn line(first: f64, step: f64, n: usize) -> Coordinate {
        Coordinate::Line((0..n).map(|i| first + step * i as f64).collect())
    }

    fn grid(latitude: Coordinate, longitude: Coordinate) -> Grid {
        Grid {
            latitude: Some(latitude),
            longitude: Some(longitude),
            ..Grid::of_shape(PlaneShape { ny: 4, nx: 8 })
        }
    }

    #[test]
    fn grids_that_share_their_edge_agree_whatever_their_cells() {
        let input = grid(line(-67.5, 45.0, 4), line(22.5, 45.0, 8));
        for (lat, lon) in [
            (line(-67.5, 45.0, 4), line(22.5, 45.0, 8)),
            (line(-78.75, 22.5, 8), line(11.25, 22.5, 16)),
            (line(-45.0, 90.0, 2), line(45.0, 90.0, 4)),
            (line(-89.9, 0.2, 900), line(0.1, 0.2, 1800)),
            (line(-67.5, 45.0, 4), line(22.5 - 360.0, 45.0, 8)),
        ] {
            assert_eq!(check(&input, &grid(lat, lon)).unwrap(), None);
        }
        // Values of every cell, the same grid.
        let plane = |f: fn(usize) -> f64| Coordinate::Plane((0..32).map(f).collect());
        let lat = plane(|i| -67.5 + 45.0 * (i / 8) as f64);
        let lon = plane(|i| 22.5 + 45.0 * (i % 8) as f64);
        assert_eq!(check(&input, &grid(lat, lon)).unwrap(), None);
    }

    #[test]
    fn labels_turned_over_or_moved_are_refused() {
        let input = grid(line(-67.5, 45.0, 4), line(22.5, 45.0, 8));
        let same = |lat, lon| check(&input, &grid(lat, lon)).unwrap_err().to_string();
        let e = same(line(67.5, -45.0, 4), line(22.5, 45.0, 8));
        assert!(e.contains("latitude of labels runs against"), "{e}");
        let e = same(line(-67.5, 45.0, 4), line(337.5, -45.0, 8));
        assert!(e.contains("longitude of labels runs against"), "{e}");
        for first in [67.5, 202.5, -22.5, 382.5 + 45.0] {
            let e = same(line(-67.5, 45.0, 4), line(first, 45.0, 8));
            assert!(e.contains("longitude of labels begins elsewhere"), "{e}");
        }
        let e = same(line(-22.5, 45.0, 4), line(22.5, 45.0, 8));
        assert!(e.contains("latitude of labels begins elsewhere"), "{e}");
    }

    #[test]
    fn what_is_not_known_is_told() {
        let input = grid(line(-67.5, 45.0, 4), line(22.5, 45.0, 8));
        let bare = Grid::of_shape(PlaneShape { ny: 2, nx: 4 });
        let warning = check(&input, &bare).unwrap().unwrap();
        assert!(warning.contains("no latitude, no longitude"), "{warning}");
    }
}

//! Channels that a store lacks and that follow from one it has: `X_anomalies`, the difference of `X`
//! from its mean by day of the year.
//!
//! ```text
//!  opening:   days ──▶ climatology (three passes) ──▶ kept (a file)     numpy_sum: the order of sums
//!  reading:   PlaneRequest ──▶ anomalies ──▶ the source below, each base plane once ──▶ PlaneSink
//! ```

pub(crate) mod anomalies;
pub(crate) mod climatology;
pub(crate) mod days;
pub(crate) mod kept;
mod numpy_sum;

//! Batches changed on their device by keys, the same ones after a resume.

pub(crate) mod mirror;
pub(crate) mod noise;
pub(crate) mod transform;

pub use mirror::EquatorMirror;
pub use noise::Noise;
pub use transform::Transform;

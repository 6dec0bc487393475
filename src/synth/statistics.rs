//! The stores of means and standard deviations.

use super::describe::bytes;
use super::encode::{Attributes, DType, GroupWriter, Spec};
use super::moments::Moments;
use super::options::{Layout, SynthOptions};
use crate::error::Result;
use crate::ocean::channel::DEPTHS;

#[derive(Clone, Copy)]
pub(super) enum Statistic {
    Mean,
    Std,
}

/// Writes one of them: every channel's value, and those of the masks or levels as published.
pub(super) fn statistics(
    options: &SynthOptions,
    mut group: GroupWriter,
    wet: &[Vec<bool>],
    moments: &[Moments],
    statistic: Statistic,
) -> Result<()> {
    let of = |m: &Moments| match statistic {
        Statistic::Mean => m.mean(),
        Statistic::Std => m.std(),
    };
    let channels = options.channels();
    let mut put = |name: &str, levels: Option<usize>, dtype, values: Vec<u8>| {
        let (dims, shape): (&[&str], &[usize]) = match &levels {
            Some(n) => (&["lev"], std::slice::from_ref(n)),
            None => (&[], &[]),
        };
        let spec = Spec {
            name,
            dims,
            shape,
            chunks: shape,
            inner: None,
            dtype,
            codec: options.codec,
            attributes: Attributes::new(),
        };
        let index = vec![0; shape.len()];
        group.array(spec)?.put(&index, values)
    };
    let mut at = 0;
    while at < channels.len() {
        let channel = &channels[at];
        let stacked = options.compact() && channel.level().is_some();
        let n = if stacked { options.levels } else { 1 };
        let values: Vec<f32> = moments[at..at + n].iter().map(|m| of(m) as f32).collect();
        let values = bytes(&values, f32::to_ne_bytes);
        if stacked {
            put(channel.variable(), Some(n), DType::F32, values)?;
        } else {
            put(&options.array_name(channel), None, DType::F32, values)?;
        }
        at += n;
    }
    match options.layout {
        Layout::Flat => {
            for (k, cells) in wet.iter().enumerate() {
                let mut m = Moments::default();
                let ones: Vec<f32> = cells.iter().map(|w| f32::from(u8::from(*w))).collect();
                m.add(&ones, &vec![true; ones.len()]);
                let value = of(&m).to_ne_bytes().to_vec();
                put(&format!("mask_{k}"), None, DType::F64, value)?;
            }
        }
        Layout::FlatDepthNames => {}
        Layout::CompactLevTime | Layout::CompactTimeLev => {
            let depths = bytes(&DEPTHS[..options.levels], f64::to_ne_bytes);
            put("lev", Some(options.levels), DType::F64, depths)?;
        }
    }
    group.finish(Attributes::new())
}

//! The sum of float32 values in the order in which NumPy up to 2.2 adds those of one contiguous array,
//! so that a mean has the same bits. (NumPy 2.3 adds pairwise over the whole array, and its sums of
//! more than 8192 values differ in their last bits.)

/// Values that NumPy adds at once: its buffer. Sums of buffers are added up one after the other.
const BUFFER: usize = 8192;

/// Within a buffer, what is not longer is added by eight running sums.
const BLOCK: usize = 128;

/// A sum of values that arrive piece by piece.
#[derive(Default)]
pub(super) struct NumpySum {
    /// The sum of all full buffers.
    full: f32,
    /// What of the next one is there.
    buffer: Vec<f32>,
}

impl NumpySum {
    /// Adds the next values.
    pub(super) fn add(&mut self, mut values: &[f32]) {
        while !values.is_empty() {
            let room = BUFFER - self.buffer.len();
            let (now, later) = values.split_at(values.len().min(room));
            if now.len() == BUFFER {
                self.full += pairwise(now);
            } else {
                self.buffer.extend_from_slice(now);
                if self.buffer.len() == BUFFER {
                    self.full += pairwise(&self.buffer);
                    self.buffer.clear();
                }
            }
            values = later;
        }
    }

    /// The sum of all that was added.
    pub(super) fn total(&self) -> f32 {
        match self.buffer.is_empty() {
            true => self.full,
            false => self.full + pairwise(&self.buffer),
        }
    }
}

/// NumPy's pairwise sum: halves, the first a multiple of eight, down to [`BLOCK`] values.
fn pairwise(values: &[f32]) -> f32 {
    if values.len() > BLOCK {
        let half = values.len() / 2;
        let (first, second) = values.split_at(half - half % 8);
        return pairwise(first) + pairwise(second);
    }
    let mut eights = values.chunks_exact(8);
    let Some(first) = eights.next() else {
        return values.iter().sum();
    };
    let mut r: [f32; 8] = std::array::from_fn(|i| first[i]);
    for eight in &mut eights {
        for (r, value) in r.iter_mut().zip(eight) {
            *r += value;
        }
    }
    let sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    eights
        .remainder()
        .iter()
        .fold(sum, |sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values whose sum depends on the order.
    fn values(n: usize) -> Vec<f32> {
        let mut state = 1u32;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 65_536.0 - 128.0
        };
        (0..n).map(next).collect()
    }

    fn sum(values: &[f32], piece: usize) -> f32 {
        let mut sum = NumpySum::default();
        values.chunks(piece).for_each(|piece| sum.add(piece));
        sum.total()
    }

    #[test]
    fn sums_have_the_bits_of_numpy() {
        // np.sum of the same values, NumPy 1.26.4 and 2.2.6.
        let golden = [
            (5, 0xc322757a),
            (8, 0xc2de46fa),
            (100, 0x43238eea),
            (128, 0xc1e1ce88),
            (129, 0xc1455540),
            (1000, 0x45313f97),
            (9600, 0xc5d9e06c),
            (300_007, 0xc6eb3a60),
        ];
        for (n, bits) in golden {
            assert_eq!(sum(&values(n), n).to_bits(), bits, "{n} values");
        }
    }

    #[test]
    fn pieces_of_any_length_give_the_same_sum() {
        let values = values(20_000);
        let whole = sum(&values, values.len());
        for piece in [1, 127, 8191, 8192, 8193, 19_999] {
            assert_eq!(sum(&values, piece).to_bits(), whole.to_bits(), "{piece}");
        }
        assert_eq!(NumpySum::default().total(), 0.0);
    }
}

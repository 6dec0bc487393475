//! `random.Random` of CPython: the draws that `random.shuffle` makes, bit for bit.
//!
//! The generator is MT19937 seeded by `init_by_array`, as `random_seed` in CPython's
//! `Modules/_randommodule.c` does; `randbelow` and `shuffle` follow `Lib/random.py`
//! (`_randbelow_with_getrandbits`), unchanged from Python 3.2 to 3.14.

use rand_mt::Mt;

/// A generator in the state of `random.Random(seed)`.
pub(crate) struct CpythonRandom(Mt);

impl CpythonRandom {
    /// `random.Random(seed)`: the key is `abs(seed)` in 32-bit words, lowest first, at least one.
    pub(crate) fn new(seed: i128) -> Self {
        let magnitude = seed.unsigned_abs();
        let words = magnitude.checked_ilog2().map_or(1, |top| top / 32 + 1);
        Self(Mt::new_with_key(
            (0..words).map(|w| (magnitude >> (32 * w)) as u32),
        ))
    }

    /// `getrandbits(bits)` for 1 to 64 bits: whole words lowest first, the last one cut from above.
    fn bits(&mut self, bits: u32) -> u64 {
        if bits <= 32 {
            return u64::from(self.0.next_u32() >> (32 - bits));
        }
        let low = u64::from(self.0.next_u32());
        low | u64::from(self.0.next_u32() >> (64 - bits)) << 32
    }

    /// `_randbelow(n)`: uniform in `0..n`, by rejection. `n` is at least 1.
    fn below(&mut self, n: u64) -> u64 {
        let bits = u64::BITS - n.leading_zeros();
        loop {
            let draw = self.bits(bits);
            if draw < n {
                return draw;
            }
        }
    }

    /// `random.shuffle(items)`.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(seed: i128) -> [u64; 3] {
        let mut rng = CpythonRandom::new(seed);
        [(); 3].map(|()| rng.bits(32))
    }

    /// Values printed by CPython 3.11: `[r.getrandbits(32) for _ in range(3)]`.
    #[test]
    fn seeds_of_every_width_and_sign_give_cpythons_words() {
        assert_eq!(words(0), [3626764237, 1654615998, 3255389356]);
        assert_eq!(words(1), [577090037, 2444712010, 3639700191]);
        assert_eq!(words(16), [1552728491, 2015295599, 2063648756]);
        assert_eq!(words(-16), [1552728491, 2015295599, 2063648756]);
        assert_eq!(words(4294967295), [2728839433, 2661025012, 872737089]);
        assert_eq!(words(4294967296), [485306839, 1508871100, 1794561286]);
        assert_eq!(
            words(9223372036854775822),
            [415027810, 3833462854, 335575753]
        );
        assert_eq!(
            words(-9223372036854775808),
            [2377109768, 1691753470, 4039908392]
        );
        assert_eq!(
            words(18446744073709551621),
            [2192917427, 3085273184, 3778534651]
        );
    }

    #[test]
    fn the_documented_shuffle_of_ten() {
        let mut items = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        CpythonRandom::new(16).shuffle(&mut items);
        assert_eq!(items, [6, 4, 0, 9, 1, 3, 2, 8, 7, 5]);
    }

    /// `r = random.Random(7); [r.randrange(n) for n in (...)]` in CPython 3.11.
    #[test]
    fn bounds_beyond_32_bits_draw_two_words() {
        let mut rng = CpythonRandom::new(7);
        let bounds = [
            1,
            2,
            3,
            1000,
            4294967295,
            4294967296,
            4294967297,
            1099511627779,
            9223372036854775817,
            18446744073709551615,
        ];
        let draws = bounds.map(|n| rng.below(n));
        assert_eq!(
            draws,
            [
                0,
                0,
                1,
                666,
                207388624,
                2301595691,
                2179419893,
                189139603672,
                7713914763314685786,
                4439448776366754703
            ]
        );
    }
}

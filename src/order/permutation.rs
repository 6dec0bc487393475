//! Shuffles without a table: keyed permutations of `0..n` that answer for one position at a time.

use crate::splitmix::SplitMix64;

/// Where the pseudorandom numbers of a shuffle come from: a tree of keys, one per use.
#[derive(Clone, Copy)]
pub(crate) struct Key(u64);

impl Key {
    /// The root of one pass.
    pub(crate) fn of_pass(seed: i64, epoch: u64) -> Self {
        Self(seed as u64).child(epoch)
    }

    /// The key's bits, for whoever draws from it.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// A key of its own for part `tag`.
    pub(crate) fn child(self, tag: u64) -> Self {
        Self(mix(mix(self.0).wrapping_add(tag)))
    }
}

/// Mixes the bits of a word, as a bijection: the first number of SplitMix64 from there.
fn mix(word: u64) -> u64 {
    SplitMix64::new(word).next_u64()
}

/// A keyed permutation of `0..n`: the swap-or-not shuffle of Hoang, Morris and Rogaway (CRYPTO
/// 2012), made for domains of any size, small ones included.
///
/// Each round pairs every `x` with `pivot - x mod n` and swaps the pair or not by one keyed bit
/// that both members agree on. Rounds undo themselves, so the inverse runs them backwards.
#[derive(Clone)]
pub(crate) struct Permutation {
    n: u64,
    rounds: Vec<Round>,
}

#[derive(Clone, Copy)]
struct Round {
    pivot: u64,
    key: u64,
}

impl Permutation {
    /// `n` is at most `i64::MAX`. O(log n).
    pub(crate) fn new(key: Key, n: u64) -> Self {
        debug_assert!(n <= i64::MAX as u64);
        let bits = u64::from(u64::BITS - n.leading_zeros());
        // The paper's bound wants about 6 lg n rounds; the constant is for single-digit domains,
        // where a round may pair nothing.
        let rounds = if n < 2 { 0 } else { 16 + 6 * bits };
        let round = |i| Round {
            // Multiply-shift: the bias is below n / 2^64.
            pivot: ((u128::from(key.child(2 * i).0) * u128::from(n)) >> 64) as u64,
            key: key.child(2 * i + 1).0,
        };
        Self {
            n,
            rounds: (0..rounds).map(round).collect(),
        }
    }

    /// The image of `x < n`.
    pub(crate) fn apply(&self, x: u64) -> u64 {
        self.rounds.iter().fold(x, |x, r| r.swap(x, self.n))
    }

    /// The `x` whose image is `y < n`.
    pub(crate) fn invert(&self, y: u64) -> u64 {
        self.rounds.iter().rev().fold(y, |y, r| r.swap(y, self.n))
    }
}

impl Round {
    fn swap(self, x: u64, n: u64) -> u64 {
        let partner = if self.pivot >= x {
            self.pivot - x
        } else {
            self.pivot + n - x
        };
        let agreed = x.max(partner);
        if mix(agreed ^ self.key) & 1 == 1 {
            partner
        } else {
            x
        }
    }
}

/// A shuffle that keeps neighbours near each other: `0..n` is cut into blocks, the blocks are
/// permuted, and each run of `pool` blocks in that order is permuted through and through.
#[derive(Clone)]
pub(crate) struct BlockShuffle {
    n: u64,
    block: u64,
    pool: u64,
    /// What the last block lacks of a whole one.
    deficit: u64,
    /// Where in the permuted order that last, short block comes.
    short_at: u64,
    order: Permutation,
    key: Key,
}

/// One pool of a [`BlockShuffle`], with its own permutation.
pub(crate) struct Pool {
    number: u64,
    first: u64,
    len: u64,
    inner: Permutation,
}

impl BlockShuffle {
    /// `block` and `pool` are at least 1, `n` at most `i64::MAX / 2`. O(log n).
    pub(crate) fn new(key: Key, n: u64, block: u64, pool: u64) -> Self {
        let block = block.min(n.max(1));
        let blocks = n.div_ceil(block);
        let pool = pool.min(blocks.max(1));
        let order = Permutation::new(key.child(0), blocks);
        Self {
            n,
            block,
            pool,
            deficit: blocks * block - n,
            short_at: blocks.checked_sub(1).map_or(0, |b| order.invert(b)),
            order,
            key: key.child(1),
        }
    }

    /// The pool that holds `position < n`.
    pub(crate) fn pool_at(&self, position: u64) -> Pool {
        let capacity = self.pool * self.block;
        let short_pool = self.short_at / self.pool;
        let lacking = |pool: u64| if pool > short_pool { self.deficit } else { 0 };
        let start = |pool: u64| (pool * capacity - lacking(pool)).min(self.n);
        let number = if position < start(short_pool + 1) {
            position / capacity
        } else {
            (position + self.deficit) / capacity
        };
        let (first, end) = (start(number), start(number + 1));
        Pool {
            number,
            first,
            len: end - first,
            inner: Permutation::new(self.key.child(number), end - first),
        }
    }

    /// The image of a position that `pool` holds.
    pub(crate) fn apply(&self, pool: &Pool, position: u64) -> u64 {
        let mut inside = pool.inner.apply(position - pool.first);
        let first_block = pool.number * self.pool;
        // Behind the short block every offset is what it would be if that block were whole.
        if let Some(slot) = self.short_at.checked_sub(first_block)
            && inside >= (slot + 1) * self.block - self.deficit
        {
            inside += self.deficit;
        }
        let block = self.order.apply(first_block + inside / self.block);
        block * self.block + inside % self.block
    }
}

impl Pool {
    pub(crate) fn holds(&self, position: u64) -> bool {
        position >= self.first && position - self.first < self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(n: u64, f: impl Fn(u64) -> u64) -> Vec<u64> {
        (0..n).map(f).collect()
    }

    fn sorted(mut v: Vec<u64>) -> Vec<u64> {
        v.sort_unstable();
        v
    }

    fn permutation(seed: i64, n: u64) -> Permutation {
        Permutation::new(Key::of_pass(seed, 0), n)
    }

    #[test]
    fn every_small_domain_is_permuted_and_inverted() {
        for n in (0..70).chain([127, 128, 129, 1000]) {
            for seed in 0..5 {
                let p = permutation(seed, n);
                assert_eq!(sorted(images(n, |x| p.apply(x))), images(n, |x| x));
                assert_eq!(images(n, |x| p.invert(p.apply(x))), images(n, |x| x));
            }
        }
    }

    #[test]
    fn the_largest_domain_is_inverted() {
        let n = i64::MAX as u64;
        let p = permutation(3, n);
        for x in [0, 1, n / 2, n - 2, n - 1] {
            let y = p.apply(x);
            assert!(y < n && y != x);
            assert_eq!(p.invert(y), x);
        }
    }

    /// Pearson's statistic over the 24 orders of four items: 23 degrees of freedom, so 49.7 is the
    /// 0.1 % point. The draws are fixed; a biased construction lands in the thousands.
    #[test]
    fn all_orders_of_four_come_equally_often() {
        let passes = 24 * 500;
        let mut counts = std::collections::HashMap::new();
        for epoch in 0..passes {
            let p = Permutation::new(Key::of_pass(15, epoch), 4);
            *counts.entry(images(4, |x| p.apply(x))).or_insert(0u64) += 1;
        }
        assert_eq!(counts.len(), 24);
        let excess = |c: &u64| (*c as f64 - 500.0).powi(2) / 500.0;
        let statistic: f64 = counts.values().map(excess).sum();
        assert!(statistic < 49.7, "{statistic}");
    }

    /// Each window falls into each tenth of the pass equally often, and so do neighbours'
    /// distances.
    #[test]
    fn places_and_distances_are_uniform() {
        let (n, passes) = (50u64, 4000u64);
        let mut places = [0u64; 10];
        let mut follows = 0u64;
        for epoch in 0..passes {
            let p = Permutation::new(Key::of_pass(-4, epoch), n);
            places[(p.apply(7) / 5) as usize] += 1;
            follows += u64::from(p.apply(8) == p.apply(7) + 1);
        }
        // 400 expected, standard deviation 19; 80 expected, standard deviation 8.9.
        assert!(places.iter().all(|c| c.abs_diff(400) < 80), "{places:?}");
        assert!(follows.abs_diff(80) < 40, "{follows}");
    }

    #[test]
    fn seeds_epochs_and_children_are_unrelated() {
        let base = images(100, |x| permutation(1, 100).apply(x));
        let others = [
            permutation(2, 100),
            permutation(-1, 100),
            Permutation::new(Key::of_pass(1, 1), 100),
            Permutation::new(Key::of_pass(1, 0).child(0), 100),
            Permutation::new(Key::of_pass(0, 1), 100),
        ];
        for other in others {
            let same = (0..100).filter(|&x| other.apply(x) == base[x as usize]);
            assert!(same.count() < 10);
        }
    }

    fn block_order(n: u64, block: u64, pool: u64, epoch: u64) -> Vec<u64> {
        let shuffle = BlockShuffle::new(Key::of_pass(9, epoch), n, block, pool);
        images(n, |p| shuffle.apply(&shuffle.pool_at(p), p))
    }

    #[test]
    fn block_shuffles_are_permutations() {
        for n in 0..40 {
            for block in [1, 2, 3, 5, 7, 39, 40, u64::MAX] {
                for pool in [1, 2, 3, 8, u64::MAX] {
                    for epoch in 0..3 {
                        let order = block_order(n, block, pool, epoch);
                        assert_eq!(sorted(order), images(n, |x| x), "{n} {block} {pool}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_pool_holds_whole_blocks_and_no_more_than_it_may() {
        let (n, block, pool) = (103, 5, 4);
        for epoch in 0..20 {
            let shuffle = BlockShuffle::new(Key::of_pass(9, epoch), n, block, pool);
            let (mut position, mut seen) = (0, 0);
            while position < n {
                let p = shuffle.pool_at(position);
                let range = p.first..p.first + p.len;
                assert_eq!(p.first, position);
                assert!(range.clone().all(|x| p.holds(x)) && !p.holds(range.end));
                let mut blocks: Vec<u64> = range
                    .clone()
                    .map(|x| shuffle.apply(&p, x) / block)
                    .collect();
                blocks.sort_unstable();
                blocks.dedup();
                assert!(blocks.len() as u64 <= pool);
                seen += blocks.len();
                position = range.end;
            }
            // Were a block split between pools, it would be counted twice.
            assert_eq!(seen as u64, n.div_ceil(block));
        }
    }
}

//! How far a loader runs ahead of its consumer.

/// How far the loader runs ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct PrefetchOptions {
    /// Batches read ahead of the one in use. 0 reads each batch when it is asked for, on the
    /// consumer's thread: a baseline. Default 2.
    pub batches: usize,
    /// Bytes of batches read ahead. A batch that alone exceeds it is still read, alone. Default
    /// 16 GiB.
    pub bytes: u64,
    /// Bytes of planes that a batch leaves in memory for the next one, where the two share rows: a
    /// pass over consecutive windows then reads each plane once. 0 reads every batch anew. Default
    /// 4 GiB.
    pub carry: u64,
    /// How far towards the device the next batch gets before it is asked for.
    pub to: PrefetchTo,
}

impl Default for PrefetchOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl PrefetchOptions {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            batches: 2,
            bytes: 16 << 30,
            carry: 4 << 30,
            to: PrefetchTo::Auto,
        }
    }

    /// Sets [`batches`](Self::batches).
    #[must_use]
    pub const fn with_batches(mut self, batches: usize) -> Self {
        self.batches = batches;
        self
    }

    /// Sets [`bytes`](Self::bytes).
    #[must_use]
    pub const fn with_bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets [`carry`](Self::carry).
    #[must_use]
    pub const fn with_carry(mut self, carry: u64) -> Self {
        self.carry = carry;
        self
    }

    /// Sets [`to`](Self::to).
    #[must_use]
    pub const fn with_to(mut self, to: PrefetchTo) -> Self {
        self.to = to;
        self
    }
}

/// How far towards the device the next batch gets before it is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrefetchTo {
    /// To the device where that is possible, else to the host.
    #[default]
    Auto,
    /// Batches wait in host memory; each is uploaded when it is asked for. Needs no memory of the
    /// device beyond the batch in use.
    Host,
    /// One of the batches read ahead, the next, is on its way to the device or there: its raw
    /// unique planes take memory beside the batch in use. For devices with an upload thread.
    Device,
}

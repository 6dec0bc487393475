//! How far a loader runs ahead of its consumer.

/// How far the loader runs ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prefetch {
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

impl Default for Prefetch {
    fn default() -> Self {
        Self {
            batches: 2,
            bytes: 16 << 30,
            carry: 4 << 30,
            to: PrefetchTo::default(),
        }
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

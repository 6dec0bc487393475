//! Who holds the buffers of a pool: what each lease is for, and how far it has come.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Leases that an error names; the oldest ones, which are in the way of all others.
const NAMED: usize = 6;

/// Those that are not home.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// By age.
    leases: BTreeMap<LeaseId, Lease>,
    next: u64,
}

/// Names a lease within its pool, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LeaseId(u64);

#[derive(Debug)]
struct Lease {
    purpose: Cow<'static, str>,
    owner: Owner,
}

#[derive(Clone, Copy, Debug)]
enum Owner {
    /// Whoever asked for it, and fills it.
    Lessee,
    /// Burn: a tensor, or the device's copy queue.
    Bytes,
}

impl Leases {
    /// A new lease.
    pub(super) fn add(&mut self, purpose: Cow<'static, str>) -> LeaseId {
        let id = LeaseId(self.next);
        self.next += 1;
        let owner = Owner::Lessee;
        self.leases.insert(id, Lease { purpose, owner });
        id
    }

    /// The lease became `Bytes`.
    pub(super) fn became_bytes(&mut self, id: LeaseId) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.owner = Owner::Bytes;
        }
    }

    /// The lease is home.
    pub(super) fn remove(&mut self, id: LeaseId) {
        self.leases.remove(&id);
    }
}

impl fmt::Display for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Lease { purpose, owner }) in self.leases.values().take(NAMED).enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            let owner = match owner {
                Owner::Lessee => "being filled",
                Owner::Bytes => "handed to Burn",
            };
            write!(f, "{comma}{purpose} ({owner})")?;
        }
        match self.leases.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_named_with_their_owners() {
        let mut held = Leases::default();
        assert_eq!(held.to_string(), "");
        let mut ids: Vec<LeaseId> = (0..9)
            .map(|i| held.add(format!("lease {i}").into()))
            .collect();
        held.became_bytes(ids[1]);
        held.remove(ids.remove(0));
        assert_eq!(
            held.to_string(),
            "lease 1 (handed to Burn), lease 2 (being filled), lease 3 (being filled), \
             lease 4 (being filled), lease 5 (being filled), lease 6 (being filled), and 2 more"
        );
        ids.into_iter().for_each(|id| held.remove(id));
        assert_eq!(held.to_string(), "");
    }
}

//! The read groups of a batch: what is read by itself, once.

use crate::error::Result;
use crate::plan::roles::Role;

/// A group of channels that is read by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadGroup {
    /// Inputs, and labels that come from the inputs' store.
    Prognostic,
    /// Boundaries.
    Boundary,
    /// Labels that come from a store of their own.
    Label,
}

impl ReadGroup {
    /// As messages say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prognostic => "prognostic",
            Self::Boundary => "boundary",
            Self::Label => "label",
        }
    }
}

/// One value for each [`ReadGroup`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerGroup<T> {
    /// Of [`ReadGroup::Prognostic`].
    pub prognostic: T,
    /// Of [`ReadGroup::Boundary`].
    pub boundary: T,
    /// Of [`ReadGroup::Label`]: present iff labels have a store of their own.
    pub label: Option<T>,
}

impl<T> PerGroup<T> {
    /// The value of a group, if the group is there.
    pub fn get(&self, group: ReadGroup) -> Option<&T> {
        match group {
            ReadGroup::Prognostic => Some(&self.prognostic),
            ReadGroup::Boundary => Some(&self.boundary),
            ReadGroup::Label => self.label.as_ref(),
        }
    }

    /// The group whose planes a kind of tensor shows.
    pub fn group_of(&self, role: Role) -> ReadGroup {
        match role {
            Role::Boundary => ReadGroup::Boundary,
            Role::Label if self.label.is_some() => ReadGroup::Label,
            Role::Input | Role::Label => ReadGroup::Prognostic,
        }
    }

    /// The value of the group whose planes a kind of tensor shows.
    pub fn of(&self, role: Role) -> &T {
        match role {
            Role::Input => &self.prognostic,
            Role::Boundary => &self.boundary,
            Role::Label => self.label.as_ref().unwrap_or(&self.prognostic),
        }
    }

    /// The groups and their values: prognostic, boundary, label.
    pub fn iter(&self) -> impl Iterator<Item = (ReadGroup, &T)> {
        let label = self.label.as_ref().map(|label| (ReadGroup::Label, label));
        [
            (ReadGroup::Prognostic, &self.prognostic),
            (ReadGroup::Boundary, &self.boundary),
        ]
        .into_iter()
        .chain(label)
    }

    /// References to the values.
    pub fn as_ref(&self) -> PerGroup<&T> {
        PerGroup {
            prognostic: &self.prognostic,
            boundary: &self.boundary,
            label: self.label.as_ref(),
        }
    }

    /// Pairs; there is a label only where both have one.
    pub fn zip<U>(self, other: PerGroup<U>) -> PerGroup<(T, U)> {
        PerGroup {
            prognostic: (self.prognostic, other.prognostic),
            boundary: (self.boundary, other.boundary),
            label: self.label.zip(other.label),
        }
    }

    /// Makes another value of each, in the order of [`iter`](Self::iter).
    pub fn map<U>(self, mut f: impl FnMut(ReadGroup, T) -> U) -> PerGroup<U> {
        PerGroup {
            prognostic: f(ReadGroup::Prognostic, self.prognostic),
            boundary: f(ReadGroup::Boundary, self.boundary),
            label: self.label.map(|label| f(ReadGroup::Label, label)),
        }
    }

    /// Makes another value of each, in the order of [`iter`](Self::iter), up to the first failure.
    ///
    /// # Errors
    /// The first of `f`.
    pub fn try_map<U>(self, mut f: impl FnMut(ReadGroup, T) -> Result<U>) -> Result<PerGroup<U>> {
        let label = self.label;
        Ok(PerGroup {
            prognostic: f(ReadGroup::Prognostic, self.prognostic)?,
            boundary: f(ReadGroup::Boundary, self.boundary)?,
            label: label.map(|label| f(ReadGroup::Label, label)).transpose()?,
        })
    }
}

//! The kinds of tensors in a batch: what the model gets at every rollout step.

use crate::error::Result;

/// What a tensor of a batch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// [`ModelBatch::input`](crate::ModelBatch::input).
    Input,
    /// [`ModelBatch::boundary`](crate::ModelBatch::boundary).
    Boundary,
    /// [`ModelBatch::label`](crate::ModelBatch::label).
    Label,
}

impl Role {
    /// As messages say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Boundary => "boundary",
            Self::Label => "label",
        }
    }
}

/// One value for each [`Role`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerRole<T> {
    /// Of [`Role::Input`].
    pub input: T,
    /// Of [`Role::Boundary`].
    pub boundary: T,
    /// Of [`Role::Label`].
    pub label: T,
}

impl<T> PerRole<T> {
    /// Makes the value of each role.
    pub fn new(mut f: impl FnMut(Role) -> T) -> Self {
        Self {
            input: f(Role::Input),
            boundary: f(Role::Boundary),
            label: f(Role::Label),
        }
    }

    /// The value of a role.
    pub fn of(&self, role: Role) -> &T {
        match role {
            Role::Input => &self.input,
            Role::Boundary => &self.boundary,
            Role::Label => &self.label,
        }
    }

    /// The roles and their values: input, boundary, label.
    pub fn iter(&self) -> impl Iterator<Item = (Role, &T)> {
        [
            (Role::Input, &self.input),
            (Role::Boundary, &self.boundary),
            (Role::Label, &self.label),
        ]
        .into_iter()
    }

    /// The roles and their values, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Role, &mut T)> {
        [
            (Role::Input, &mut self.input),
            (Role::Boundary, &mut self.boundary),
            (Role::Label, &mut self.label),
        ]
        .into_iter()
    }

    /// References to the values.
    pub fn as_ref(&self) -> PerRole<&T> {
        PerRole {
            input: &self.input,
            boundary: &self.boundary,
            label: &self.label,
        }
    }

    /// Makes another value of each, in the order of [`iter`](Self::iter).
    pub fn map<U>(self, mut f: impl FnMut(Role, T) -> U) -> PerRole<U> {
        PerRole {
            input: f(Role::Input, self.input),
            boundary: f(Role::Boundary, self.boundary),
            label: f(Role::Label, self.label),
        }
    }

    /// Makes another value of each, in the order of [`iter`](Self::iter), up to the first failure.
    ///
    /// # Errors
    /// The first of `f`.
    pub fn try_map<U>(self, mut f: impl FnMut(Role, T) -> Result<U>) -> Result<PerRole<U>> {
        Ok(PerRole {
            input: f(Role::Input, self.input)?,
            boundary: f(Role::Boundary, self.boundary)?,
            label: f(Role::Label, self.label)?,
        })
    }
}

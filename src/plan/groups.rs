//! The read groups of a batch.

/// A group of channels that is read by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadGroup {
    Prognostic,
    Boundary,
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

//! What can go wrong, and where.

use std::path::PathBuf;

/// The result of a fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything this crate can fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field of the configuration has a value that no network can have.
    #[error("invalid configuration: {field} {reason}")]
    InvalidConfig {
        /// The field, as [`SamudraConfig`](crate::SamudraConfig) spells it.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },

    /// The original's configuration asks for something this crate does not build.
    #[error("unsupported model configuration: {key} = {value}")]
    UnsupportedOption {
        /// The key, with dots between levels.
        key: &'static str,
        /// The value found.
        value: String,
    },

    /// A convolution would wrap around the globe more than once.
    ///
    /// Circular padding repeats columns of the row itself, so a row needs at least as many
    /// columns as are padded on one side.
    #[error(
        "the grid is too narrow: {columns} columns remain at U-Net level {level}, and the \
         convolution there pads {padding} columns on each side"
    )]
    GridTooNarrow {
        /// How often the grid was halved.
        level: usize,
        /// Columns at that level.
        columns: usize,
        /// Columns padded on each side.
        padding: usize,
    },

    /// Pooling would leave no row or no column.
    #[error("the grid {ny} x {nx} can not be halved {levels} times")]
    GridTooSmall {
        /// Rows.
        ny: usize,
        /// Columns.
        nx: usize,
        /// Poolings.
        levels: usize,
    },

    /// The coordinates that the configuration asks for are missing or do not fit the grid.
    #[error("{axis} needs {expected} coordinate values, found {found}")]
    Coordinates {
        /// `latitude` or `longitude`.
        axis: &'static str,
        /// The grid's size along the axis.
        expected: usize,
        /// Values given; 0 when there are none.
        found: usize,
    },

    /// A weight file can not be read.
    #[error("can not read weights from {}", path.display())]
    ReadWeights {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// A weight file can not be written.
    #[error("can not write weights to {}", path.display())]
    WriteWeights {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// The file name does not say which format the weights are in.
    #[error("{}: expected a name that ends in .safetensors, .pt or .pth", path.display())]
    UnknownWeightFormat {
        /// The file.
        path: PathBuf,
    },

    /// The weights do not fit the network. Nothing was changed.
    #[error("the weights do not fit the network: {0}")]
    WeightMismatch(WeightMismatch),

    /// Weights hold a NaN or an infinity.
    #[error(
        "{name} has {bad} of {len} values that are not finite{}",
        match others {
            0 => String::new(),
            n => format!(", and so have {n} other tensors"),
        }
    )]
    NonFiniteWeights {
        /// The first such tensor by name.
        name: String,
        /// Its values that are NaN or infinite.
        bad: usize,
        /// All its values.
        len: usize,
        /// Other tensors that hold such values.
        others: usize,
    },

    /// A gradient holds a NaN or an infinity.
    #[error("the total gradient norm is {norm}")]
    NonFiniteGradient {
        /// The norm over all parameters.
        norm: f32,
    },
}

impl Error {
    /// Whether weights were read but do not belong to this network.
    pub fn is_weight_mismatch(&self) -> bool {
        matches!(self, Self::WeightMismatch(_))
    }

    /// Whether the grid, not the network, has to change.
    pub fn is_grid(&self) -> bool {
        matches!(
            self,
            Self::GridTooNarrow { .. } | Self::GridTooSmall { .. } | Self::Coordinates { .. }
        )
    }
}

/// Every difference between a set of named tensors and the network's own.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WeightMismatch {
    /// Names that the network has and the weights lack.
    pub missing: Vec<String>,
    /// Names that the weights have and the network lacks.
    pub unused: Vec<String>,
    /// Tensors of another shape.
    pub shapes: Vec<ShapeMismatch>,
    /// Tensors whose values the network can not take, with the reason.
    pub values: Vec<String>,
}

impl WeightMismatch {
    /// Whether there is no difference.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty()
            && self.unused.is_empty()
            && self.shapes.is_empty()
            && self.values.is_empty()
    }
}

/// A tensor of another shape than the network's.
#[derive(Debug, PartialEq, Eq)]
pub struct ShapeMismatch {
    /// The tensor's name.
    pub name: String,
    /// The network's shape.
    pub expected: Vec<usize>,
    /// The weights' shape.
    pub found: Vec<usize>,
}

impl std::fmt::Display for WeightMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut separator = "";
        for (what, names) in [
            ("missing", &self.missing),
            ("unused", &self.unused),
            ("bad values", &self.values),
        ] {
            if !names.is_empty() {
                write!(f, "{separator}{what}: {}", names.join(", "))?;
                separator = "; ";
            }
        }
        for ShapeMismatch {
            name,
            expected,
            found,
        } in &self.shapes
        {
            write!(
                f,
                "{separator}{name} has shape {found:?} instead of {expected:?}"
            )?;
            separator = "; ";
        }
        Ok(())
    }
}

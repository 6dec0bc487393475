//! Weights by name: safetensors and PyTorch files in, safetensors out.

use std::collections::BTreeMap;
use std::path::Path;

use burn::store::burn_pack::Tensor as StoredTensor;
use burn::store::{ModuleStore, PytorchStore, SafetensorsStore, bridge};
use burn::tensor::{DType, TensorData};
use safetensors::tensor::{Dtype, TensorView};

use crate::error::{Error, Result, ShapeMismatch, WeightMismatch};
use crate::samudra::Samudra;
use crate::state_walk::{Constant, Slot};

/// Named tensors, as PyTorch's `state_dict` holds them.
///
/// Names and shapes are the original's: kernels `(out, in, y, x)`, linear layers `(out, in)`,
/// buffers under their own names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateDict {
    tensors: BTreeMap<String, TensorData>,
}

impl StateDict {
    /// Reads `.safetensors`, `.pt` or `.pth`; the latter two with the weights at the top level.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownWeightFormat`] for another ending; [`Error::ReadWeights`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("safetensors") => Self::from_safetensors(path),
            Some("pt" | "pth") => Self::from_pytorch(path),
            _ => Err(Error::UnknownWeightFormat { path: path.into() }),
        }
    }

    /// Reads a safetensors file.
    ///
    /// # Errors
    ///
    /// [`Error::ReadWeights`].
    pub fn from_safetensors(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::collect(path, &mut SafetensorsStore::from_file(path))
    }

    /// Reads a PyTorch file that holds a state dict and nothing else.
    ///
    /// # Errors
    ///
    /// [`Error::ReadWeights`].
    pub fn from_pytorch(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::collect(path, &mut pytorch(path))
    }

    /// Reads the state dict under `key` of a PyTorch checkpoint; the original's checkpoints keep
    /// it under `model`.
    ///
    /// # Errors
    ///
    /// [`Error::ReadWeights`].
    pub fn from_pytorch_checkpoint(path: impl AsRef<Path>, key: &str) -> Result<Self> {
        let path = path.as_ref();
        Self::collect(path, &mut pytorch(path).with_top_level_key(key))
    }

    fn collect<S>(path: &Path, store: &mut S) -> Result<Self>
    where
        S: ModuleStore<Error: std::error::Error + Send + Sync + 'static>,
    {
        let fail = |source| Error::ReadWeights {
            path: path.into(),
            source,
        };
        let stored = store
            .get_all_tensors()
            .map_err(|error| fail(Box::new(error)))?;
        let load = |(name, tensor): (&String, &StoredTensor)| {
            let data = bridge::to_data(tensor).map_err(|error| fail(Box::new(error)))?;
            Ok((name.clone(), data))
        };
        let tensors = stored.iter().map(load).collect::<Result<_>>()?;
        Ok(Self { tensors })
    }

    /// Writes a safetensors file that PyTorch's `load_state_dict` takes, and this crate.
    ///
    /// # Errors
    ///
    /// [`Error::WriteWeights`].
    pub fn write_safetensors(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.write(path).map_err(|source| Error::WriteWeights {
            path: path.into(),
            source,
        })
    }

    fn write(&self, path: &Path) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let views = self.tensors.iter().map(|(name, data)| {
            let shape = data.shape().to_vec();
            let view = TensorView::new(stored_dtype(data.dtype())?, shape, data.as_bytes())?;
            Ok((name, view))
        });
        let views = views.collect::<Result<Vec<_>, Box<dyn std::error::Error + Send + Sync>>>()?;
        // Not `serialize_to_file`: what that writes (0.8.0) only its owner may read.
        Ok(std::fs::write(path, safetensors::serialize(views, None)?)?)
    }

    /// Refuses NaN and infinities: a network that holds one predicts nothing else.
    ///
    /// # Errors
    ///
    /// [`Error::NonFiniteWeights`] with the first tensor's name.
    pub fn check_finite(&self) -> Result<()> {
        let bad = self
            .iter()
            .map(|(name, data)| (name, data, non_finite(data)));
        let mut bad = bad.filter(|(_, _, count)| *count > 0);
        match bad.next() {
            None => Ok(()),
            Some((name, data, count)) => Err(Error::NonFiniteWeights {
                name: name.to_owned(),
                bad: count,
                len: data.num_elements(),
                others: bad.count(),
            }),
        }
    }

    /// The tensor of a name.
    pub fn get(&self, name: &str) -> Option<&TensorData> {
        self.tensors.get(name)
    }

    /// Puts a tensor under a name and returns the one that was there.
    pub fn insert(&mut self, name: impl Into<String>, data: TensorData) -> Option<TensorData> {
        self.tensors.insert(name.into(), data)
    }

    /// Takes a tensor out.
    pub fn remove(&mut self, name: &str) -> Option<TensorData> {
        self.tensors.remove(name)
    }

    /// Every name with its tensor, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &TensorData)> {
        self.tensors.iter().map(|(name, data)| (&**name, data))
    }

    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }
}

/// Values that are NaN or infinite.
fn non_finite(data: &TensorData) -> usize {
    match data.as_slice::<f32>() {
        Ok(values) => values.iter().filter(|v| !v.is_finite()).count(),
        Err(_) if data.dtype().is_float() => data.iter::<f64>().filter(|v| !v.is_finite()).count(),
        Err(_) => 0,
    }
}

fn pytorch(path: &Path) -> PytorchStore {
    // The layer list has gaps where layers have no parameters, and names must keep them.
    PytorchStore::from_file(path).map_indices_contiguous(false)
}

fn stored_dtype(dtype: DType) -> Result<Dtype, String> {
    match dtype {
        DType::F64 => Ok(Dtype::F64),
        DType::F32 => Ok(Dtype::F32),
        DType::F16 => Ok(Dtype::F16),
        DType::BF16 => Ok(Dtype::BF16),
        DType::I64 => Ok(Dtype::I64),
        DType::I32 => Ok(Dtype::I32),
        other => Err(format!("{other:?} tensors are not written")),
    }
}

/// Which tensors a state dict has to hold.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    Everything,
    Parameters,
}

impl Samudra {
    /// Copies every tensor to the host: parameters, running statistics, and the original's
    /// constant buffers, so that a strict `load_state_dict` in PyTorch is content.
    ///
    /// `num_batches_tracked` is written as 0; nothing depends on it while momentum is fixed.
    pub fn state_dict(&self) -> StateDict {
        let mut dict = StateDict::default();
        self.clone().slots(&mut |name, slot| {
            dict.insert(name, slot.get());
        });
        dict
    }

    /// Takes over every parameter and buffer. Values are converted to float32.
    ///
    /// # Errors
    ///
    /// [`Error::WeightMismatch`] with everything that does not fit; the network is unchanged then.
    pub fn load_state_dict(&mut self, dict: &StateDict) -> Result<()> {
        self.load(dict, Scope::Everything)
    }

    /// Takes over the learned parameters alone and keeps the buffers: for weights that are an
    /// average over training, which have no buffers of their own.
    ///
    /// # Errors
    ///
    /// [`Error::WeightMismatch`]; a buffer in `dict` counts as unused.
    pub fn load_parameters(&mut self, dict: &StateDict) -> Result<()> {
        self.load(dict, Scope::Parameters)
    }

    /// [`StateDict::read`] and [`load_state_dict`](Self::load_state_dict) in one.
    ///
    /// # Errors
    ///
    /// Those of the two.
    pub fn load_weights(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.load_state_dict(&StateDict::read(path)?)
    }

    fn load(&mut self, dict: &StateDict, scope: Scope) -> Result<()> {
        let mismatch = self.mismatch(dict, scope);
        if !mismatch.is_empty() {
            return Err(Error::WeightMismatch(mismatch));
        }
        self.slots(&mut |name, slot| {
            if let Some(data) = dict.get(name) {
                slot.set(data.clone());
            }
        });
        Ok(())
    }

    fn mismatch(&self, dict: &StateDict, scope: Scope) -> WeightMismatch {
        let mut mismatch = WeightMismatch::default();
        let mut unused: BTreeMap<&str, &TensorData> = dict.iter().collect();
        self.clone().slots(&mut |name, slot| {
            let tied = matches!(slot, Slot::Tied(..));
            if scope == Scope::Parameters && slot.parameter().is_none() && !tied {
                return;
            }
            let Some(data) = unused.remove(name) else {
                // An average has each parameter once.
                if scope == Scope::Everything || !tied {
                    mismatch.missing.push(name.to_string());
                }
                return;
            };
            let expected = slot.shape();
            if data.shape()[..] != expected {
                mismatch.shapes.push(ShapeMismatch {
                    name: name.to_string(),
                    expected,
                    found: data.shape().to_vec(),
                });
            } else if let Some(reason) = objection(&slot, data, dict) {
                mismatch.values.push(format!("{name} {reason}"));
            }
        });
        mismatch.unused = unused.into_keys().map(String::from).collect();
        mismatch
    }
}

/// Why a slot can not take data of the right shape.
fn objection(slot: &Slot<'_>, data: &TensorData, dict: &StateDict) -> Option<String> {
    match slot {
        Slot::Tied(first, _) => (dict.get(first) != Some(data))
            .then(|| format!("is not {first}, with which it is one parameter")),
        Slot::Constant(Constant::BatchCounter) => None,
        _ if !data.dtype().is_float() => Some(format!("is {:?}, not floating point", data.dtype())),
        Slot::Constant(Constant::Cap(expected)) => {
            let found: f32 = data.iter::<f32>().next()?;
            (found != *expected).then(|| format!("is {found}, this network has {expected}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_not_finite_are_named() {
        let mut dict = StateDict::default();
        let mut put = |name: &str, values: Vec<f32>| {
            let shape = [values.len()];
            dict.insert(name, TensorData::new(values, shape));
            dict.check_finite().map_err(|error| error.to_string())
        };
        assert_eq!(put("a.weight", vec![1.0, -2.0]), Ok(()));
        let named = "d.bias has 2 of 3 values that are not finite";
        let values = vec![f32::NAN, 0.0, f32::NEG_INFINITY];
        assert_eq!(put("d.bias", values), Err(named.to_owned()));
        let both = put("e", vec![f32::INFINITY]).unwrap_err();
        assert_eq!(both, format!("{named}, and so have 1 other tensors"));
        dict.remove("d.bias");
        dict.remove("e");
        dict.insert("count", TensorData::new(vec![i64::MAX], [0; 0]));
        assert!(dict.check_finite().is_ok());
        dict.insert("wide", TensorData::new(vec![f64::NAN], [1]));
        assert!(dict.check_finite().is_err());
    }

    #[test]
    fn any_name_comes_back_and_an_unknown_type_is_refused() {
        let folder = std::env::temp_dir().join(format!("samudra-weights-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("dict.safetensors");
        let mut dict = StateDict::default();
        let values = TensorData::new(vec![1.5_f32, -2.0], [2, 1]);
        dict.insert("a \"quoted\" \\ name", values.clone());
        dict.insert("count", TensorData::new(vec![3_i64], [0; 0]));
        dict.write_safetensors(&path).unwrap();
        let read = StateDict::read(&path).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read.get("a \"quoted\" \\ name"), Some(&values));

        dict.insert("flags", TensorData::new(vec![true], [1]));
        let error = dict.write_safetensors(&path).unwrap_err();
        assert!(matches!(error, Error::WriteWeights { .. }), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

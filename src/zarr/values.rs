//! What the stored values of an array mean: their type, which of them are missing, and how they are
//! packed.
//!
//! Missing values are told by the value as it is stored, before it is unpacked. Packed values are
//! `stored * scale_factor + add_offset`, in double precision: what xarray does for numbers that it
//! reads from JSON. Every other type becomes a double first as well, which is exact for all but
//! integers beyond 2^53, and is then rounded once.

use crate::error::{ErrorKind, Result};
use crate::zarr::group::ZarrGroup;
use crate::zarr::metadata::ArrayMeta;
use crate::zarr::missing_values::{Number, named, number};
use half::f16;
use smallvec::SmallVec;
use std::mem::size_of;

/// Values of a type that mean "missing".
pub(crate) type Marks<T> = SmallVec<[T; 2]>;

/// The type of stored values, with those of them that mean "missing".
#[derive(Clone, Debug)]
pub(crate) enum Stored {
    Int8(Marks<i8>),
    Int16(Marks<i16>),
    Int32(Marks<i32>),
    Int64(Marks<i64>),
    Uint8(Marks<u8>),
    Uint16(Marks<u16>),
    Uint32(Marks<u32>),
    Uint64(Marks<u64>),
    Float16(Marks<f16>),
    Float32(Marks<f32>),
    Float64(Marks<f64>),
}

/// Does the same for every type of values.
macro_rules! for_type {
    ($stored:expr, $marks:ident => $body:expr) => {
        match $stored {
            Stored::Int8($marks) => $body,
            Stored::Int16($marks) => $body,
            Stored::Int32($marks) => $body,
            Stored::Int64($marks) => $body,
            Stored::Uint8($marks) => $body,
            Stored::Uint16($marks) => $body,
            Stored::Uint32($marks) => $body,
            Stored::Uint64($marks) => $body,
            Stored::Float16($marks) => $body,
            Stored::Float32($marks) => $body,
            Stored::Float64($marks) => $body,
        }
    };
}
pub(crate) use for_type;

/// A type of stored values.
pub(crate) trait StoredValue: Copy + PartialEq + std::fmt::Debug {
    /// The value of `size_of::<Self>()` bytes in this machine's order.
    fn of_bytes(bytes: &[u8]) -> Self;

    /// This type's value for a number, if it has one.
    fn of_number(number: Number) -> Option<Self>;

    fn to_f64(self) -> f64;

    /// The value as a whole number; `None` for floats, and where it is too large.
    fn to_i64(self) -> Option<i64>;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl StoredValue for $type {
            fn of_bytes(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<Self>()];
                own.copy_from_slice(bytes);
                Self::from_ne_bytes(own)
            }

            fn of_number(number: Number) -> Option<Self> {
                match number {
                    Number::Int(n) => Self::try_from(n).ok(),
                    Number::Float(x) if x.fract() == 0.0 => Self::try_from(x as i128).ok(),
                    Number::Float(_) => None,
                }
            }

            fn to_f64(self) -> f64 {
                self as f64
            }

            fn to_i64(self) -> Option<i64> {
                i64::try_from(self).ok()
            }
        }
    )*};
}

macro_rules! floats {
    ($($type:ty, $of_f64:expr, $to_f64:expr);*) => {$(
        impl StoredValue for $type {
            fn of_bytes(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<Self>()];
                own.copy_from_slice(bytes);
                Self::from_ne_bytes(own)
            }

            fn of_number(number: Number) -> Option<Self> {
                let double = match number {
                    Number::Int(n) => n as f64,
                    Number::Float(x) => x,
                };
                // NaN means "missing" wherever it is stored, named or not.
                (!double.is_nan()).then(|| $of_f64(double))
            }

            fn to_f64(self) -> f64 {
                $to_f64(self)
            }

            fn to_i64(self) -> Option<i64> {
                None
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);
floats!(
    f16, f16::from_f64, f16::to_f64;
    f32, |x: f64| x as f32, f64::from;
    f64, |x: f64| x, |x: f64| x
);

/// `stored * scale + offset`, each where there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Packing {
    scale: Option<f64>,
    offset: Option<f64>,
}

impl Packing {
    /// Whether there is neither.
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn unpack(&self, stored: f64) -> f64 {
        let scaled = self.scale.map_or(stored, |scale| stored * scale);
        self.offset.map_or(scaled, |offset| scaled + offset)
    }

    fn of(group: &ZarrGroup, meta: &ArrayMeta) -> Result<Self> {
        let read = |name: &str| {
            let Some(value) = meta.attributes.get(name) else {
                return Ok(None);
            };
            let only = value.as_array().filter(|list| list.len() == 1);
            let found = match number(only.map_or(value, |list| &list[0])) {
                _ if value.is_string() => None,
                Some(Number::Int(n)) => Some(n as f64),
                Some(Number::Float(x)) => Some(x),
                None => None,
            };
            let found = found.filter(|x| x.is_finite());
            found.map(Some).ok_or_else(|| {
                let message = format!("{name} is no number to unpack by");
                group
                    .error(ErrorKind::Metadata, &meta.name, message)
                    .expected("one finite number")
                    .found(value)
            })
        };
        Ok(Self {
            scale: read("scale_factor")?,
            offset: read("add_offset")?,
        })
    }
}

/// How the values of an array are stored.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    pub(crate) stored: Stored,
    pub(crate) packing: Packing,
}

impl Values {
    /// What the metadata says; `None` for a type that is no number.
    ///
    /// # Errors
    /// Attributes about missing or packed values that are no numbers; `_Unsigned` that gives the
    /// bits another meaning.
    pub(crate) fn of(group: &ZarrGroup, meta: &ArrayMeta) -> Result<Option<Self>> {
        let Some(stored) = Stored::of(meta.dtype_name(), &named(group, meta)?) else {
            return Ok(None);
        };
        if let Some(unsigned) = meta.text("_Unsigned") {
            let other = match unsigned {
                "true" => meta.dtype_name().starts_with("int"),
                _ => meta.dtype_name().starts_with("uint"),
            };
            if other {
                return Err(group
                    .error(
                        ErrorKind::Metadata,
                        &meta.name,
                        "_Unsigned gives values another type than they are stored in, which is not served",
                    )
                    .expected("values of the type they are meant to have")
                    .found(format!("{} with _Unsigned {unsigned}", meta.dtype)));
            }
        }
        let packing = Packing::of(group, meta)?;
        Ok(Some(Self { stored, packing }))
    }

    /// Bytes of a stored value.
    pub(crate) fn size(&self) -> usize {
        fn size<T>(_: &Marks<T>) -> usize {
            size_of::<T>()
        }
        for_type!(&self.stored, marks => size(marks))
    }

    /// The marks of values that lie in memory as they are wanted; `None` where they have to be
    /// converted or unpacked.
    pub(crate) fn as_they_lie(&self) -> Option<&[f32]> {
        match &self.stored {
            Stored::Float32(marks) if self.packing.is_none() => Some(marks),
            _ => None,
        }
    }

    /// Values as they are wanted, NaN where they are missing.
    ///
    /// # Panics
    /// `stored` is not as many values as `out`.
    pub(crate) fn unpack_into(&self, stored: &[u8], out: &mut [f32]) {
        assert_eq!(stored.len(), out.len() * self.size(), "as many values");
        for_type!(&self.stored, marks => unpack_into(stored, marks, self.packing, out));
    }

    /// Every stored value that means "missing", in words; NaN aside.
    pub(crate) fn marks(&self) -> Vec<String> {
        for_type!(&self.stored, marks => marks.iter().map(|mark| format!("{mark:?}")).collect())
    }
}

impl Stored {
    /// The type by its name in v3's words.
    fn of(name: &str, named: &[Number]) -> Option<Self> {
        fn marks<T: StoredValue>(named: &[Number]) -> Marks<T> {
            let mut marks = Marks::new();
            for mark in named.iter().filter_map(|number| T::of_number(*number)) {
                if !marks.contains(&mark) {
                    marks.push(mark);
                }
            }
            marks
        }
        Some(match name {
            "int8" => Self::Int8(marks(named)),
            "int16" => Self::Int16(marks(named)),
            "int32" => Self::Int32(marks(named)),
            "int64" => Self::Int64(marks(named)),
            "uint8" => Self::Uint8(marks(named)),
            "uint16" => Self::Uint16(marks(named)),
            "uint32" => Self::Uint32(marks(named)),
            "uint64" => Self::Uint64(marks(named)),
            "float16" => Self::Float16(marks(named)),
            "float32" => Self::Float32(marks(named)),
            "float64" => Self::Float64(marks(named)),
            _ => return None,
        })
    }
}

fn unpack_into<T: StoredValue>(bytes: &[u8], marks: &[T], packing: Packing, out: &mut [f32]) {
    let stored = bytes.chunks_exact(size_of::<T>()).map(T::of_bytes);
    for (out, stored) in std::iter::zip(out, stored) {
        *out = match marks.contains(&stored) {
            true => f32::NAN,
            false => packing.unpack(stored.to_f64()) as f32,
        };
    }
}

/// Turns marks into NaN, in one pass over the memory; with none it does nothing.
pub(crate) fn blank_marks(values: &mut [f32], marks: &[f32]) {
    fn blank(values: &mut [f32], is_mark: impl Fn(f32) -> bool) {
        for value in values {
            *value = if is_mark(*value) { f32::NAN } else { *value };
        }
    }
    match *marks {
        [] => {}
        [one] => blank(values, |value| value == one),
        [one, other] => blank(values, |value| (value == one) | (value == other)),
        _ => blank(values, |value| marks.contains(&value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(name: &str, named: &[f64], packing: Packing) -> Values {
        let named: Vec<Number> = named.iter().map(|x| Number::Float(*x)).collect();
        let stored = Stored::of(name, &named).unwrap();
        Values { stored, packing }
    }

    fn unpacked(values: &Values, bytes: &[u8]) -> Vec<f32> {
        let mut out = vec![-7.0; bytes.len() / values.size()];
        values.unpack_into(bytes, &mut out);
        out
    }

    #[test]
    fn values_are_unpacked_in_double_precision_as_xarray_does() {
        let packing = Packing {
            scale: Some(0.001),
            offset: Some(20.0),
        };
        let packed = values("int16", &[-32768.0], packing);
        let stored: [i16; 5] = [-32768, -32767, 0, 1, 32767];
        let bytes: Vec<u8> = stored.iter().flat_map(|n| n.to_ne_bytes()).collect();
        let found = unpacked(&packed, &bytes);
        assert!(found[0].is_nan());
        // xarray 2026.9: (stored * 0.001 + 20.0) in float64, then float32.
        assert_eq!(found[1..], [-12.767, 20.0, 20.001, 52.767]);
        let scaled = Packing {
            scale: Some(3.0),
            offset: None,
        };
        // A float32 product would round twice: 16777217 is no float32.
        let stored = 16_777_217i32.to_ne_bytes();
        assert_eq!(
            unpacked(&values("int32", &[], scaled), &stored),
            [50_331_651.0f64 as f32]
        );
    }

    #[test]
    fn marks_are_compared_in_the_type_that_is_stored() {
        let f16 = values("float16", &[-999.99, 1e20], Packing::default());
        let stored = [f16::from_f64(-999.99), f16::INFINITY, f16::from_f32(0.1)];
        let bytes: Vec<u8> = stored.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let found = unpacked(&f16, &bytes);
        // 1e20 is infinity in half precision.
        assert!(found[0].is_nan() && found[1].is_nan());
        assert_eq!(found[2], 0.099_975_586);
        // A single of -999.99 is another double.
        let f64s = values("float64", &[-999.99], Packing::default());
        let bytes = [f64::from(-999.99f32), -999.99].map(f64::to_ne_bytes);
        let found = unpacked(&f64s, bytes.as_flattened());
        assert!(found[0] == -999.99 && found[1].is_nan());
        assert_eq!(
            values("float32", &[-999.99], Packing::default()).as_they_lie(),
            Some(&[-999.99][..])
        );
        // What the type does not have, no value equals.
        assert_eq!(
            values("uint8", &[-1.0, 0.5, 256.0, 1e300], Packing::default()).marks(),
            [""; 0]
        );
        assert_eq!(
            values("int8", &[-127.0, f64::NAN], Packing::default()).marks(),
            ["-127"]
        );
    }

    #[test]
    fn any_number_of_marks_is_blanked_and_nothing_else() {
        let stored = [0.0, -0.0, 1e20, -999.99, 7.0, f32::INFINITY];
        for n in 0..=4 {
            let marks = [1e20, 0.0, 7.0, f32::INFINITY];
            let mut found = stored;
            blank_marks(&mut found, &marks[..n]);
            for (found, stored) in std::iter::zip(found, stored) {
                match marks[..n].contains(&stored) {
                    true => assert!(found.is_nan(), "{stored} of {n}"),
                    false => assert_eq!(found.to_bits(), stored.to_bits()),
                }
            }
        }
    }
}

//! Tensors in the formats of serde (feature `serde`).
//!
//! A tensor is written as its shape and its elements under the name of their dtype:
//!
//! ```text
//! {"shape": [2, 2], "elements": {"f64": [1.0, 2.5, 3.0, "nan"]}}
//! ```
//!
//! Human-readable formats write a float that is not finite as a string, because JSON has no such number. The bits of a
//! nan are not kept. Other formats write numbers only. Large tensors belong in files of their own: a text needs up to
//! three times the bytes, and is read number by number.

use super::{Element, Tensor};
use crate::lang::types::Dtype;
use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The written form of a tensor.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Tensor")]
struct Written {
    shape: Vec<usize>,
    elements: Elements,
}

/// The elements in row-major order, one variant per dtype.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Elements {
    Bool(Vec<bool>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    F32(Vec<Float<f32>>),
    F64(Vec<Float<f64>>),
}

/// A float; human-readable formats write it as a string if it is not finite.
#[derive(Clone, Copy)]
struct Float<T>(T);

impl Serialize for Tensor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn of<T: Element, U>(t: &Tensor, element: impl Fn(T) -> U) -> Vec<U> {
            t.stored::<T>().iter().map(|x| element(T::load(*x))).collect()
        }
        let elements = match self.dtype() {
            Dtype::Bool => Elements::Bool(of(self, |x| x)),
            Dtype::I32 => Elements::I32(of(self, |x| x)),
            Dtype::I64 => Elements::I64(of(self, |x| x)),
            Dtype::U32 => Elements::U32(of(self, |x| x)),
            Dtype::U64 => Elements::U64(of(self, |x| x)),
            Dtype::F32 => Elements::F32(of(self, Float)),
            Dtype::F64 => Elements::F64(of(self, Float)),
        };
        Written { shape: self.shape().to_vec(), elements }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Tensor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tensor, D::Error> {
        let Written { shape, elements } = Written::deserialize(deserializer)?;
        let tensor = match elements {
            Elements::Bool(x) => Tensor::new(&shape, x),
            Elements::I32(x) => Tensor::new(&shape, x),
            Elements::I64(x) => Tensor::new(&shape, x),
            Elements::U32(x) => Tensor::new(&shape, x),
            Elements::U64(x) => Tensor::new(&shape, x),
            Elements::F32(x) => Tensor::new(&shape, x.into_iter().map(|x| x.0).collect()),
            Elements::F64(x) => Tensor::new(&shape, x.into_iter().map(|x| x.0).collect()),
        };
        tensor.map_err(D::Error::custom)
    }
}

macro_rules! float {
    ($($t:ident)*) => {$(
        impl Serialize for Float<$t> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let x = self.0;
                if x.is_finite() || !serializer.is_human_readable() {
                    return x.serialize(serializer);
                }
                let sign = if x.is_nan() { "nan" } else if x > 0.0 { "inf" } else { "-inf" };
                serializer.serialize_str(sign)
            }
        }

        impl<'de> Deserialize<'de> for Float<$t> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Reader;
                impl Visitor<'_> for Reader {
                    type Value = Float<$t>;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a number, or `nan`, `inf` or `-inf` as a string")
                    }
                    fn visit_f64<E>(self, x: f64) -> Result<Float<$t>, E> {
                        Ok(Float(x as $t))
                    }
                    fn visit_i64<E>(self, x: i64) -> Result<Float<$t>, E> {
                        Ok(Float(x as $t))
                    }
                    fn visit_u64<E>(self, x: u64) -> Result<Float<$t>, E> {
                        Ok(Float(x as $t))
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Float<$t>, E> {
                        match text {
                            "nan" => Ok(Float($t::NAN)),
                            "inf" => Ok(Float($t::INFINITY)),
                            "-inf" => Ok(Float($t::NEG_INFINITY)),
                            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                        }
                    }
                }
                if deserializer.is_human_readable() {
                    deserializer.deserialize_any(Reader)
                } else {
                    $t::deserialize(deserializer).map(Float)
                }
            }
        }
    )*};
}
float!(f32 f64);

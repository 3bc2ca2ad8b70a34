//! Types of the language's values.
//!
//! Every value is an *array* of a dtype with a static shape, written `f64[3,4]` (a scalar is `f64[]`). Derived programs
//! have one more type, a *tape*. A tape is the sequence of records that the forward pass of a loop saves for its
//! reverse pass, written `tape<f64[3], bool[]>`, whose length is known only at run time. There is no type of mutable
//! state: a [`crate::trace::State`] is an array at every point of a program.
//!
//! ```
//! use tapeloom_ir::{Dtype, Type};
//! let t = Type::array(Dtype::F64, &[3, 4]);
//! assert_eq!(t.to_string(), "f64[3,4]");
//! ```

use smallvec::SmallVec;
use std::fmt;
use std::ops::Deref;

/// The element type of an array.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Dtype {
    /// A truth value, stored as one byte that is 0 or 1.
    Bool,
    /// A signed 32-bit integer; arithmetic wraps.
    I32,
    /// A signed 64-bit integer; arithmetic wraps.
    I64,
    /// An unsigned 32-bit integer; arithmetic wraps.
    U32,
    /// An unsigned 64-bit integer; arithmetic wraps.
    U64,
    /// An IEEE 754 binary32 number.
    F32,
    /// An IEEE 754 binary64 number.
    F64,
}

impl Dtype {
    /// All dtypes, in the order of declaration.
    pub const ALL: [Dtype; 7] =
        [Dtype::Bool, Dtype::I32, Dtype::I64, Dtype::U32, Dtype::U64, Dtype::F32, Dtype::F64];

    /// Returns the name in the text format: `bool`, `i32`, ... `f64`.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::Bool => "bool",
            Dtype::I32 => "i32",
            Dtype::I64 => "i64",
            Dtype::U32 => "u32",
            Dtype::U64 => "u64",
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
        }
    }

    /// Returns the dtype called `name`; `None` if there is no such dtype.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Returns the size of one element in bytes.
    #[inline]
    pub fn bytes(self) -> usize {
        match self {
            Dtype::Bool => 1,
            Dtype::I32 | Dtype::U32 | Dtype::F32 => 4,
            Dtype::I64 | Dtype::U64 | Dtype::F64 => 8,
        }
    }

    /// Returns whether the dtype is a float dtype; only its values have tangents.
    pub fn is_float(self) -> bool {
        matches!(self, Dtype::F32 | Dtype::F64)
    }

    /// Returns whether the dtype is one of the four integer dtypes; false for `bool`.
    pub fn is_integer(self) -> bool {
        matches!(self, Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64)
    }

    /// Returns whether the dtype has negative numbers.
    pub fn is_signed(self) -> bool {
        matches!(self, Dtype::I32 | Dtype::I64 | Dtype::F32 | Dtype::F64)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The extents of an array, outermost axis first. Derefs to a slice.
#[derive(PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct Shape(SmallVec<[usize; 4]>);

impl Clone for Shape {
    /// Each call of a compiled program clones the shapes of its results. `SmallVec::from_slice` copies the memory at
    /// once, while `SmallVec::clone` appends element by element.
    #[inline]
    fn clone(&self) -> Shape {
        Shape(SmallVec::from_slice(&self.0))
    }
}

impl Shape {
    /// Returns the shape of a scalar: no axes.
    pub fn scalar() -> Shape {
        Shape::default()
    }

    /// Returns the number of elements; 1 for a scalar. Returns `None` if the product does not fit in `usize`.
    #[inline]
    pub fn checked_elements(&self) -> Option<usize> {
        // An array with an axis of extent 0 is empty, even if the product of the other extents overflows.
        if self.contains(&0) {
            return Some(0);
        }
        self.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
    }

    /// Returns the number of elements; 1 for a scalar. Returns `usize::MAX` if the product overflows (the verifier
    /// rejects such shapes).
    pub fn elements(&self) -> usize {
        self.checked_elements().unwrap_or(usize::MAX)
    }

    /// Returns the row-major stride of each axis, in elements.
    pub fn strides(&self) -> SmallVec<[usize; 4]> {
        let mut strides: SmallVec<[usize; 4]> = SmallVec::from_elem(1, self.len());
        for axis in (0..self.len().saturating_sub(1)).rev() {
            strides[axis] = strides[axis + 1].saturating_mul(self[axis + 1]);
        }
        strides
    }

    /// Returns this shape with a new outermost axis of extent `extent`.
    pub fn with_leading(&self, extent: usize) -> Shape {
        std::iter::once(extent).chain(self.iter().copied()).collect()
    }

    /// Returns this shape without the axes `axes`.
    pub fn without(&self, axes: &[usize]) -> Shape {
        let keep = |(i, d): (usize, &usize)| (!axes.contains(&i)).then_some(*d);
        self.iter().enumerate().filter_map(keep).collect()
    }
}

impl Deref for Shape {
    type Target = [usize];
    #[inline]
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl std::ops::DerefMut for Shape {
    fn deref_mut(&mut self) -> &mut [usize] {
        &mut self.0
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(iter: I) -> Shape {
        Shape(iter.into_iter().collect())
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Shape {
        Shape(SmallVec::from_slice(dims))
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Shape {
        Shape(SmallVec::from_slice(&dims))
    }
}

impl<const N: usize> From<&[usize; N]> for Shape {
    fn from(dims: &[usize; N]) -> Shape {
        Shape(SmallVec::from_slice(dims))
    }
}

impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Shape {
        shape.clone()
    }
}

impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Shape {
        Shape(SmallVec::from_vec(dims))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{d}")?;
        }
        f.write_str("]")
    }
}

/// The type of an array: its dtype and its static shape.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ArrayType {
    /// The type of its elements.
    pub dtype: Dtype,
    /// The extents of its axes, outermost first.
    pub shape: Shape,
}

impl ArrayType {
    /// Makes the type of an array of `dtype` with shape `shape`.
    pub fn new(dtype: Dtype, shape: impl Into<Shape>) -> ArrayType {
        ArrayType { dtype, shape: shape.into() }
    }

    /// Returns the size in bytes, or `None` if it exceeds the address space.
    #[inline]
    pub fn checked_bytes(&self) -> Option<usize> {
        let bytes = self.shape.checked_elements()?.checked_mul(self.dtype.bytes())?;
        (bytes <= isize::MAX as usize).then_some(bytes)
    }

    /// Returns the size in bytes; `usize::MAX` if it exceeds the address space.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.checked_bytes().unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ArrayType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

/// The type of a value.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Type {
    /// An array with a static shape. Users' programs have no other type.
    Array(ArrayType),
    /// A tape: a sequence of records, one for each iteration of a loop with a dynamic trip count. Each record has a
    /// value of each of these types. The loop's forward pass writes the tape for the reverse pass, so its length is
    /// known only after the loop has run.
    Tape(Vec<Type>),
}

impl Type {
    /// Returns the type of an array of `dtype` with extents `shape`.
    pub fn array(dtype: Dtype, shape: &[usize]) -> Type {
        Type::Array(ArrayType::new(dtype, shape))
    }

    /// Returns the type of a scalar of `dtype`.
    pub fn scalar(dtype: Dtype) -> Type {
        Type::Array(ArrayType::new(dtype, Shape::scalar()))
    }

    /// Returns the array type; `None` for a tape.
    pub fn as_array(&self) -> Option<&ArrayType> {
        match self {
            Type::Array(a) => Some(a),
            Type::Tape(_) => None,
        }
    }

    /// Returns the type of the tangents and cotangents of this type; `None` if values of this type have no tangents. A
    /// float array has tangents of its own type. The tangent of a tape is a tape of the fields' tangents, without
    /// fields that have none.
    ///
    /// ```
    /// let tape = tapeloom_ir::parse_type("tape<f64[3], bool[], tape<i64[], f32[]>>")?;
    /// let tangent = tape.tangent().map(|t| t.to_string());
    /// assert_eq!(tangent.as_deref(), Some("tape<f64[3], tape<f32[]>>"));
    /// # Ok::<(), tapeloom_ir::ParseError>(())
    /// ```
    pub fn tangent(&self) -> Option<Type> {
        match self {
            Type::Array(a) => a.dtype.is_float().then(|| self.clone()),
            Type::Tape(fields) => {
                let tangents: Vec<Type> = fields.iter().filter_map(Type::tangent).collect();
                (!tangents.is_empty()).then_some(Type::Tape(tangents))
            }
        }
    }

    /// Returns whether a value of this type has a tangent.
    pub fn has_tangent(&self) -> bool {
        match self {
            Type::Array(a) => a.dtype.is_float(),
            Type::Tape(fields) => fields.iter().any(Type::has_tangent),
        }
    }

    /// Returns whether the type equals the type of its tangents. This holds for float arrays, and for tapes whose
    /// fields all have this property. Linear parameters have only types of this kind.
    pub fn is_linear(&self) -> bool {
        match self {
            Type::Array(a) => a.dtype.is_float(),
            Type::Tape(fields) => !fields.is_empty() && fields.iter().all(Type::is_linear),
        }
    }
}

impl From<ArrayType> for Type {
    fn from(a: ArrayType) -> Type {
        Type::Array(a)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Array(a) => write!(f, "{a}"),
            Type::Tape(fields) => {
                let fields: Vec<String> = fields.iter().map(Type::to_string).collect();
                write!(f, "tape<{}>", fields.join(", "))
            }
        }
    }
}

/// Returns the greatest common divisor of `a`, which must be positive, and `b`.
pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b.abs(), a % b.abs()) }
}

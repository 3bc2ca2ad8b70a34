//! `Tensor`: concrete data, a dtype, a shape and the elements in row-major order.
//!
//! Cloning shares the buffer (it is immutable and counted), so a tensor is passed around by value.
//! The buffer is aligned to 64 bytes, one cache line, which is what vector code wants. `bool` is
//! stored as one byte, 0 or 1.
//!
//! ```
//! use tapeloom_ir::Tensor;
//! let t = Tensor::new(&[2, 2], vec![1.0, 2.0, 3.0, 4.0])?;
//! assert_eq!(t.shape(), [2, 2]);
//! assert_eq!(t.to_vec::<f64>()?, [1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use crate::literal::Literal;
use crate::problem::{Kind, Problem};
use crate::types::{ArrayType, Dtype, Shape};
use bytemuck::{Pod, Zeroable};
use std::fmt;
use std::sync::Arc;

/// One cache line of a tensor's buffer.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Line([u64; 8]);

/// Small buffers are copied from here: collecting lines one by one takes ten times as long.
static ZEROS: [Line; 1024] = [Line([0; 8]); 1024];

/// A Rust type that is the element of a tensor.
pub trait Element: Copy + Send + Sync + 'static {
    /// The dtype of such elements.
    const DTYPE: Dtype;
    /// What is stored: the type itself, except that `bool` is stored as `u8`.
    type Stored: Pod;
    /// To the stored form.
    fn store(self) -> Self::Stored;
    /// From the stored form.
    fn load(stored: Self::Stored) -> Self;
}

macro_rules! elements {
    ($($t:ty => $dtype:ident),*) => {$(
        impl Element for $t {
            const DTYPE: Dtype = Dtype::$dtype;
            type Stored = $t;
            fn store(self) -> $t { self }
            fn load(stored: $t) -> $t { stored }
        }
    )*};
}
elements!(i32 => I32, i64 => I64, u32 => U32, u64 => U64, f32 => F32, f64 => F64);

impl Element for bool {
    const DTYPE: Dtype = Dtype::Bool;
    type Stored = u8;
    fn store(self) -> u8 {
        u8::from(self)
    }
    fn load(stored: u8) -> bool {
        stored != 0
    }
}

/// Concrete data: dtype, shape and elements in row-major order.
#[derive(Clone)]
pub struct Tensor {
    ty: ArrayType,
    lines: Arc<[Line]>,
}

impl Tensor {
    /// A tensor of that shape from its elements in row-major order.
    ///
    /// # Errors
    /// [`Kind::Shape`] when the number of elements is not the product of the extents.
    pub fn new<T: Element>(shape: &[usize], elements: Vec<T>) -> Result<Tensor, Problem> {
        let ty = ArrayType::new(T::DTYPE, shape);
        if ty.shape.checked_elements() != Some(elements.len()) {
            return Err(Problem::new(
                Kind::Shape,
                format!(
                    "a tensor of shape {} needs as many elements as the product of its extents, got {}",
                    ty.shape,
                    elements.len()
                ),
                "give a shape whose product is the number of elements",
            ));
        }
        let mut t = Tensor::zeros(&ty);
        for (slot, e) in t.stored_mut::<T>().iter_mut().zip(elements) {
            *slot = e.store();
        }
        Ok(t)
    }

    /// A scalar tensor.
    pub fn scalar<T: Element>(x: T) -> Tensor {
        let mut t = Tensor::zeros(&ArrayType::new(T::DTYPE, Shape::scalar()));
        if let Some(slot) = t.stored_mut::<T>().first_mut() {
            *slot = x.store();
        }
        t
    }

    /// A one-dimensional tensor.
    pub fn vector<T: Element>(elements: &[T]) -> Tensor {
        let mut t = Tensor::zeros(&ArrayType::new(T::DTYPE, [elements.len()]));
        for (slot, e) in t.stored_mut::<T>().iter_mut().zip(elements) {
            *slot = e.store();
        }
        t
    }

    /// A tensor of that shape with as many elements as it needs from an iterator.
    #[cfg(feature = "ndarray")]
    pub(crate) fn filled_by<T: Element>(
        shape: &[usize],
        elements: impl Iterator<Item = T>,
    ) -> Tensor {
        let mut t = Tensor::zeros(&ArrayType::new(T::DTYPE, shape));
        for (slot, e) in t.stored_mut::<T>().iter_mut().zip(elements) {
            *slot = e.store();
        }
        t
    }

    /// A tensor whose elements are all zero (`false`).
    pub fn zeros(ty: &ArrayType) -> Tensor {
        let lines = ty.bytes().div_ceil(size_of::<Line>());
        let lines = match ZEROS.get(..lines) {
            Some(zeros) => Arc::from(zeros),
            None => Arc::from(vec![Line([0; 8]); lines]),
        };
        Tensor { ty: ty.clone(), lines }
    }

    /// A tensor on a buffer that was made elsewhere; the first bytes are its elements in row-major
    /// order.
    ///
    /// # Errors
    /// [`Kind::Shape`] when the buffer has not as many lines as the elements fill.
    pub fn from_lines(ty: ArrayType, lines: Arc<[Line]>) -> Result<Tensor, Problem> {
        if ty.checked_bytes().map(|b| b.div_ceil(size_of::<Line>())) != Some(lines.len()) {
            return Err(Problem::new(
                Kind::Shape,
                format!("a buffer of {} lines is not that of a tensor of {ty}", lines.len()),
                "",
            ));
        }
        Ok(Tensor { ty, lines })
    }

    /// A tensor whose elements are all `x`.
    pub fn full(shape: &[usize], x: Literal) -> Tensor {
        let mut t = Tensor::zeros(&ArrayType::new(x.dtype, shape));
        for i in 0..t.elements() {
            t.set(i, x);
        }
        t
    }

    /// The array type.
    pub fn ty(&self) -> &ArrayType {
        &self.ty
    }

    /// The element type.
    pub fn dtype(&self) -> Dtype {
        self.ty.dtype
    }

    /// The extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.ty.shape
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.ty.shape.elements()
    }

    /// The elements as a slice; for `bool` use [`Tensor::to_vec`] or read `u8` through
    /// [`Tensor::bytes`].
    ///
    /// # Errors
    /// [`Kind::Dtype`] when `T` is not the tensor's element type.
    pub fn as_slice<T: Element<Stored = T> + Pod>(&self) -> Result<&[T], Problem> {
        self.expect_dtype(T::DTYPE)?;
        Ok(self.stored::<T>())
    }

    /// The elements in row-major order, copied.
    ///
    /// # Errors
    /// [`Kind::Dtype`] when `T` is not the tensor's element type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Problem> {
        self.expect_dtype(T::DTYPE)?;
        Ok(self.stored::<T>().iter().map(|s| T::load(*s)).collect())
    }

    /// The only element of a tensor with one element.
    ///
    /// # Errors
    /// [`Kind::Shape`] when there is not exactly one element, [`Kind::Dtype`] when `T` is not the
    /// tensor's element type.
    pub fn item<T: Element>(&self) -> Result<T, Problem> {
        self.expect_dtype(T::DTYPE)?;
        match self.stored::<T>() {
            [x] => Ok(T::load(*x)),
            _ => Err(Problem::new(
                Kind::Shape,
                format!("`item` needs a tensor with one element, got {}", self.ty),
                "read many elements with `to_vec`",
            )),
        }
    }

    /// The element at a row-major position.
    pub fn get(&self, index: usize) -> Literal {
        let size = self.dtype().bytes();
        let mut bits = [0u8; 8];
        bits[..size].copy_from_slice(&self.bytes()[index * size..][..size]);
        Literal { dtype: self.dtype(), bits: u64::from_le_bytes(bits) }
    }

    /// Overwrites the element at a row-major position (copying the buffer if it is shared).
    pub fn set(&mut self, index: usize, x: Literal) {
        let size = self.dtype().bytes();
        let bits = x.bits.to_le_bytes();
        self.bytes_mut()[index * size..][..size].copy_from_slice(&bits[..size]);
    }

    /// The elements as they lie in memory: row-major, native byte order, nothing in between.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice::<Line, u8>(&self.lines)[..self.ty.bytes()]
    }

    /// The buffer, for writing; copied first if it is shared.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.ty.bytes();
        &mut bytemuck::cast_slice_mut::<Line, u8>(Arc::make_mut(&mut self.lines))[..bytes]
    }

    /// The elements as stored. The caller has checked the dtype.
    pub(crate) fn stored<T: Element>(&self) -> &[T::Stored] {
        bytemuck::cast_slice(self.bytes())
    }

    /// The elements as stored, for writing. The caller has checked the dtype.
    pub(crate) fn stored_mut<T: Element>(&mut self) -> &mut [T::Stored] {
        bytemuck::cast_slice_mut(self.bytes_mut())
    }

    /// The same elements under another shape of equal size.
    ///
    /// # Errors
    /// [`Kind::Shape`] when the sizes differ.
    pub fn reshape(&self, shape: &[usize]) -> Result<Tensor, Problem> {
        let ty = ArrayType::new(self.dtype(), shape);
        if ty.shape.checked_elements() != Some(self.elements()) {
            return Err(Problem::new(
                Kind::Shape,
                format!(
                    "cannot reshape {} to {}: the number of elements differs",
                    self.ty, ty.shape
                ),
                "choose extents with the same product",
            ));
        }
        Ok(Tensor { ty, lines: self.lines.clone() })
    }

    /// The address of the shared buffer: equal for clones of one tensor.
    pub fn identity(&self) -> usize {
        self.lines.as_ptr().addr()
    }

    fn expect_dtype(&self, dtype: Dtype) -> Result<(), Problem> {
        if self.dtype() == dtype {
            return Ok(());
        }
        Err(Problem::new(
            Kind::Dtype,
            format!("expected elements of {dtype}, found a tensor of {}", self.ty),
            format!("read it as {}, or convert it", self.dtype()),
        ))
    }
}

/// Bitwise equality of type and elements (so nan equals itself).
impl PartialEq for Tensor {
    fn eq(&self, other: &Tensor) -> bool {
        self.ty == other.ty && self.bytes() == other.bytes()
    }
}

impl From<f64> for Tensor {
    fn from(x: f64) -> Tensor {
        Tensor::scalar(x)
    }
}

impl<T: Element> From<Vec<T>> for Tensor {
    fn from(elements: Vec<T>) -> Tensor {
        Tensor::vector(&elements)
    }
}

impl<T: Element> From<&[T]> for Tensor {
    fn from(elements: &[T]) -> Tensor {
        Tensor::vector(elements)
    }
}

impl<T: Element, const N: usize> From<[T; N]> for Tensor {
    fn from(elements: [T; N]) -> Tensor {
        Tensor::vector(&elements)
    }
}

impl<T: Element, const N: usize, const M: usize> From<[[T; N]; M]> for Tensor {
    fn from(rows: [[T; N]; M]) -> Tensor {
        let flat = Tensor::vector(rows.as_flattened());
        Tensor { ty: ArrayType::new(T::DTYPE, [M, N]), lines: flat.lines }
    }
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Elements shown before the rest is elided.
        const SHOWN: usize = 32;
        write!(f, "{} {{", self.ty)?;
        for i in 0..self.elements().min(SHOWN) {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}", self.get(i))?;
        }
        f.write_str(if self.elements() > SHOWN { ", ..}" } else { "}" })
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

//! `Tensor`: concrete data, a dtype, a shape and the elements in row-major order.
//!
//! Cloning shares the buffer (it is immutable and reference-counted), so a tensor is passed around by value.
//! The buffer is aligned to 64 bytes, one cache line, for vector code. `bool` is stored as one byte, 0 or 1.
//!
//! ```
//! use tapeloom_ir::Tensor;
//! let t = Tensor::from([[1.0, 2.5], [3.0, f64::NAN]]);
//! assert_eq!(t.shape(), [2, 2]);
//! assert_eq!(t.get::<f64>(&[0, 1])?, 2.5);
//! assert_eq!(t.row(1)?.to_string(), "[3.0, nan]");
//! assert_eq!(t.to_string(), "[[1.0, 2.5],\n [3.0, nan]]");
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```
//!
//! This file holds the data; [`element`] defines the Rust types of elements, [`convert`] makes tensors from
//! Rust data and back, [`index`] reads and writes parts, [`print`] displays, [`refused`] says how to compute.

mod buffer;
mod convert;
mod element;
pub(crate) mod huge_pages;
mod index;
mod line;
#[cfg(feature = "ndarray")]
mod ndarray;
mod print;
mod recycled;
mod refused;
mod row_major;
#[cfg(feature = "serde")]
mod serde;

pub use buffer::{Buffer, Fresh};
pub use element::Element;
pub use line::Line;
pub(crate) use row_major::step as step_index;

use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem};
use crate::lang::types::{ArrayType, Dtype, Shape};

/// Concrete data: dtype, shape and elements in row-major order.
///
/// A tensor has no operators, because an operator cannot return an error. Arithmetic is done in closures, where the
/// mistakes of all operations are reported with their lines: with the crate `tapeloom`,
/// `run(|x: Var| (x - x.mean()) / x.std(), &x)?` computes once, and `jit` compiles for many calls. Elements as Rust's
/// numbers are returned by [`item`](Tensor::item), [`to_vec`](Tensor::to_vec), [`iter`](Tensor::iter) and
/// [`numbers`](Tensor::numbers).
///
/// ```
/// use tapeloom_ir::Tensor;
/// let losses = Tensor::from([0.5f32, 0.25]);
/// let mean = losses.numbers().sum::<f64>() / losses.elements() as f64;
/// assert_eq!(mean, 0.375);
/// let percent = losses.map_numbers(|x| 100.0 * x);
/// assert_eq!(percent, Tensor::from([50.0f32, 25.0]));
/// ```
#[derive(Clone)]
pub struct Tensor {
    ty: ArrayType,
    lines: Buffer,
}

impl Tensor {
    /// Makes a tensor of shape `shape` from its elements in row-major order.
    ///
    /// # Errors
    /// [`Kind::Shape`] when the number of elements is not the product of the extents.
    ///
    /// ```
    /// use tapeloom_ir::{Kind, Tensor};
    /// let t = Tensor::new(&[2, 3], vec![1, 2, 3, 4, 5, 6])?;
    /// assert_eq!(t.row(1)?, Tensor::from([4, 5, 6]));
    /// assert_eq!(Tensor::new(&[2, 3], vec![1, 2]).unwrap_err().kind, Kind::Shape);
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
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
                "give a shape whose extents have this number as their product",
            ));
        }
        Ok(Tensor::filled_by(ty, elements))
    }

    /// Makes a scalar tensor (no axes) from one element.
    pub fn scalar<T: Element>(x: T) -> Tensor {
        let (stored, mut line) = (x.store(), Line::ZERO);
        let bytes = bytemuck::bytes_of(&stored);
        bytemuck::bytes_of_mut(&mut line)[..bytes.len()].copy_from_slice(bytes);
        Tensor { ty: ArrayType::new(T::DTYPE, Shape::scalar()), lines: Buffer::of(line) }
    }

    /// Makes a tensor with one axis from its elements.
    pub fn vector<T: Element>(elements: &[T]) -> Tensor {
        let ty = ArrayType::new(T::DTYPE, [elements.len()]);
        Tensor::filled_by(ty, elements.iter().copied())
    }

    /// Makes a tensor of type `ty` from its elements in row-major order. Its size cannot overflow, since the
    /// elements are in memory already.
    fn filled_by<T: Element>(ty: ArrayType, elements: impl IntoIterator<Item = T>) -> Tensor {
        let lines = Buffer::zeros(ty.bytes().div_ceil(size_of::<Line>()));
        let mut t = Tensor { ty, lines };
        for (slot, e) in t.stored_mut::<T>().iter_mut().zip(elements) {
            *slot = e.store();
        }
        t
    }

    /// Makes a tensor of this shape and dtype whose elements are all 0 (`false` for `bool`).
    ///
    /// # Errors
    /// [`Kind::TooLarge`] when there is no memory for the tensor.
    ///
    /// ```
    /// use tapeloom_ir::{Dtype, Kind, Tensor};
    /// assert_eq!(Tensor::zeros(&[2], Dtype::I64)?, Tensor::from([0i64, 0]));
    /// let huge = Tensor::zeros(&[1 << 40, 1 << 40], Dtype::F64);
    /// assert_eq!(huge.unwrap_err().kind, Kind::TooLarge);
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    pub fn zeros(shape: &[usize], dtype: Dtype) -> Result<Tensor, Problem> {
        Tensor::zeros_of(&ArrayType::new(dtype, shape))
    }

    /// Makes a tensor of type `ty` whose elements are all 0 (`false` for `bool`).
    ///
    /// # Errors
    /// [`Kind::TooLarge`] when there is no memory for the tensor.
    pub fn zeros_of(ty: &ArrayType) -> Result<Tensor, Problem> {
        let lines = ty.checked_bytes().map(|b| b.div_ceil(size_of::<Line>()));
        match lines.and_then(Buffer::try_zeros) {
            Some(lines) => Ok(Tensor { ty: ty.clone(), lines }),
            None => Err(Problem::new(
                Kind::TooLarge,
                format!("there is no memory for a tensor of type {ty}"),
                "reduce an extent, or process the data in parts",
            )),
        }
    }

    /// Makes a vector of dtype `dtype` from `numbers`, each converted by [`Literal::of`].
    pub(crate) fn of(dtype: Dtype, numbers: &[f64]) -> Tensor {
        let ty = ArrayType::new(dtype, [numbers.len()]);
        let lines = Buffer::zeros(ty.bytes().div_ceil(size_of::<Line>()));
        let mut t = Tensor { ty, lines };
        for (i, x) in numbers.iter().enumerate() {
            t.put(i, Literal::of(dtype, *x));
        }
        t
    }

    /// Makes a tensor of this tensor's shape and dtype whose elements are all 0.
    pub fn zeros_like(&self) -> Tensor {
        Tensor { ty: self.ty.clone(), lines: Buffer::zeros(self.lines.len()) }
    }

    /// Makes a tensor of type `ty` from the bytes of its elements: row-major, native byte order, without gaps.
    ///
    /// # Errors
    /// [`Kind::Shape`] when the number of bytes is not that of the type, [`Kind::TooLarge`] when there is no
    /// memory for them, [`Kind::Dtype`] when a `bool` is neither 0 nor 1.
    ///
    /// ```
    /// use tapeloom_ir::{ArrayType, Dtype, Tensor};
    /// let x = Tensor::from([1.5, -2.0]);
    /// assert_eq!(Tensor::from_bytes(x.ty(), x.bytes())?, x);
    /// assert!(Tensor::from_bytes(&ArrayType::new(Dtype::Bool, [1]), &[2]).is_err());
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    pub fn from_bytes(ty: &ArrayType, bytes: &[u8]) -> Result<Tensor, Problem> {
        if ty.checked_bytes() != Some(bytes.len()) {
            let message =
                format!("expected the bytes of a tensor of {ty}, found {} bytes", bytes.len());
            return Err(Problem::new(Kind::Shape, message, ""));
        }
        let mut t = Tensor::zeros_of(ty)?;
        t.bytes_mut().copy_from_slice(bytes);
        t.check_truth()?;
        Ok(t)
    }

    /// Makes a tensor of type `ty` from a buffer that was written elsewhere. The buffer's first bytes are the
    /// elements in row-major order.
    ///
    /// # Errors
    /// [`Kind::Shape`] when the number of cache lines is not that of the type, [`Kind::Dtype`] when a `bool` is
    /// neither 0 nor 1.
    pub fn from_lines(ty: ArrayType, lines: Buffer) -> Result<Tensor, Problem> {
        if ty.checked_bytes().map(|b| b.div_ceil(size_of::<Line>())) != Some(lines.len()) {
            let message = format!(
                "expected the buffer of a tensor of {ty}, found {} cache lines",
                lines.len()
            );
            return Err(Problem::new(Kind::Shape, message, ""));
        }
        let t = Tensor { ty, lines };
        t.check_truth()?;
        Ok(t)
    }

    /// Checks that each byte is 0 or 1 if the dtype is `bool`. An engine calls this method after it has written to the
    /// memory of a tensor.
    ///
    /// # Errors
    /// [`Kind::Dtype`] with the first byte that is neither.
    #[inline]
    pub fn check_truth(&self) -> Result<(), Problem> {
        if self.dtype() == Dtype::Bool
            && let Some(byte) = self.bytes().iter().find(|b| **b > 1)
        {
            let message = format!("a buffer for {} holds the byte {byte}", self.ty);
            return Err(Problem::new(Kind::Dtype, message, "a bool is the byte 0 or the byte 1"));
        }
        Ok(())
    }

    /// Returns the memory of the tensor: its elements, and zeros up to the end of the last cache line.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Returns the memory of the tensor for writing, if no clone shares it. Engines write results to this memory. They
    /// must leave the bytes behind the last element 0.
    ///
    /// ```
    /// use tapeloom_ir::Tensor;
    /// let mut x = Tensor::from([1.0, 2.0]);
    /// assert_eq!(x.unshared_lines().map(|lines| lines.len()), Some(1));
    /// let y = x.clone();
    /// assert!(x.unshared_lines().is_none());
    /// # drop(y);
    /// ```
    pub fn unshared_lines(&mut self) -> Option<&mut [Line]> {
        self.lines.unshared()
    }

    /// Copies the memory of the tensor if a clone shares it.
    ///
    /// ```
    /// use tapeloom_ir::Tensor;
    /// let x = Tensor::from([1.0, 2.0]);
    /// let mut y = x.clone();
    /// y.unshare();
    /// assert!(x == y && x.address() != y.address());
    /// ```
    pub fn unshare(&mut self) {
        self.lines.make_mut();
    }

    /// Makes this tensor equal to another one. It keeps its memory if the types are equal and no clone shares the memory.
    ///
    /// ```
    /// use tapeloom_ir::Tensor;
    /// let mut x = Tensor::from([1.0, 2.0]);
    /// let memory = x.address();
    /// x.overwrite(Tensor::from([3.0, 4.0]));
    /// assert_eq!((&x, x.address()), (&Tensor::from([3.0, 4.0]), memory));
    /// ```
    pub fn overwrite(&mut self, new: Tensor) {
        let same = self.ty == new.ty;
        match self.unshared_lines().filter(|_| same) {
            Some(lines) => lines.copy_from_slice(&new.lines),
            None => *self = new,
        }
    }

    /// Makes a tensor whose elements are all `x`: a Rust number, a `bool`, or a [`Literal`].
    ///
    /// # Errors
    /// [`Kind::TooLarge`] when there is no memory for the tensor, [`Kind::Dtype`] when the literal is a `bool`
    /// with bits other than 0 and 1.
    ///
    /// ```
    /// use tapeloom_ir::Tensor;
    /// assert_eq!(Tensor::full(&[2, 2], 1.5)?, Tensor::from([[1.5, 1.5], [1.5, 1.5]]));
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    pub fn full(shape: &[usize], x: impl Into<Literal>) -> Result<Tensor, Problem> {
        let x = x.into();
        index::expect_bits(x)?;
        let mut t = Tensor::zeros_of(&ArrayType::new(x.dtype, shape))?;
        if x.bits != 0 {
            let size = x.dtype.bytes();
            for element in t.bytes_mut().chunks_exact_mut(size) {
                element.copy_from_slice(&x.bits.to_le_bytes()[..size]);
            }
        }
        Ok(t)
    }

    /// Returns the tensor's type: dtype and shape.
    #[inline]
    pub fn ty(&self) -> &ArrayType {
        &self.ty
    }

    /// Returns the dtype of the elements.
    #[inline]
    pub fn dtype(&self) -> Dtype {
        self.ty.dtype
    }

    /// Returns the extents of the axes, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.ty.shape
    }

    /// Returns the number of elements.
    pub fn elements(&self) -> usize {
        self.ty.shape.elements()
    }

    /// Returns the bytes of the elements: in row-major order, native byte order, without gaps.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice::<Line, u8>(&self.lines)[..self.ty.bytes()]
    }

    /// Returns the bytes of the elements for writing; first copies the buffer if another tensor shares it. The byte
    /// of a `bool` must stay 0 or 1.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.ty.bytes();
        &mut bytemuck::cast_slice_mut::<Line, u8>(self.lines.make_mut())[..bytes]
    }

    /// Returns the elements in their stored form, in row-major order. The caller has checked that `T` is the
    /// element type.
    pub(crate) fn stored<T: Element>(&self) -> &[T::Stored] {
        bytemuck::cast_slice(self.bytes())
    }

    /// Returns the elements in their stored form, for writing. The caller has checked that `T` is the element type.
    pub(crate) fn stored_mut<T: Element>(&mut self) -> &mut [T::Stored] {
        bytemuck::cast_slice_mut(self.bytes_mut())
    }

    /// Returns a tensor with the same elements in another shape with as many elements; both share the buffer.
    ///
    /// # Errors
    /// [`Kind::Shape`] when the numbers of elements differ.
    ///
    /// ```
    /// use tapeloom_ir::Tensor;
    /// let t = Tensor::from([1, 2, 3, 4]).reshape(&[2, 2])?;
    /// assert_eq!(t, Tensor::from([[1, 2], [3, 4]]));
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    pub fn reshape(&self, shape: &[usize]) -> Result<Tensor, Problem> {
        let ty = ArrayType::new(self.dtype(), shape);
        if ty.shape.checked_elements() != Some(self.elements()) {
            return Err(Problem::reshape(&self.ty, &ty.shape));
        }
        Ok(Tensor { ty, lines: self.lines.clone() })
    }

    /// Returns a pointer to the first element. An engine may write to the memory of a tensor that no clone shares.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.lines.first().cast()
    }

    /// Returns the address of the buffer, which clones of a tensor share.
    #[inline]
    pub fn address(&self) -> usize {
        self.lines.first().addr()
    }
}

/// Compares types and the bits of elements, so a nan equals itself and 0.0 differs from -0.0.
impl PartialEq for Tensor {
    fn eq(&self, other: &Tensor) -> bool {
        self.ty == other.ty && self.bytes() == other.bytes()
    }
}

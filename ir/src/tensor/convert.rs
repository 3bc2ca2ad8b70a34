//! Conversions between tensors and Rust data.
//!
//! ```
//! use tapeloom_ir::{Dtype, Tensor};
//! assert_eq!(Tensor::from(2.5).dtype(), Dtype::F64);
//! assert_eq!(Tensor::from(true).dtype(), Dtype::Bool);
//! assert_eq!(Tensor::from(vec![1u64, 2]).shape(), [2]);
//! assert_eq!(Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).shape(), [2, 3]);
//! assert_eq!(Tensor::from([[[1i32], [2]], [[3], [4]]]).shape(), [2, 2, 1]);
//! let squares: Tensor = (0i64..4).map(|i| i * i).collect();
//! assert_eq!(squares.to_vec::<i64>()?, [0, 1, 4, 9]);
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use super::{Buffer, Element, Tensor};
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem};
use crate::lang::types::{ArrayType, Dtype, Shape};
use bytemuck::Pod;

impl Tensor {
    /// Makes a matrix from its rows: vectors, slices or arrays of equal length.
    ///
    /// # Errors
    /// [`Kind::Shape`] when a row is longer or shorter than the first.
    ///
    /// ```
    /// use tapeloom_ir::Tensor;
    /// let t = Tensor::from_rows(&[vec![1.0, 2.0], vec![3.0, 4.0]])?;
    /// assert_eq!(t.shape(), [2, 2]);
    /// let ragged = Tensor::from_rows(&[vec![1.0, 2.0], vec![3.0]]).unwrap_err();
    /// assert_eq!(ragged.message, "row 1 has 1 element, where row 0 has 2");
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    pub fn from_rows<T: Element>(rows: &[impl AsRef<[T]>]) -> Result<Tensor, Problem> {
        let columns = rows.first().map_or(0, |r| r.as_ref().len());
        let other = |(i, n): &(usize, usize)| (*n != columns).then_some((*i, *n));
        let lengths = rows.iter().map(|r| r.as_ref().len()).enumerate();
        if let Some((i, n)) = lengths.collect::<Vec<_>>().iter().find_map(other) {
            let s = if n == 1 { "" } else { "s" };
            return Err(Problem::new(
                Kind::Shape,
                format!("row {i} has {n} element{s}, where row 0 has {columns}"),
                "all rows of a matrix have the same length; pad the short ones, or keep a `Vec`",
            ));
        }
        let elements = rows.iter().flat_map(|r| r.as_ref().iter().copied());
        Ok(Tensor::filled_by(ArrayType::new(T::DTYPE, [rows.len(), columns]), elements))
    }

    /// Concatenates the elements of tensors of one dtype into a vector.
    ///
    /// # Errors
    /// [`Kind::Dtype`] when a part is of another dtype, [`Kind::TooLarge`] when there is no memory for the
    /// vector.
    ///
    /// ```
    /// use tapeloom_ir::{Dtype, Tensor};
    /// let parts = [Tensor::from([[1, 2], [3, 4]]), Tensor::from(5)];
    /// assert_eq!(Tensor::joined(Dtype::I32, &parts)?, Tensor::from([1, 2, 3, 4, 5]));
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    pub fn joined(dtype: Dtype, parts: &[Tensor]) -> Result<Tensor, Problem> {
        let elements = parts.iter().fold(0, |n: usize, t| n.saturating_add(t.elements()));
        let mut t = Tensor::zeros_of(&ArrayType::new(dtype, [elements]))?;
        let mut rest = t.bytes_mut();
        for part in parts {
            part.expect_dtype(dtype)?;
            let (here, more) = rest.split_at_mut(part.bytes().len());
            here.copy_from_slice(part.bytes());
            rest = more;
        }
        Ok(t)
    }

    /// Returns the elements as a slice, in row-major order; for `bool` use [`Tensor::to_vec`] or [`Tensor::iter`].
    ///
    /// # Errors
    /// [`Kind::Dtype`] when `T` is not the tensor's element type.
    ///
    /// ```
    /// use tapeloom_ir::Tensor;
    /// assert_eq!(Tensor::from([[1.0, 2.0], [3.0, 4.0]]).as_slice::<f64>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    pub fn as_slice<T: Element<Stored = T> + Pod>(&self) -> Result<&[T], Problem> {
        self.expect_dtype(T::DTYPE)?;
        Ok(self.stored::<T>())
    }

    /// Copies the elements into a vector, in row-major order.
    ///
    /// # Errors
    /// [`Kind::Dtype`] when `T` is not the tensor's element type.
    #[doc(alias = "tolist")]
    #[doc(alias = "numpy")]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Problem> {
        Ok(self.iter::<T>()?.collect())
    }

    /// Iterates over the elements, in row-major order.
    ///
    /// # Errors
    /// [`Kind::Dtype`] when `T` is not the tensor's element type.
    ///
    /// ```
    /// use tapeloom_ir::Tensor;
    /// let t = Tensor::from([true, false, true]);
    /// assert_eq!(t.iter::<bool>()?.filter(|b| *b).count(), 2);
    /// assert!(t.iter::<f64>().is_err());
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    pub fn iter<T: Element>(
        &self,
    ) -> Result<impl DoubleEndedIterator<Item = T> + ExactSizeIterator + '_, Problem> {
        self.expect_dtype(T::DTYPE)?;
        Ok(self.stored::<T>().iter().map(|s| T::load(*s)))
    }

    /// Iterates over the elements as literals, in row-major order, for any dtype.
    ///
    /// ```
    /// use tapeloom_ir::{Literal, Tensor};
    /// let largest = |t: &Tensor| t.literals().map(Literal::to_f64).fold(f64::MIN, f64::max);
    /// assert_eq!(largest(&Tensor::from([1.0f32, 4.0])), 4.0);
    /// assert_eq!(largest(&Tensor::from([1u64, 3])), 3.0);
    /// ```
    pub fn literals(
        &self,
    ) -> impl DoubleEndedIterator<Item = Literal> + ExactSizeIterator + Clone + '_ {
        self.bytes().chunks_exact(self.dtype().bytes()).map(|b| read(self.dtype(), b))
    }

    /// Iterates over the elements as f64, in row-major order, for any dtype (integers beyond 2^53 are rounded).
    pub fn numbers(&self) -> impl DoubleEndedIterator<Item = f64> + ExactSizeIterator + Clone + '_ {
        self.literals().map(Literal::to_f64)
    }

    /// Returns a tensor of the same dtype and shape, with `f` applied to each element. The result of `f` is converted
    /// to the dtype: rounded to f32, truncated to an integer, or compared with 0 for `bool`.
    ///
    /// ```
    /// use tapeloom_ir::Tensor;
    /// let t = Tensor::from([1.0f32, 4.0]).map_numbers(f64::sqrt);
    /// assert_eq!(t, Tensor::from([1.0f32, 2.0]));
    /// ```
    pub fn map_numbers(&self, mut f: impl FnMut(f64) -> f64) -> Tensor {
        let mut y = self.zeros_like();
        for (i, x) in self.numbers().enumerate() {
            y.put(i, Literal::of(self.dtype(), f(x)));
        }
        y
    }

    /// Returns the element of a tensor that has exactly one element.
    ///
    /// # Errors
    /// [`Kind::Shape`] when there is not exactly one element, [`Kind::Dtype`] when `T` is not the
    /// tensor's element type.
    ///
    /// ```
    /// use tapeloom_ir::Tensor;
    /// assert_eq!(Tensor::from([[7]]).item::<i32>()?, 7);
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    pub fn item<T: Element>(&self) -> Result<T, Problem> {
        self.expect_dtype(T::DTYPE)?;
        match self.stored::<T>() {
            [x] => Ok(T::load(*x)),
            _ => Err(Problem::new(
                Kind::Shape,
                format!("`item` needs a tensor with one element, got {}", self.ty()),
                "read many elements with `to_vec`",
            )),
        }
    }

    pub(super) fn expect_dtype(&self, dtype: Dtype) -> Result<(), Problem> {
        if self.dtype() == dtype {
            return Ok(());
        }
        Err(Problem::new(
            Kind::Dtype,
            format!("expected elements of {dtype}, found a tensor of {}", self.ty()),
            format!("read it as {}, or convert it", self.dtype()),
        ))
    }
}

/// Returns the element of dtype `dtype` with these bytes, in little-endian order.
pub(super) fn read(dtype: Dtype, bytes: &[u8]) -> Literal {
    let mut bits = [0; 8];
    bits[..bytes.len()].copy_from_slice(bytes);
    Literal { dtype, bits: u64::from_le_bytes(bits) }
}

impl<T: Element> From<T> for Tensor {
    fn from(x: T) -> Tensor {
        Tensor::scalar(x)
    }
}

/// Clones the tensor; the clone shares its buffer.
impl From<&Tensor> for Tensor {
    fn from(x: &Tensor) -> Tensor {
        x.clone()
    }
}

impl From<Literal> for Tensor {
    fn from(mut x: Literal) -> Tensor {
        if x.dtype == Dtype::Bool {
            // The literal may have other bits than 0 and 1, but the stored byte of a `bool` must be one of these.
            x.bits = x.bits.min(1);
        }
        let mut t =
            Tensor { ty: ArrayType::new(x.dtype, Shape::scalar()), lines: Buffer::zeros(1) };
        t.put(0, x);
        t
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

impl<T: Element> From<&Vec<T>> for Tensor {
    fn from(elements: &Vec<T>) -> Tensor {
        Tensor::vector(elements)
    }
}

impl<T: Element, const N: usize> From<[T; N]> for Tensor {
    fn from(elements: [T; N]) -> Tensor {
        Tensor::vector(&elements)
    }
}

impl<T: Element, const N: usize> From<&[T; N]> for Tensor {
    fn from(elements: &[T; N]) -> Tensor {
        Tensor::vector(elements)
    }
}

impl<T: Element, const N: usize> From<&[[T; N]]> for Tensor {
    fn from(rows: &[[T; N]]) -> Tensor {
        let ty = ArrayType::new(T::DTYPE, [rows.len(), N]);
        Tensor::filled_by(ty, rows.as_flattened().iter().copied())
    }
}

impl<T: Element, const N: usize> From<Vec<[T; N]>> for Tensor {
    fn from(rows: Vec<[T; N]>) -> Tensor {
        Tensor::from(rows.as_slice())
    }
}

impl<T: Element, const N: usize, const M: usize> From<[[T; N]; M]> for Tensor {
    fn from(rows: [[T; N]; M]) -> Tensor {
        Tensor::from(rows.as_slice())
    }
}

impl<T: Element, const N: usize, const M: usize> From<&[[T; N]; M]> for Tensor {
    fn from(rows: &[[T; N]; M]) -> Tensor {
        Tensor::from(rows.as_slice())
    }
}

impl<T: Element, const N: usize, const M: usize> From<&[[[T; N]; M]]> for Tensor {
    fn from(matrices: &[[[T; N]; M]]) -> Tensor {
        let ty = ArrayType::new(T::DTYPE, [matrices.len(), M, N]);
        Tensor::filled_by(ty, matrices.as_flattened().as_flattened().iter().copied())
    }
}

impl<T: Element, const N: usize, const M: usize> From<Vec<[[T; N]; M]>> for Tensor {
    fn from(matrices: Vec<[[T; N]; M]>) -> Tensor {
        Tensor::from(matrices.as_slice())
    }
}

impl<T: Element, const N: usize, const M: usize, const K: usize> From<[[[T; N]; M]; K]> for Tensor {
    fn from(matrices: [[[T; N]; M]; K]) -> Tensor {
        Tensor::from(matrices.as_slice())
    }
}

impl<T: Element> FromIterator<T> for Tensor {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Tensor {
        Tensor::from(elements.into_iter().collect::<Vec<T>>())
    }
}

//! Complex data outside of programs: conversion from and to pairs of numbers, printing.

use super::Complex;
use std::fmt;
use tapeloom_ir::{Element, Problem, Tensor};

impl<T: Element> From<(T, T)> for Complex<Tensor> {
    /// Converts one number, `re + i im`.
    fn from((re, im): (T, T)) -> Complex<Tensor> {
        Complex { re: Tensor::scalar(re), im: Tensor::scalar(im) }
    }
}

impl<T: Element> From<&[(T, T)]> for Complex<Tensor> {
    /// Converts pairs `(re, im)` to a vector.
    fn from(pairs: &[(T, T)]) -> Complex<Tensor> {
        let part = |part: fn(&(T, T)) -> T| pairs.iter().map(part).collect();
        Complex { re: part(|pair| pair.0), im: part(|pair| pair.1) }
    }
}

impl<T: Element, const N: usize> From<[(T, T); N]> for Complex<Tensor> {
    /// Converts pairs `(re, im)` to a vector.
    fn from(pairs: [(T, T); N]) -> Complex<Tensor> {
        Complex::from(&pairs[..])
    }
}

impl<T: Element> From<Vec<(T, T)>> for Complex<Tensor> {
    /// Converts pairs `(re, im)` to a vector.
    fn from(pairs: Vec<(T, T)>) -> Complex<Tensor> {
        Complex::from(&pairs[..])
    }
}

impl Complex<Tensor> {
    /// Returns the elements as pairs `(re, im)`, in row-major order.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let z = Complex::from([(1.0, 2.0), (3.0, -4.0)]);
    /// assert_eq!(z.to_pairs::<f64>()?, [(1.0, 2.0), (3.0, -4.0)]);
    /// assert_eq!(z.to_string(), "[1.0, 3.0] + i [ 2.0, -4.0]");
    /// # Ok::<(), tapeloom::Problem>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::Dtype`](crate::Kind::Dtype) if `T` is not the element type of both parts.
    pub fn to_pairs<T: Element>(&self) -> Result<Vec<(T, T)>, Problem> {
        Ok(self.re.to_vec::<T>()?.into_iter().zip(self.im.to_vec::<T>()?).collect())
    }

    /// Returns the same elements in row-major order in another shape.
    ///
    /// # Errors
    /// [`Kind::Shape`](crate::Kind::Shape) if the number of elements differs.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Complex<Tensor>, Problem> {
        Ok(Complex { re: self.re.reshape(shape)?, im: self.im.reshape(shape)? })
    }
}

impl fmt::Display for Complex<Tensor> {
    /// Prints the array of the real parts, followed by `i` times the array of the imaginary parts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} + i {}", self.re, self.im)
    }
}

/// Conversion from the numbers of `num_complex` (feature `num-complex`).
#[cfg(feature = "num-complex")]
impl<T: Element> From<&[num_complex::Complex<T>]> for Complex<Tensor> {
    /// Converts numbers to a vector.
    fn from(numbers: &[num_complex::Complex<T>]) -> Complex<Tensor> {
        Complex {
            re: numbers.iter().map(|z| z.re).collect(),
            im: numbers.iter().map(|z| z.im).collect(),
        }
    }
}

#[cfg(feature = "num-complex")]
impl Complex<Tensor> {
    /// Returns the elements in row-major order, as numbers of `num_complex` (feature `num-complex`).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let numbers = [num_complex::Complex::new(1.0, 2.0), num_complex::Complex::new(0.0, -1.0)];
    /// let z = Complex::from(&numbers[..]);
    /// assert_eq!(z.to_num_complex::<f64>()?, numbers);
    /// # Ok::<(), tapeloom::Problem>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::Dtype`](crate::Kind::Dtype) if `T` is not the element type of both parts.
    pub fn to_num_complex<T: Element>(&self) -> Result<Vec<num_complex::Complex<T>>, Problem> {
        let pair = |(re, im)| num_complex::Complex { re, im };
        Ok(self.to_pairs::<T>()?.into_iter().map(pair).collect())
    }
}

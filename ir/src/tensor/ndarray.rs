//! Tensors from and to `ndarray` arrays (feature `ndarray`).
//!
//! ```
//! use ndarray::{ArrayD, array};
//! use tapeloom_ir::Tensor;
//! let a = array![[1.0, 2.0], [3.0, 4.0]];
//! // Any layout and any view: elements are copied in row-major order.
//! let t = Tensor::from(&a.t());
//! assert_eq!(t.to_vec::<f64>()?, [1.0, 3.0, 2.0, 4.0]);
//! let back: ArrayD<f64> = t.to_ndarray()?;
//! assert_eq!(back, a.t().into_dyn());
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use super::{Element, Tensor};
use crate::lang::problem::Problem;
use crate::lang::types::ArrayType;
use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

impl<T: Element, S: Data<Elem = T>, D: Dimension> From<&ArrayBase<S, D>> for Tensor {
    fn from(array: &ArrayBase<S, D>) -> Tensor {
        let ty = ArrayType::new(T::DTYPE, array.shape());
        Tensor::filled_by(ty, array.iter().copied())
    }
}

impl<T: Element, S: Data<Elem = T>, D: Dimension> From<ArrayBase<S, D>> for Tensor {
    fn from(array: ArrayBase<S, D>) -> Tensor {
        Tensor::from(&array)
    }
}

impl Tensor {
    /// Copies the elements into an `ndarray` array.
    ///
    /// # Errors
    /// [`crate::Kind::Dtype`] when `T` is not the tensor's element type.
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>, Problem> {
        ArrayD::from_shape_vec(IxDyn(self.shape()), self.to_vec::<T>()?)
            .map_err(|e| Problem::internal(e.to_string()))
    }
}

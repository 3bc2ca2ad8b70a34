//! Access to elements of tensors by position, for tests: a position outside the tensor panics.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use tapeloom_ir::{ArrayType, Literal, Tensor};

/// Access to the elements of a tensor by row-major position.
pub trait Elements {
    /// Returns the element at a row-major position.
    fn at(&self, position: usize) -> Literal;

    /// Overwrites the element at a row-major position.
    fn put(&mut self, position: usize, x: Literal);
}

impl Elements for Tensor {
    fn at(&self, position: usize) -> Literal {
        self.literal(position).expect("a position in the tensor")
    }

    fn put(&mut self, position: usize, x: Literal) {
        self.set_literal(position, x).expect("a position in the tensor, and its dtype");
    }
}

/// Returns a tensor of type `ty`, whose elements `f` returns for their row-major positions.
pub fn tensor_of(ty: &ArrayType, mut f: impl FnMut(usize) -> Literal) -> Tensor {
    let mut t = Tensor::zeros_of(ty).expect("a test's tensors are small");
    for i in 0..t.elements() {
        t.put(i, f(i));
    }
    t
}

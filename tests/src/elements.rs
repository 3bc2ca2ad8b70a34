//! Elements of tensors by their position, for tests: one that is not there is a fault of the test.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use tapeloom_ir::{ArrayType, Literal, Tensor};

/// Elements by row-major position, in a test that knows how many there are.
pub trait Elements {
    /// The element at a position.
    fn at(&self, position: usize) -> Literal;

    /// Overwrites the element at a position.
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

/// The tensor of a small type whose elements are what `f` gives for their positions.
pub fn tensor_of(ty: &ArrayType, mut f: impl FnMut(usize) -> Literal) -> Tensor {
    let mut t = Tensor::zeros_of(ty).expect("a test's tensors are small");
    for i in 0..t.elements() {
        t.put(i, f(i));
    }
    t
}

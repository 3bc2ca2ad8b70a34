//! Must not compile: names of numpy, JAX and PyTorch. Each error says which name to use instead.
//! errors: 9
//! says: the natural logarithm is `ln`
//! says: another dtype is `convert`
//! says: axes in reverse order are `t`
//! says: a new axis is `expand_dims`
//! says: a derivative is a transform of the closure that computes the value
//! says: an array that is being traced has no elements to refer to
//! says: `x.index(2)` and `x.index((i, j))` are elements or subarrays
//! says: cannot be the other operand of a `Var`
//! says: convert an array or a vector of numbers by `constant([1.0, 2.0])`
//! says: inside a closure that is being traced there are no tensors yet
//! says: an array has data when the program runs
use tapeloom::prelude::*;

fn main() {
    let square = jit(|x: Var| x * x);
    let _ = jit(|x: Var| x.log());
    let _ = jit(|x: Var| x.astype(Dtype::F32));
    let _ = jit(|x: Var| x.transpose());
    let _ = jit(|x: Var| x.unsqueeze(0));
    let _ = jit(|x: Var| x.backward());
    let _ = jit(|x: Var| x[0]);
    let _ = jit(|x: Var| x.maximum([1.0, 2.0]));
    let _ = jit(move |x: Var| {
        let _ = square.call(x);
        x
    });
    let _ = jit(|x: Var| x.numpy());
}

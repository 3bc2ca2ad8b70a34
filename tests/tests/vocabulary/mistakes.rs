//! Wrong arguments: an error of the user's line that names the function, never a panic.

use super::calls::{CALLS, Call};
use super::values::cases;
use tapeloom::prelude::*;
use tapeloom_ir::ArrayType;

/// Whether the call in the table, and not the function, is what goes wrong: there a number meets an
/// array that cannot hold it, or an array is prepared.
fn in_the_call(name: &str, text: &str) -> bool {
    text.contains("]: the number")
        || (name == "select_first" && text.contains("`mul`"))
        || (name == "insert" && text.contains("`expand_dims`"))
}

#[test]
fn mistakes_are_errors_of_the_function_that_was_called() {
    let mut wrong = Vec::new();
    for case in cases().iter().filter(|c| !c.edge) {
        for spoilt in 0..case.args.len() {
            for (how, ty) in spoils(&case.args[spoilt]) {
                let mut args = case.args.clone();
                args[spoilt] = Tensor::zeros(&ty).unwrap();
                let call: Call = case.call;
                let Err(e) = jit(|x: Vec<Var>| call(&x)).interpreted().call(&args) else {
                    continue;
                };
                let text = e.to_string();
                let name = case.name.split('.').next().unwrap_or_default();
                let named = text.contains(&format!("`{name}`")) || in_the_call(name, &text);
                let here = text.contains("vocabulary/calls.rs");
                if !named || !here || text.contains("prelude/src") {
                    wrong.push(format!("{} with {how} {spoilt}:\n{text}", case.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} mistakes:\n{}", wrong.len(), wrong.join("\n"));
    assert!(!CALLS.is_empty());
}

/// Types near that of an argument that are probably wrong: another dtype, rank or extent.
fn spoils(x: &Tensor) -> Vec<(String, ArrayType)> {
    let mut all = Vec::new();
    for dtype in [Dtype::Bool, Dtype::I64, Dtype::F32, Dtype::F64] {
        all.push((format!("{dtype} as argument"), ArrayType::new(dtype, x.shape())));
    }
    let more: Vec<usize> = [2].iter().chain(x.shape()).copied().collect();
    all.push(("one axis more in argument".to_owned(), ArrayType::new(x.dtype(), more)));
    for axis in 0..x.shape().len() {
        for extent in [0, 1, x.shape()[axis] + 1] {
            let mut shape = x.shape().to_vec();
            shape[axis] = extent;
            let how = format!("extent {extent} of axis {axis} in argument");
            all.push((how, ArrayType::new(x.dtype(), shape)));
        }
    }
    if let Some((_, less)) = x.shape().split_first() {
        all.push(("one axis less in argument".to_owned(), ArrayType::new(x.dtype(), less)));
    }
    all
}

//! Wrong arguments must give an error that names the function and the user's line, never a panic.

use super::calls::{CALLS, Call};
use super::values::cases;
use tapeloom::prelude::*;
use tapeloom_ir::ArrayType;

/// Returns whether an error text is about the test's own call and not about the function: the call passes a number that
/// is not representable in the dtype of an array, or the error comes from code that prepares an array.
fn in_the_call(name: &str, text: &str) -> bool {
    text.contains("]: the number")
        || (name == "select_first" && text.contains("`mul`"))
        || (name == "insert" && text.contains("`expand_dims`"))
        || (name == "istft" && text.contains("`complex`"))
        || (name == "dirichlet_logpdf" && text.contains("`softmax`"))
}

#[test]
fn mistakes_are_errors_of_the_function_that_was_called() {
    let mut wrong = Vec::new();
    for case in cases().iter().filter(|c| !c.edge) {
        for spoilt in 0..case.args.len() {
            for (how, ty) in spoils(&case.args[spoilt]) {
                let mut args = case.args.clone();
                args[spoilt] = Tensor::zeros_of(&ty).unwrap();
                let call: Call = case.call;
                let Err(e) = jit(|x: Vec<Var>| call(&x)).interpreted().call(&args) else {
                    continue;
                };
                let text = e.to_string();
                let name = case.name.split('.').next().unwrap_or_default();
                let named = text.contains(&format!("`{name}`")) || in_the_call(name, &text);
                let here = text.contains("vocabulary/calls.rs");
                // If an error suggests a conversion, it must be to a dtype that the function accepts.
                let mends = !(text.contains("needs integers")
                    && text.contains("as in `x.convert(Dtype::F64)`"));
                if !named || !here || !mends || text.contains("prelude/src") {
                    wrong.push(format!("{} with {how} {spoilt}:\n{text}", case.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} mistakes:\n{}", wrong.len(), wrong.join("\n"));
    assert!(!CALLS.is_empty());
}

type Binary = fn(Var, Var) -> Var;

/// Declares the list of functions that emit a single equation; the primitive's name may differ from the function's.
macro_rules! primitives {
    ($($name:ident($($y:ident)?))*) => {
        const ONE_EQUATION: &[(&str, Binary)] =
            &[$((stringify!($name), |x, _y| x.$name($(primitives!($y _y))?))),*];
    };
    (y $y:ident) => { $y };
}
primitives! {
    abs() signum() floor() ceil() round() round_ties_even() exp() exp2() exp_m1() ln() ln_1p() log2()
    log10() sqrt() rsqrt() cbrt() sin() cos() tan() asin() acos() atan() sinh() cosh() tanh() sech()
    asinh() acosh() atanh() sigmoid() erf() erfc() ndtr() erf_inv() lgamma() digamma() is_finite()
    maximum(y) minimum(y) pow(y) hypot(y) atan2(y) next_after(y) eq(y) ne(y) lt(y) le(y) gt(y) ge(y)
    square() recip()
}

#[test]
fn mistakes_are_errors_of_the_function_and_not_of_its_primitive() {
    let more: &[(&str, Binary)] = &[
        ("powi", |x, _| x.powi(2)),
        ("powf", |x, _| x.powf(2.5)),
        ("polygamma", |x, _| x.polygamma(1)),
        ("concat", |x, y| concat(&[x, y], 0)),
        ("take", |x, _| x.take(x, 0)),
        ("&", |x, y| x & y),
        ("|", |x, y| x | y),
        ("^", |x, y| x ^ y),
        ("<<", |x, y| x << y),
        (">>", |x, y| x >> y),
        ("!", |x, _| !x),
    ];
    let mut wrong = Vec::new();
    let mut seen = Vec::new();
    for (name, call) in ONE_EQUATION.iter().chain(more) {
        for x in [Tensor::from([true]), Tensor::from([1i64]), Tensor::from([1.0])] {
            let f = jit(|(x, y): (Var, Var)| call(x, y)).interpreted();
            let Err(e) = f.call((&x, Tensor::from([1f32, 2.0, 3.0]))) else { continue };
            let text = e.to_string();
            seen.push(*name);
            if !text.contains(&format!("`{name}`")) && !text.contains("]: the number") {
                wrong.push(format!("{name} of {}:\n{text}", x.ty()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} mistakes:\n{}", wrong.len(), wrong.join("\n"));
    assert!(ONE_EQUATION.iter().chain(more).all(|(name, _)| seen.contains(name)), "{seen:?}");
    // Every function in the tables of `elementwise.rs` and `compare.rs` must be in this list.
    for source in ["elementwise", "compare"] {
        let path = format!("{}/../prelude/src/ops/{source}.rs", env!("CARGO_MANIFEST_DIR"));
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let row =
                line.strip_prefix("    ").and_then(|l| l.strip_suffix(';')?.split_once(" = "));
            let Some((name, _)) = row.filter(|(n, p)| !n.contains(' ') && !p.contains(['(', ' ']))
            else {
                continue;
            };
            assert!(ONE_EQUATION.iter().any(|(n, _)| *n == name), "`{name}` of {source}.rs");
        }
    }
}

/// Returns types that a function should refuse as an argument: the type of `x` with another dtype, rank or extent, each
/// with a description.
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

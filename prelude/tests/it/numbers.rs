//! Rust numbers as operands: literals and variables, on either side, by reference, in iterators.
#![allow(clippy::unwrap_used, clippy::op_ref, reason = "tests")]

use tapeloom::prelude::*;

fn at(x: f64, f: impl Fn(Var) -> Var) -> f64 {
    run(f, x).unwrap().item::<f64>().unwrap()
}

/// The types of literals on the left are inferred in any expression.
#[test]
fn literals_on_the_left() {
    assert_eq!(at(0.5, |x| (1.0 - x).ln()), 0.5f64.ln());
    assert_eq!(at(2.0, |x| (1 - x).abs()), 1.0);
    assert_eq!(at(2.0, |x| (&6.0 / x).sqrt()), 3f64.sqrt());
    assert_eq!(at(2.0, |x| (-(-7 % x)).abs()), 1.0);
    assert_eq!(at(2.0, |x| ((1.0 + 0.5) * x).exp()), 3f64.exp());
}

/// Rust variables may be operands: f64 and i64 on both sides of a `Var`, numbers of other types on its right.
#[test]
fn values_on_either_side() {
    let (rate, n) = (0.1, 3);
    assert_eq!(at(2.0, |g| (rate * g).abs() + (n * g).abs()), 0.1 * 2.0 + 6.0);
    let rates = [0.5, 0.25];
    assert_eq!(at(2.0, |g| rates.iter().map(|r| r * g).sum()), 1.5);
    assert_eq!(at(2.0, |g| rates.iter().map(|r| (r - g).abs()).sum::<Var>()), 3.25);
    assert_eq!(at(2.0, |g| (1..4).map(|n| (n * g).abs()).sum()), 12.0);
    let (a, b, c, d, e) = (2f32, 2i32, 2u32, 2u64, 2usize);
    assert_eq!(at(1.0, |x| x * a * b * c * d * e), 32.0);
    assert_eq!(at(1.0, |x| f64::from(a) / x + (e as i64 - x)), 3.0);
    // A number must take the dtype of the array.
    let y = run(|x: Var| rate * x, [2.0f32]).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [0.2]);
}

/// A reference to a `Var`, as iterators yield it, can also be on the right of a number.
#[test]
fn references_on_the_right() {
    let (rate, n) = (0.5, 3);
    assert_eq!(at(2.0, |x| [x, x].iter().map(|x| 2.0 * x).sum()), 8.0);
    assert_eq!(at(2.0, |x| [x].iter().map(|x| (1.0 - x).abs() + (6 / x) + (7 % x)).sum()), 5.0);
    assert_eq!(at(2.0, |x| rate * &x + &rate * &x + n * &x + &n * &x), 14.0);
    let t = Tensor::from(3.0);
    assert_eq!(at(2.0, |x| &t * &x + t.clone() * &x), 12.0);
}

/// A number that is not representable is an error, and the fix that the error suggests must work: floats are rounded,
/// but must not become infinite, and an integer needs a wider integer dtype.
#[test]
fn numbers_that_do_not_fit() {
    fn refused(f: impl Fn(Var) -> Var, x: impl Args<Var>, help: &str) {
        let text = run(f, x).unwrap_err().to_string();
        assert!(text.contains("which cannot hold it"), "{text}");
        assert!(text.contains(&format!("help: convert the array first, as in {help}\n")), "{text}");
    }
    refused(|x| x + 1e40, 1f32, "`x.convert(Dtype::F64)`");
    refused(|x| x.minimum(f64::MAX), 1f32, "`x.convert(Dtype::F64)`");
    refused(|x| x + 16_777_217, 1f32, "`x.convert(Dtype::F64)`, or write a number of a float type");
    refused(|x| x + 3_000_000_000_i64, 1i32, "`x.convert(Dtype::I64)`");
    refused(|x| x + 3e9, 1i32, "`x.convert(Dtype::I64)`");
    refused(|x| x * -1, 1u32, "`x.convert(Dtype::I64)`");
    refused(|x| x + u64::MAX, 1i64, "`x.convert(Dtype::U64)`");
    refused(|x| x * 0.5, 1i64, "`x.convert(Dtype::F64)`, or write a number of an integer type");
    let y = run(|x: Var| x * 0.0 + f64::INFINITY + 0.1, 1f32).unwrap();
    assert_eq!(y.item::<f32>().unwrap(), f32::INFINITY);
}

#[test]
fn sums_and_products_of_iterators() {
    assert_eq!(at(3.0, |x| [x, x + 1.0].into_iter().product()), 12.0);
    assert_eq!(
        at(3.0, |x| [x, x + 1.0].iter().product::<Var>() + [x, x].iter().sum::<Var>()),
        18.0
    );
    assert_eq!(at(3.0, |x| x + std::iter::empty::<Var>().product::<Var>()), 4.0);
    let slope = run(grad(|x: Var| [x, x, x].iter().product()), 2.0).unwrap();
    assert_eq!(slope.item::<f64>().unwrap(), 12.0);
}

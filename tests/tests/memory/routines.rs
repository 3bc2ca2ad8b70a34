//! Library routines: from the second call on, a call allocates its results only, and the reported workspace includes
//! the routines' scratch memory.

use tapeloom::prelude::*;
use tapeloom_tests::Counting;

/// Bytes that a call may allocate in addition to its results, for handles and tables of arguments.
const BESIDE: usize = 4 << 10;

fn check(name: &str, n: usize, scratch: usize, f: impl Fn(Var) -> Var) {
    // The argument of all routines: a symmetric positive definite matrix of order n.
    let a = run(
        |()| {
            eye(n, Dtype::F64) * 3.0
                + 1.0 / (1.0 + iota([n, n], 0, Dtype::F64) + iota([n, n], 1, Dtype::F64))
        },
        (),
    );
    let a = a.unwrap();
    let f = jit(f);
    let (y, cold) = Counting::most(|| f.call(&a).unwrap());
    let results = y.elements() * 8;
    let reported = f.explain(&a).unwrap().peak_bytes();
    assert!(cold >= scratch, "{name}: {cold} bytes in the first call, {scratch} of them scratch");
    let arguments = a.elements() * 8;
    assert!(
        reported >= scratch + results + arguments,
        "{name}: {reported} bytes reported, {scratch} of them scratch"
    );
    let (_, warm) = Counting::most(|| f.call(&a).unwrap());
    assert!(warm <= results + BESIDE, "{name}: {warm} bytes in a warm call, {results} of results");
}

#[test]
fn a_warm_call_allocates_its_results_only() {
    // For each routine, the least scratch memory that the report must include, in multiples of the matrix.
    let n = 64;
    let square = n * n * 8;
    check("cholesky", n, square, linalg::cholesky);
    check("solve", n, square, |a| linalg::solve(a, a.sum_axis(0)));
    check("qr", n, square, |a| linalg::qr(a).0);
    check("eigh", n, 2 * square, |a| linalg::eigh(a).1);
    check("svd", n, 3 * square, |a| linalg::svd(a).0);
    check("eig", n, 2 * square, |a| linalg::eig(a).0.0);
    check("schur", n, square, |a| linalg::schur(a).0);
    check("gradient", n, square, grad(|a: Var| linalg::slogdet(a).1));
}

/// Under a byte budget, the gradient must recompute cheap values instead of a decomposition: a decomposition costs n³,
/// although the saved eigenvectors are as large as saved cheap values.
#[test]
fn a_budget_is_met_without_a_second_decomposition() {
    let n = 24;
    let matrix = |()| iota([n, n], 0, Dtype::F64).sin() * iota([n, n], 1, Dtype::F64).cos();
    let a = run(matrix, ()).unwrap();
    let step = |x: Var| {
        let (w, v) = linalg::eigh(x);
        let y = (3.0 * x.sin()).exp();
        (0.1 * (y * y * v * v) + 0.1 * w).tanh()
    };
    let walk = move |a: Var| step(step(step(a))).sum();
    let all = jit(grad(walk)).explain(&a).unwrap().tape().bytes();
    for share in [0.8, 0.6, 0.5] {
        let budget = Policy::Bytes((all as f64 * share) as u64);
        let kept = checkpoint(walk, budget.clone());
        let tape = jit(grad(kept)).explain(&a).unwrap();
        let again: Vec<&str> = tape.tape().rematerialized().iter().map(|a| a.what).collect();
        assert!(!again.is_empty() && !again.contains(&"eigh"), "{budget:?}: {again:?}");
    }
}

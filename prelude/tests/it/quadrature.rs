//! The weights of the quadrature rule.

use table::table;

#[path = "../../src/quadrature/table.rs"]
mod table;

/// Kronrod's rule is exact up to degree 31, Gauss's rule up to degree 19.
#[test]
fn powers_are_integrated() {
    let [points, kronrod, gauss] = table();
    let sum = |weights: &[f64], n: i32| -> f64 {
        points.iter().zip(weights).map(|(x, w)| w * x.powi(n)).sum()
    };
    let exact = |n: i32| if n % 2 == 0 { 2.0 / f64::from(n + 1) } else { 0.0 };
    for n in 0..=31 {
        assert!((sum(&kronrod, n) - exact(n)).abs() < 1e-15, "{n}");
        assert_eq!((sum(&gauss, n) - exact(n)).abs() < 1e-15, n < 20 || n % 2 == 1, "{n}");
    }
}

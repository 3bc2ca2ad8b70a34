//! Tests of `half_line`.

use tapeloom_math::half_line::half_line;

#[test]
fn integrals_that_are_known() {
    let close =
        |found: f64, want: f64| assert!((found / want - 1.0).abs() < 1e-15, "{found} {want}");
    close(half_line(1.0, |s| (-s).exp()), 1.0);
    close(half_line(0.02, |s| (-50.0 * s).exp() * s * s), 2.0 / 50f64.powi(3));
    close(half_line(1.0, |s| (-s * s).exp()), 0.5 * std::f64::consts::PI.sqrt());
    // The integrand is near 1/s from 1e-8 to 1; its integral must be E₁(1e-8).
    close(half_line(1e-8, |s| (-s - 1e-8).exp() / (s + 1e-8)), 17.843_465_089_050_83);
}

//! User-defined derivative rules.
#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::Kind;
use tapeloom::prelude::*;

fn number(t: &Tensor) -> f64 {
    t.item().unwrap()
}

/// Returns the cube with a rule that differs recognizably from its derivative: 100 dx.
fn marked(x: Var) -> Var {
    custom_jvp(|x: Var| x * x * x, |x: Var, dx: Var| (x * x * x, 100.0 * dx))(x)
}

#[test]
fn a_forward_rule_serves_every_mode() {
    assert_eq!(number(&run(marked, 2.0).unwrap()), 8.0);
    assert_eq!(number(&run(grad(marked), 2.0).unwrap()), 100.0);
    assert_eq!(number(&run(|x: Var| jvp(marked)((x, x)).1, 2.0).unwrap()), 200.0);
    let batch = run(vmap(grad(marked)), [1.0, 2.0]).unwrap();
    assert_eq!(batch.to_vec::<f64>().unwrap(), [100.0, 100.0]);
    assert_eq!(number(&run(grad(grad(marked)), 2.0).unwrap()), 0.0);
}

/// The initial carry of a loop, or the result of a branch, may be a number; its tangent is zero.
#[test]
fn tangents_begin_at_numbers() {
    let three = |dx: Var| fori_loop(3, |(_, s): (Var, Var)| s + dx, constant(0.0));
    let sum = |dx: Var| {
        scan(|(s, w): (Var, Var)| (s + w * dx, ()), constant(0.0), constant([1.0, 2.0])).0
    };
    let branch = |dx: Var| {
        let yes = Tensor::from(true);
        cond(constant(&yes), |x: Var| 3.0 * x, |_| constant(0.0), dx)
    };
    let linear: [fn(Var) -> Var; 3] = [three, sum, branch];
    for f in linear {
        let marked = custom_jvp(|x: Var| x, move |x: Var, dx: Var| (x, f(dx)));
        assert_eq!(number(&run(grad(marked), 2.0).unwrap()), 3.0);
        assert_eq!(number(&run(|x: Var| linear_transpose(f, x)(x), 2.0).unwrap()), 6.0);
    }
    let affine = |dx: Var| fori_loop(3, |(_, s): (Var, Var)| s + dx, constant(1.0));
    let refused = run(|x: Var| linear_transpose(affine, x)(x), 2.0).unwrap_err();
    assert!(refused.to_string().contains("linear"), "{refused}");
}

/// Functions and derivative rules may capture constant data. The data have no derivative.
#[test]
fn rules_capture_data() {
    let data = Tensor::from([2.0, 3.0]);
    let f = custom_vjp(
        |x: Var| (x * &data).sum(),
        |x: Var| ((x * &data).sum(), ()),
        |(), ct: Var| 10.0 * ct * constant(&data),
    );
    let both = |x: Var| {
        let g = custom_jvp(|x: Var| x * &data, |x: Var, dx: Var| (x * &data, 10.0 * dx * &data));
        (f(x) + g(x).sum(), x.sum())
    };
    let slope = run(grad(|x: Var| both(x).0), [1.0, 1.0]).unwrap();
    assert_eq!(slope.to_vec::<f64>().unwrap(), [40.0, 60.0]);
    let curve =
        run(grad(|x: Var| grad(|x: Var| (both(x).0 * both(x).1).sin())(x).sum()), [1.0, 1.0]);
    assert!(curve.unwrap().to_vec::<f64>().unwrap().iter().all(|x| x.is_finite()));
}

/// The rule of an integral integrates tangents, also for an integral inside an integral.
#[test]
fn an_integral_of_integrals_has_its_reverse_mode() {
    let over = |f: &dyn Fn(Var) -> Var| quad(f, (0.0, 1.0), Precision::default()).0;
    let to = |f: &dyn Fn(Var) -> Var, b: Var| quad(f, (0.0, b), Precision::default()).0;
    type Area = Box<dyn Fn(Var) -> Var>;
    let areas: [(Area, f64); 5] = [
        (Box::new(move |b| over(&|x: Var| over(&|y: Var| b * x * y))), 0.25),
        (Box::new(move |b| over(&|x: Var| over(&|y: Var| x * y) * b)), 0.25),
        (Box::new(move |b| over(&|x: Var| over(&|y: Var| b * y) * x)), 0.25),
        (Box::new(move |b| over(&|x: Var| to(&|y: Var| y, b) * x)), 1.0),
        (Box::new(move |b| to(&|x: Var| to(&|y: Var| y, x * b), b)), 20.0 / 3.0 * 2.0),
    ];
    for (i, (area, slope)) in areas.into_iter().enumerate() {
        let found = number(&run(grad(area), 2.0).unwrap());
        assert!((found - slope).abs() < 1e-12, "integral {i}: {found}, not {slope}");
    }
}

#[test]
fn a_reverse_rule_serves_every_mode() {
    let f = custom_vjp(|x: Var| x.sin(), |x: Var| (x.sin(), x), |x: Var, ct: Var| ct * 10.0 * x);
    assert_eq!(number(&run(grad(&f), 2.0).unwrap()), 20.0);
    assert_eq!(number(&run(grad(grad(&f)), 2.0).unwrap()), 10.0);
    assert_eq!(number(&run(|x: Var| jvp(&f)((x, x)).1, 2.0).unwrap()), 40.0);
    let batch = run(vmap(grad(&f)), [1.0, 2.0]).unwrap();
    assert_eq!(batch.to_vec::<f64>().unwrap(), [10.0, 20.0]);
}

#[test]
fn both_rules_on_one_function() {
    let f = custom_rules(
        |x: Var| x,
        |x: Var, dx: Var| (x, 2.0 * dx),
        |x: Var| (x, ()),
        |(), ct: Var| 3.0 * ct,
    );
    assert_eq!(number(&run(|x: Var| jvp(&f)((x, x.ones_like())).1, 5.0).unwrap()), 2.0);
    assert_eq!(number(&run(grad(&f), 5.0).unwrap()), 3.0);
}

/// The rule gives the derivative with respect to the argument; derivatives with respect to captures are automatic.
#[test]
fn captures_are_differentiated_beside_the_rule() {
    let f = |w: Var| {
        let f = custom_jvp(|x: Var| w * x, |x: Var, dx: Var| (w * x, 100.0 * dx * w));
        f(w * w)
    };
    // The value is w³. The rule contributes 100 w · 2w, the capture w².
    assert_eq!(number(&run(f, 2.0).unwrap()), 8.0);
    assert_eq!(number(&run(grad(f), 2.0).unwrap()), 804.0);
    let g = |w: Var| {
        let f = custom_vjp(|x: Var| w * x, |x: Var| (w * x, x), |_: Var, ct: Var| 100.0 * ct * w);
        f(w * w)
    };
    assert_eq!(number(&run(grad(g), 2.0).unwrap()), 804.0);
    assert_eq!(number(&run(|w: Var| jvp(g)((w, w.ones_like())).1, 2.0).unwrap()), 804.0);
}

#[test]
fn integers_pass_through_rules() {
    let f = custom_jvp(
        |(x, n): (Var, Var)| (x * n.convert(Dtype::F64), n),
        |(x, n): (Var, Var), (dx, _): (Var, Var)| {
            let y = x * n.convert(Dtype::F64);
            ((y, n), (dx * 7.0, n))
        },
    );
    let g = jit(|(x, n): (Var, Var)| grad(|x| f((x, n)).0)(x));
    assert_eq!(number(&g.call((2.0, 3i64)).unwrap()), 7.0);
}

#[test]
fn a_rule_that_does_not_fit_is_refused() {
    let f = |x: Var| custom_jvp(|x: Var| x, |x: Var, dx: Var| (x, dx.sum()))(x);
    let error = run(grad(|x: Var| f(x).sum()), [1.0, 2.0]).unwrap_err();
    assert_eq!(error.kind(), Kind::Rule);
    assert!(error.to_string().contains("tangent must be f64[2], got f64[]"), "{error}");

    let f = |x: Var| custom_jvp(|x: Var| x, |x: Var, dx: Var| (x, dx * dx))(x);
    let error = run(grad(f), 1.0).unwrap_err();
    assert_eq!(error.kind(), Kind::NotLinear, "{error}");
}

#[test]
fn rules_are_checked_against_the_function() {
    let f = |x: Var| x.powi(3);
    check_rule(f, custom_jvp(f, |x: Var, dx: Var| (x.powi(3), 3.0 * x * x * dx)), [1.0, 2.0])
        .unwrap();
    let back = |x: Var, ct: Var| 3.0 * x * x * ct;
    check_rule(f, custom_vjp(f, |x: Var| (x.powi(3), x), back), [1.0, 2.0]).unwrap();
    let error = check_rule(f, marked, [1.0, 2.0]).unwrap_err();
    assert!(error.to_string().contains("forward derivative 0, element 0"), "{error}");
}

/// The outer function's rule is the derivative of the inner function, which has captures. The tangents of the captures
/// are zeros in that rule, and the check that rules are linear must accept products with these zeros.
#[test]
fn rules_within_rules_may_capture() {
    let f = |(c, x): (Var, Var)| {
        let h = move |x: Var| (c * x).sin() * c.index(1);
        let inner = move |x: Var| custom_jvp(h, move |x, dx| jvp(h)((x, dx)))(x);
        custom_jvp(inner, move |x, dx| jvp(inner)((x, dx)))(x).sum()
    };
    let plain = |(c, x): (Var, Var)| ((c * x).sin() * c.index(1)).sum();
    let args = ([0.5, -1.5], [0.25, 2.0]);
    let (c, x) = run(grad(f), args).unwrap();
    let (c1, x1) = run(grad(plain), args).unwrap();
    for (a, b) in [(c, c1), (x, x1)] {
        let (a, b) = (a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-14), "{a:?} {b:?}");
    }
}

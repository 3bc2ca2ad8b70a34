//! Special functions in programs: derivatives compared with finite differences, under every transform, and at the
//! ends of their domains; bits of numbers, and divisors.

use tapeloom::Kind;
use tapeloom::prelude::*;

/// A name, a function, and the values of each argument at the points where it is differentiated, one row per argument.
type Case = (&'static str, fn(&[Var]) -> Var, &'static [&'static [f64]]);

const SMOOTH: &[Case] = &[
    ("i0", |x| x[0].i0(), &[&[0.0, -1.5, 30.0]]),
    ("i1", |x| x[0].i1(), &[&[0.0, -1.5, 30.0]]),
    ("i0e", |x| x[0].i0e(), &[&[0.5, -1.5, 30.0]]),
    ("i1e", |x| x[0].i1e(), &[&[0.5, -1.5, 30.0]]),
    ("bessel_j0", |x| x[0].bessel_j0(), &[&[0.0, -1.5, 30.0]]),
    ("bessel_j1", |x| x[0].bessel_j1(), &[&[0.0, -1.5, 30.0]]),
    ("bessel_jn", |x| x[0].bessel_jn(-3), &[&[0.0, -1.5, 30.0]]),
    ("bessel_y0", |x| x[0].bessel_y0(), &[&[0.5, 1.5, 30.0]]),
    ("bessel_y1", |x| x[0].bessel_y1(), &[&[0.5, 1.5, 30.0]]),
    ("bessel_yn", |x| x[0].bessel_yn(3), &[&[0.5, 1.5, 30.0]]),
    ("exp1", |x| x[0].exp1(), &[&[0.5, 1.5, 30.0]]),
    ("expn", |x| x[0].expn(4), &[&[0.5, 1.5, 30.0]]),
    ("expi", |x| x[0].expi(), &[&[-0.5, 0.3, 1.5]]),
    ("spence", |x| x[0].spence(), &[&[0.3, 1.0, 5.0]]),
    ("erfcx", |x| x[0].erfcx(), &[&[-1.5, 0.3, 20.0]]),
    ("dawsn", |x| x[0].dawsn(), &[&[-1.5, 0.3, 20.0]]),
    ("hyp1f1", |x| x[0].full_like(1.5).hyp1f1(2.25, x[0]), &[&[-1.5, 0.3, 20.0]]),
    ("boxcox", |x| x[0].boxcox(x[1]), &[&[0.5, 2.0, 4.0, 1.01], &[0.5, 0.0, -1.5, 1e-3]]),
    ("erfc_inv", |x| x[0].erfc_inv(), &[&[0.3, 1.0, 1.6]]),
    ("gammainc", |x| x[0].gammainc(x[1]), &[&[0.4, 1.0, 3.0, 3.0], &[0.7, 2.0, 1.2, 8.0]]),
    ("gammaincc", |x| x[0].gammaincc(x[1]), &[&[0.4, 1.0, 3.0, 3.0], &[0.7, 2.0, 1.2, 8.0]]),
    (
        "betainc",
        |x| x[0].betainc(x[1], x[2]),
        &[&[0.4, 1.0, 3.0], &[0.7, 2.0, 1.5], &[0.3, 0.6, 0.8]],
    ),
    ("zeta", |x| x[0].zeta(x[1]), &[&[1.5, 3.0, 6.0], &[0.7, 1.0, 4.0]]),
];

fn numbers(x: &Tensor) -> Vec<f64> {
    x.numbers().collect()
}

fn columns(points: &[&[f64]]) -> Vec<Tensor> {
    points.iter().map(|p| Tensor::from(p.to_vec())).collect()
}

#[test]
fn derivatives_are_those_of_finite_differences() {
    for (name, f, points) in SMOOTH {
        let checked = check_grads(|x: Vec<Var>| f(&x), columns(points), 3);
        checked.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

/// Derivatives of ln B(x, y) with respect to the larger operand are multiples of the smaller one, and must keep their
/// digits however small it is. The expected values are mpmath's.
#[test]
fn the_logarithm_of_beta_keeps_its_digits_beside_zero() {
    let f = |(x, y): (Var, Var)| x.betaln(y);
    let second = move |x: (Var, Var)| grad(move |x| grad(f)(x).1)(x).1;
    let all = vmap(move |x: (Var, Var)| (f(x), grad(f)(x).1, second(x)));
    let table = [
        (1e-20, 0.5, 46.051701859880914, -4.934802200544679e-20, 1.6828796644234318e-19),
        (1e-8, 2.0, 18.420680733952366, -6.449340648276574e-9, 4.041138038494916e-9),
        (1e-20, 10.0, 46.051701859880914, -1.0516633568168574e-21, 1.1049834970802067e-22),
        (1e-20, 1e3, 46.051701859880914, -1.0005001666666333e-23, 1.0010004999998333e-26),
        (1e-300, 0.9, 690.7755278982137, -1.9225399594772036e-300, 3.20179704379472e-300),
        (-0.5, 1e20, 24.2913630534251, 5e-21, -5e-41),
        (-2.5, 1e10, 57.50838360791597, 2.5000000004375e-10, -2.500000000875e-20),
    ];
    let column =
        |of: fn(&(f64, f64, f64, f64, f64)) -> f64| table.iter().map(of).collect::<Vec<f64>>();
    let (y, slope, bend) = run(all, (column(|r| r.0), column(|r| r.1))).unwrap();
    for (got, want) in [(y, column(|r| r.2)), (slope, column(|r| r.3)), (bend, column(|r| r.4))] {
        for (got, want) in numbers(&got).into_iter().zip(want) {
            assert!((got / want - 1.0).abs() < 1e-9, "{got:e} for {want:e}");
        }
    }
    let ends = run(vmap(f), ([0.0, 0.5, -0.5, f64::INFINITY], [f64::INFINITY; 4])).unwrap();
    let inf = f64::INFINITY;
    assert_eq!(numbers(&ends), [inf, -inf, inf, -inf]);
}

/// Near 0 and 1, a derivative contains the density as a product, and one factor of this product underflows. Second
/// derivatives must be right there.
#[test]
fn distribution_functions_have_derivatives_beside_their_ends() {
    let second = |f: fn(Var) -> Var, x: f64| numbers(&run(grad(grad(f)), x).unwrap())[0];
    let gamma = second(|x| constant(2.0).gammainc(x), 1e-300);
    let beta = second(|x| constant(2.0).betainc(2.0, x), 1e-300);
    assert!((gamma - 1.0).abs() < 1e-12 && (beta - 6.0).abs() < 1e-11, "{gamma} {beta}");
}

/// `boxcox` at p = 0 is a logarithm, infinite at x = 0 and x = inf. Its derivative with respect to p, (ln x)² / 2, must
/// be infinite there too.
#[test]
fn box_and_cox_end_in_infinities() {
    let f = |(x, p): (Var, Var)| x.boxcox(p);
    let all = vmap(move |x: (Var, Var)| (f(x), grad(f)(x)));
    let (inf, no) = (f64::INFINITY, f64::NAN);
    let x = ([0.0, inf, inf, inf, 0.0, -1.0, -1.0], [0.0, 0.0, -2.0, 0.5, 0.5, 0.0, 2.0]);
    let (y, (dx, dp)) = run(all, x).unwrap();
    let hold = |got: &Tensor, want: [f64; 7]| {
        let same =
            numbers(got).into_iter().zip(want).all(|(x, y)| x == y || x.is_nan() && y.is_nan());
        assert!(same, "{got:?} for {want:?}");
    };
    hold(&y, [-inf, inf, 0.5, inf, -2.0, no, no]);
    assert_eq!((numbers(&dx)[0], numbers(&dx)[4]), (inf, inf));
    assert!(numbers(&dx)[6].is_nan());
    assert_eq!((numbers(&dp)[0], numbers(&dp)[1], numbers(&dp)[4]), (inf, inf, 4.0));
}

/// Derivatives with respect to x up to fourth order at the ends of the domain must be the limits from inside.
#[test]
fn distribution_functions_have_higher_derivatives_at_their_ends() {
    let (inf, no) = (f64::INFINITY, f64::NAN);
    type Of = fn(Var) -> Var;
    // Name, function, point, and expected derivatives of orders 1 to 4; an expected nan is not compared.
    let table: [(&str, Of, f64, [f64; 4]); 15] = [
        ("P(1, x)", |x| constant(1.0).gammainc(x), 0.0, [1.0, -1.0, 1.0, -1.0]),
        ("P(2, x)", |x| constant(2.0).gammainc(x), 0.0, [0.0, 1.0, -2.0, 3.0]),
        ("P(4, x)", |x| constant(4.0).gammainc(x), 0.0, [0.0, 0.0, 0.0, 1.0]),
        ("P(1.5, x)", |x| constant(1.5).gammainc(x), 0.0, [0.0, inf, -inf, no]),
        ("P(0.5, x)", |x| constant(0.5).gammainc(x), 0.0, [inf, -inf, no, no]),
        ("Q(1, x)", |x| constant(1.0).gammaincc(x), 0.0, [-1.0, 1.0, -1.0, 1.0]),
        ("P(2, inf)", |x| constant(2.0).gammainc(x), inf, [0.0, 0.0, 0.0, 0.0]),
        ("I(1, 3, 0)", |x| constant(1.0).betainc(3.0, x), 0.0, [3.0, -6.0, 6.0, 0.0]),
        ("I(3, 1, 1)", |x| constant(3.0).betainc(1.0, x), 1.0, [3.0, 6.0, 6.0, 0.0]),
        ("I(1, 3, 1)", |x| constant(1.0).betainc(3.0, x), 1.0, [0.0, 0.0, 6.0, 0.0]),
        ("I(2, 2, 0)", |x| constant(2.0).betainc(2.0, x), 0.0, [0.0, 6.0, -12.0, 0.0]),
        ("I(2, 2, 1)", |x| constant(2.0).betainc(2.0, x), 1.0, [0.0, -6.0, -12.0, 0.0]),
        ("I(1, 1, 0)", |x| constant(1.0).betainc(1.0, x), 0.0, [1.0, 0.0, 0.0, 0.0]),
        ("I(1.5, 2, 0)", |x| constant(1.5).betainc(2.0, x), 0.0, [0.0, inf, no, no]),
        ("I(1, 0.5, 0)", |x| constant(1.0).betainc(0.5, x), 0.0, [0.5, 0.25, 0.375, no]),
    ];
    for (name, f, at, want) in table {
        let reverse = |x: Var| {
            let (one, two) = (grad(f), grad(grad(f)));
            [one(x), two(x), grad(grad(grad(f)))(x), grad(grad(grad(grad(f))))(x)]
        };
        let forward = |x: Var| {
            let along = |f: &dyn Fn(Var) -> Var, x: Var| jvp(f)((x, x.ones_like())).1;
            let one = |x: Var| along(&f, x);
            let two = |x: Var| along(&one, x);
            let three = |x: Var| along(&two, x);
            [one(x), two(x), three(x), along(&three, x)]
        };
        for (mode, got) in [("reverse", run(reverse, at)), ("forward", run(forward, at))] {
            for (order, (got, want)) in got.unwrap().iter().zip(want).enumerate() {
                let got = got.item::<f64>().unwrap();
                let same = got == want || (got - want).abs() < 1e-12;
                assert!(same || want.is_nan(), "{name}, {mode}, order {}: {got} {want}", order + 1);
            }
        }
    }
}

#[test]
fn values_and_derivatives_beyond_the_range_of_their_terms() {
    let item = |x: Result<Tensor, tapeloom::Error>| x.unwrap().item::<f64>().unwrap();
    let y = |n: i32| move |x: Var| x.bessel_yn(n);
    for n in [0, 1, 2, 5] {
        assert_eq!(item(run(grad(y(n)), 0.0)), f64::INFINITY, "slope of Y{n}");
        assert_eq!(item(run(grad(grad(y(n))), 0.0)), f64::NEG_INFINITY, "bend of Y{n}");
    }
    let slope = item(run(grad(|q: Var| constant(2.0).zeta(q)), 1e150));
    assert!((slope / -1e-300 - 1.0).abs() < 1e-14, "{slope}");
    // If x and y are close, `kl_div`, which is x ln(x / y) - x + y, must equal its series in 1 - y / x.
    for off in [1e-3f64, 1e-6, 1e-9] {
        let f = |(x, y): (Var, Var)| x.kl_div(y);
        let (x, y) = (2.0, 2.0 * (1.0 - off));
        let off: f64 = 1.0 - y / x;
        let term = |k: i32| off.powi(k) / f64::from(k);
        let want = 2.0 * (2..9).map(term).sum::<f64>();
        assert!((item(run(f, (x, y))) / want - 1.0).abs() < 1e-14, "{off}");
        let (dx, dy) = run(grad(f), (x, y)).unwrap();
        let (dx, dy) = (dx.item::<f64>().unwrap(), dy.item::<f64>().unwrap());
        assert!((dx / -(-off).ln_1p() - 1.0).abs() < 1e-14, "{off}: {dx}");
        assert!((dy / ((y - x) / y) - 1.0).abs() < 1e-14, "{off}: {dy}");
    }
    // A reciprocal power must be right even if the power itself overflows or underflows: z⁻³ is 0 for z = (1 + i)
    // 1e150, and has components of -2.5e299 for z = (1 + i) 1e-100.
    let cube = |z: f64| run(|z: Complex| z.powi(-3), Complex::from((z, z))).unwrap();
    let far = cube(1e150).to_pairs::<f64>().unwrap()[0];
    assert_eq!(far, (-0.0, -0.0));
    let near = cube(1e-100).to_pairs::<f64>().unwrap()[0];
    assert!((near.0 / -2.5e299 - 1.0).abs() < 1e-14 && near.0 == near.1, "{near:?}");
}

#[test]
fn batches_and_loops_equal_single_calls() {
    for (name, f, points) in SMOOTH {
        // The second derivative with respect to the first argument is compared with differences of the first
        // derivative.
        let second = move |x: Vec<Var>| {
            let rest = x[1..].to_vec();
            let of = move |d: Var| f(&[vec![d], rest.clone()].concat());
            grad(grad(of))(x[0])
        };
        let batch = jit(vmap(second)).call(columns(points)).unwrap();
        let looped = jit(move |x: Vec<Var>| map(second, x));
        let looped = looped.call(columns(points)).unwrap();
        for i in 0..points[0].len() {
            let one: Vec<Tensor> = points.iter().map(|p| Tensor::from(p[i])).collect();
            let one = run(second, one).unwrap().item::<f64>().unwrap();
            for (how, all) in [("vmap", &batch), ("map", &looped)] {
                let found = numbers(all)[i];
                assert!((found - one).abs() <= 1e-15 * one.abs(), "{name} by {how}: {found} {one}");
            }
        }
    }
}

#[test]
fn arrays_without_elements_and_narrow_ones_are_arrays() {
    for (name, f, points) in SMOOTH {
        let none = vec![Tensor::zeros(&[0, 3], Dtype::F64).unwrap(); points.len()];
        let empty = run(|x: Vec<Var>| f(&x), none).unwrap();
        assert_eq!(empty.shape().to_vec(), [0, 3], "{name}");
        let narrow: Vec<Tensor> = points
            .iter()
            .map(|p| Tensor::from(p.iter().map(|x| *x as f32).collect::<Vec<f32>>()))
            .collect();
        let g = run(|x: Vec<Var>| grad(|x: Vec<Var>| f(&x).sum())(x), narrow).unwrap();
        assert!(g.iter().all(|g| g.dtype() == Dtype::F32), "{name}");
    }
}

#[test]
fn derivatives_end_with_an_error() {
    fn nested(order: usize, f: impl Fn(Var) -> Var + Clone + 'static) -> Box<dyn Fn(Var) -> Var> {
        (0..order).fold(Box::new(f), |f: Box<dyn Fn(Var) -> Var>, _| Box::new(grad(f)))
    }
    type Ending = (&'static str, usize, fn(Var) -> Var);
    let endings: [Ending; 6] = [
        ("gammainc", 4, |a| a.gammainc(1.5)),
        ("gammaincc", 4, |a| a.gammaincc(1.5)),
        ("betainc", 4, |a| a.betainc(2.0, 0.25)),
        ("betainc", 4, |b| constant(2.0).betainc(b, 0.25)),
        ("zeta", 4, |s| s.zeta(1.5)),
        ("spence", 8, |x| x.spence()),
    ];
    for (name, order, f) in endings {
        let last = run(nested(order, f), 2.0).unwrap().item::<f64>().unwrap();
        assert!(last.is_finite() && last != 0.0, "{name}: {last}");
        let error = run(nested(order + 1, f), 2.0).unwrap_err();
        assert_eq!(error.kind(), Kind::NotDifferentiable, "{name}: {error}");
    }
    let huge = run(|x: Var| x.bessel_jn(i32::MIN), 2.0).unwrap_err();
    assert_eq!(huge.kind(), Kind::Arguments, "{huge}");
}

#[test]
fn mistakes_name_the_function() {
    let floats = Tensor::from([1.0, 2.0]);
    let whole = Tensor::from([1i64, 2]);
    let short = Tensor::from([1.0, 2.0, 3.0]);
    type Binary = fn(Var, Var) -> Var;
    let calls: [(&str, Binary); 10] = [
        ("gammainc", |x, y| x.gammainc(y)),
        ("gammaincc", |x, y| x.gammaincc(y)),
        ("betainc", |x, y| x.betainc(y, y)),
        ("zeta", |x, y| x.zeta(y)),
        ("i0e", |x, y| x.i0e() + y.i0e()),
        ("bessel_jn", |x, y| x.bessel_jn(2) + y.bessel_jn(2)),
        ("exp1", |x, y| x.exp1() + y.exp1()),
        ("expi", |x, y| x.expi() + y.expi()),
        ("spence", |x, y| x.spence() + y.spence()),
        ("erfc_inv", |x, y| x.erfc_inv() + y.erfc_inv()),
    ];
    for (name, f) in calls {
        let error = run(|(x, y): (Var, Var)| f(x, y), (&whole, &floats)).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("programs.rs"), "{name}: {error}");
        let error = run(|(x, y): (Var, Var)| f(x, y), (&floats, &short)).unwrap_err().to_string();
        assert!(error.contains("programs.rs"), "{name}: {error}");
    }
    for (name, f) in [("gcd", (|x, y| x.gcd(y)) as Binary), ("lcm", |x, y| x.lcm(y))] {
        let error = run(|(x, y): (Var, Var)| f(x, y), (&floats, &floats)).unwrap_err().to_string();
        assert!(error.contains(name), "{name}: {error}");
    }
    let error = run(|x: Var| x.bitcast(Dtype::I32), 1.0).unwrap_err().to_string();
    assert!(error.contains("`bitcast` is between different dtypes of one width"), "{error}");
    assert!(run(|x: Var| x.bitcast(Dtype::Bool), 1.0).is_err());
}

#[test]
fn bits_are_those_of_rust() {
    let wide =
        [0.0, -0.0, 1.5, -2.75, 1e-310, 5e-324, f64::MAX, f64::INFINITY, -f64::INFINITY, f64::NAN];
    let bits = run(|x: Var| (x.bitcast(Dtype::U64), x.bitcast(Dtype::I64)), wide).unwrap();
    assert_eq!(bits.0.to_vec::<u64>().unwrap(), wide.map(f64::to_bits));
    assert_eq!(bits.1.to_vec::<i64>().unwrap(), wide.map(|x| x.to_bits() as i64));
    let back = run(|x: Var| x.bitcast(Dtype::F64), bits.0).unwrap().to_vec::<f64>().unwrap();
    assert!(back.iter().zip(&wide).all(|(x, y)| x.to_bits() == y.to_bits()));
    let narrow = wide.map(|x| x as f32);
    let bits =
        run(|x: Var| (x.bitcast(Dtype::U32), x.bitcast(Dtype::I32).bitcast(Dtype::U32)), narrow);
    let bits = bits.unwrap();
    assert_eq!(bits.0.to_vec::<u32>().unwrap(), narrow.map(f32::to_bits));
    assert_eq!(bits.1.to_vec::<u32>().unwrap(), narrow.map(f32::to_bits));
    // `bitcast` has no tangent, so only the term `x` contributes to the gradient.
    let g = run(grad(|x: Var| x.bitcast(Dtype::I64).convert(Dtype::F64) + x), 2.0).unwrap();
    assert_eq!(g.item::<f64>().unwrap(), 1.0);
}

/// Returns the fraction and the exponent of an f64, read from its bits, as the expected result of `frexp`.
fn frexp(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let (scaled, less) = if x.is_subnormal() { (x * 2f64.powi(60), 60) } else { (x, 0) };
    let field = (scaled.to_bits() >> 52 & 0x7ff) as i32;
    (scaled * 2f64.powi(1023 - field) * 0.5, field - 1022 - less)
}

#[test]
fn fractions_and_exponents_are_exact() {
    let mut wide = vec![0.0, -0.0, 1.0, -1.0, 0.5, 5e-324, -1e-310, f64::MAX, f64::MIN_POSITIVE];
    wide.extend([f64::INFINITY, -f64::INFINITY, f64::NAN, 3.0, -0.3, 1e300]);
    let (m, n) = run(|x: Var| x.frexp(), wide.clone()).unwrap();
    let back = numbers(&run(|(m, n): (Var, Var)| m.ldexp(n), (&m, &n)).unwrap());
    let (m, n) = (m.to_vec::<f64>().unwrap(), n.to_vec::<i32>().unwrap());
    for (i, x) in wide.iter().enumerate() {
        let want = frexp(*x);
        assert!(m[i].to_bits() == want.0.to_bits() || x.is_nan() && m[i].is_nan(), "{x}: {}", m[i]);
        assert_eq!(n[i], want.1, "{x}");
        assert!(back[i].to_bits() == x.to_bits() || x.is_nan(), "{x}");
    }
    let narrow = [0.0f32, 1.5, -0.3, 1e-40, f32::MAX, f32::INFINITY, 1e-45];
    let (m, n) = run(|x: Var| x.frexp(), narrow).unwrap();
    for (i, x) in narrow.into_iter().enumerate() {
        let want = frexp(f64::from(x));
        let got = (numbers(&m)[i], n.to_vec::<i32>().unwrap()[i]);
        assert_eq!(got, want, "{x}");
    }
    // The fraction is x 2⁻ⁿ with exponent n, so its derivative is 2⁻ⁿ: for 12, n is 4.
    let g = run(grad(|x: Var| x.frexp().0), 12.0).unwrap().item::<f64>().unwrap();
    assert_eq!(g, 0.0625);
}

#[test]
fn divisors_are_those_of_euclid() {
    fn gcd(x: u128, y: u128) -> u128 {
        if y == 0 { x } else { gcd(y, x % y) }
    }
    let pairs: [(i64, i64); 11] = [
        (0, 0),
        (0, -7),
        (12, 18),
        (-12, 18),
        (-12, -18),
        (17, 5),
        (1 << 40, 3 << 20),
        (7_540_113_804_746_346_429, 4_660_046_610_375_530_309),
        (i64::MAX, i64::MAX - 1),
        (i64::MIN, 6),
        (1, i64::MIN),
    ];
    for (x, y) in pairs {
        let want = gcd(x.unsigned_abs().into(), y.unsigned_abs().into());
        let (d, m) = run(|(x, y): (Var, Var)| (x.gcd(y), x.lcm(y)), (x, y)).unwrap();
        assert_eq!(d.item::<i64>().unwrap(), want as i64, "{x} {y}");
        let multiple = if want == 0 { 0 } else { (x / want as i64).wrapping_mul(y).wrapping_abs() };
        assert_eq!(m.item::<i64>().unwrap(), multiple, "{x} {y}");
    }
    let columns = |k: usize| {
        let column: Vec<i64> = pairs.iter().map(|p| if k == 0 { p.0 } else { p.1 }).collect();
        Tensor::from(column)
    };
    let all = |(x, y): (Var, Var)| x.gcd(y);
    let whole = run(all, (columns(0), columns(1))).unwrap().to_vec::<i64>().unwrap();
    let batch = jit(vmap(all)).call((columns(0), columns(1))).unwrap();
    assert_eq!(batch.to_vec::<i64>().unwrap(), whole);
    // `gcd` and `lcm` must also accept a number as second operand, unsigned dtypes, and an empty array.
    let with_number = run(|x: Var| x.gcd(6), [4u32, 9, 0]).unwrap();
    assert_eq!(with_number.to_vec::<u32>().unwrap(), [2, 3, 6]);
    let wide = run(|x: Var| x.lcm(6), [4u64, u64::MAX, 0]).unwrap();
    assert_eq!(wide.to_vec::<u64>().unwrap(), [12, (u64::MAX / 3).wrapping_mul(6), 0]);
    assert_eq!(run(|x: Var| x.gcd(6), [4i32, -9, 0]).unwrap().to_vec::<i32>().unwrap(), [2, 3, 6]);
    assert_eq!(run(|x: Var| x.gcd(x), Tensor::from(Vec::<i64>::new())).unwrap().elements(), 0);
}

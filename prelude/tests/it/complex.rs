//! Complex arrays: arithmetic compared with arithmetic on pairs of numbers, derivatives, extremes, transforms, errors.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use tapeloom::prelude::*;

type Pair = (f64, f64);

const NUMBERS: [Pair; 8] = [
    (1.0, 2.0),
    (-0.5, 0.25),
    (3.0, -1.0),
    (-2.0, -3.0),
    (0.0, 1.5),
    (2.0, 0.0),
    (-1.0, 0.5),
    (0.75, -0.25),
];

fn mul(z: Pair, w: Pair) -> Pair {
    (z.0 * w.0 - z.1 * w.1, z.0 * w.1 + z.1 * w.0)
}

fn div(z: Pair, w: Pair) -> Pair {
    let size = w.0 * w.0 + w.1 * w.1;
    let (re, im) = mul(z, (w.0, -w.1));
    (re / size, im / size)
}

#[track_caller]
fn close(found: &Complex<Tensor>, wanted: &[Pair]) {
    let found = found.to_pairs::<f64>().unwrap();
    assert_eq!(found.len(), wanted.len());
    for (f, w) in found.iter().zip(wanted) {
        let error = (f.0 - w.0).hypot(f.1 - w.1);
        assert!(error <= 1e-14 * (1.0 + w.0.hypot(w.1)), "{found:?} and {wanted:?}");
    }
}

/// Returns the compiled value of `f`, after comparing it with the interpreter's value.
#[track_caller]
fn of(f: impl Fn(Complex) -> Complex, z: &Complex<Tensor>) -> Complex<Tensor> {
    let y = jit(&f).call(z).unwrap();
    assert_eq!(y, jit(&f).interpreted().call(z).unwrap());
    y
}

#[test]
fn operators_are_those_of_numbers() {
    let z = Complex::from(NUMBERS);
    let each = |f: fn(Pair) -> Pair| NUMBERS.map(f);
    let w = (0.5, -1.5);
    let other = |z: Complex| Complex { re: z.re * 0.0 + 0.5, im: z.im * 0.0 - 1.5 };
    close(&of(|z| z + other(z), &z), &each(|z| (z.0 + 0.5, z.1 - 1.5)));
    close(&of(|z| z - other(z), &z), &each(|z| (z.0 - 0.5, z.1 + 1.5)));
    close(&of(|z| z * other(z), &z), &NUMBERS.map(|z| mul(z, w)));
    close(&of(|z| z / other(z), &z), &NUMBERS.map(|z| div(z, w)));
    close(&of(|z| -z, &z), &each(|z| (-z.0, -z.1)));
    // Operands of arithmetic may be numbers, arrays and tensors, on either side.
    close(&of(|z| 2.0 * z + 1.0 - z * 3, &z), &each(|z| (1.0 - z.0, -z.1)));
    close(&of(|z| 1 - z, &z), &each(|z| (1.0 - z.0, -z.1)));
    close(&of(|z| 1.0 / z, &z), &each(|z| div((1.0, 0.0), z)));
    close(&of(|z| z / 2.0, &z), &each(|z| (z.0 / 2.0, z.1 / 2.0)));
    close(&of(|z| z.re + z, &z), &each(|z| (2.0 * z.0, z.1)));
    close(&of(|z| z - z.re, &z), &each(|z| (0.0, z.1)));
    close(
        &of(|z| z.re * z / z.re.exp(), &z),
        &each(|z| {
            let factor = z.0 / z.0.exp();
            (z.0 * factor, z.1 * factor)
        }),
    );
    let two = Tensor::from([2.0; 8]);
    close(&of(|z| &two * z - two.clone() + z * &two, &z), &each(|z| (4.0 * z.0 - 2.0, 4.0 * z.1)));
    // The assignment operators must give the results of the operators.
    let in_place = |z: Complex| {
        let mut y = z;
        y += z;
        y *= other(z);
        y -= 1.0;
        y /= 2.0;
        y
    };
    close(
        &of(in_place, &z),
        &NUMBERS.map(|z| {
            let (re, im) = mul(mul(z, w), (2.0, 0.0));
            ((re - 1.0) / 2.0, im / 2.0)
        }),
    );
    let sum = |z: Complex| (0..8).map(|i| z.index(i)).sum::<Complex>() - z.sum();
    close(&of(sum, &z), &[(0.0, 0.0)]);
    // Shapes are broadcast. A real operand has no imaginary part; the missing part must get the broadcast shape, too.
    let shape = run(|(z, x): (Complex, Var)| (z + x, x - z), (Complex::from((1.0, 2.0)), [1.0; 3]));
    let (y, w) = shape.unwrap();
    assert_eq!(y.to_pairs::<f64>().unwrap(), [(2.0, 2.0); 3]);
    assert_eq!(w.to_pairs::<f64>().unwrap(), [(0.0, -2.0); 3]);
}

/// Tangents of holomorphic functions are products with one complex number, the derivative of the function. Pairs of
/// inverse functions compose to the identity.
#[test]
fn holomorphic_functions_obey_the_equations_of_cauchy_and_riemann() {
    type Map = fn(Complex) -> Complex;
    let all: [(Map, Map); 8] = [
        (Complex::exp, Complex::exp),
        (Complex::ln, Complex::recip),
        (Complex::sqrt, |z| 0.5 / z.sqrt()),
        (|z| z.powi(3), |z| 3.0 * z * z),
        (|z| z.powi(-2), |z| -2.0 / (z * z * z)),
        (|z| z.powf(1.5), |z| 1.5 * z.powf(0.5)),
        (|z| z.pow(z), |z| z.pow(z) * (z.ln() + 1.0)),
        (Complex::recip, |z| -1.0 / (z * z)),
    ];
    let z = Complex::from(NUMBERS);
    for (f, derivative) in all {
        let along = |re: f64, im: f64| {
            move |z: Complex| {
                let d = Complex { re: z.re.full_like(re), im: z.im.full_like(im) };
                jvp(f)((z, d)).1
            }
        };
        let wanted = of(derivative, &z).to_pairs::<f64>().unwrap();
        close(&of(along(1.0, 0.0), &z), &wanted);
        let turned: Vec<Pair> = wanted.iter().map(|d| mul(*d, (0.0, 1.0))).collect();
        close(&of(along(0.0, 1.0), &z), &turned);
        check_grads(f, &z, 2).unwrap();
    }
    close(&of(|z| z.ln().exp(), &z), &NUMBERS);
    close(&of(|z| z.sqrt() * z.sqrt(), &z), &NUMBERS);
    close(&of(|z| Complex::from_polar(z.abs(), z.angle()), &z), &NUMBERS);
    close(&of(|z| z.powf(3.0), &z), &NUMBERS.map(|z| mul(mul(z, z), z)));
    close(&of(|z| z.powi(3), &z), &NUMBERS.map(|z| mul(mul(z, z), z)));
    close(&of(|z| z.powi(0), &z), &[(1.0, 0.0); 8]);
}

#[test]
fn gradients_are_pairs_of_partial_derivatives() {
    // f = Re(c conj(z)) = c.re x + c.im y has the gradient c; in JAX it is conj(c).
    let f = |z: Complex| (Complex::new(z.re.full_like(2.0), -3.0) * z.conj()).re.sum();
    let g = run(grad(f), Complex::from([(0.5, 1.0), (4.0, 2.0)])).unwrap();
    assert_eq!(g.to_pairs::<f64>().unwrap(), [(2.0, -3.0); 2]);
    // Subtracting multiples of the gradient must decrease the function: descent must converge to its minimum at 1 + 2i.
    let target = |z: Complex| (z - Complex::new(z.re.full_like(1.0), 2.0)).abs2();
    let descend =
        |z: Complex| fori_loop(60, |(_, z): (Var, Complex)| z - 0.25 * grad(target)(z), z);
    let end = run(descend, Complex::from((5.0, -7.0))).unwrap().to_pairs::<f64>().unwrap();
    assert!((end[0].0 - 1.0).abs() < 1e-14 && (end[0].1 - 2.0).abs() < 1e-14, "{end:?}");
}

/// Tests values at zero, near the largest and smallest exponents, and on the branch cut.
#[test]
fn extremes() {
    let one = |f: fn(Complex) -> Complex, z: Pair| of(f, &z.into()).to_pairs::<f64>().unwrap()[0];
    let near = |found: Pair, wanted: Pair| {
        let size = wanted.0.hypot(wanted.1);
        let error = ((found.0 - wanted.0) / size).hypot((found.1 - wanted.1) / size);
        assert!(error < 2e-15, "{found:?} and {wanted:?}");
    };
    for s in [1e300, 1e-300, 1e150, 1e-150] {
        near(one(|z| z / z, (s, s)), (1.0, 0.0));
        near(one(Complex::recip, (0.0, s)), (0.0, -1.0 / s));
        near(one(|z| z.abs().into(), (3.0 * s, 4.0 * s)), (5.0 * s, 0.0));
        near(one(|z| z.sqrt() * z.sqrt() / z, (-3.0 * s, 4.0 * s)), (1.0, 0.0));
        // The tolerance covers the rounding of the logarithm, whose magnitude is a few hundred.
        let same = one(|z| z.ln().exp() / z, (s, -s));
        assert!((same.0 - 1.0).hypot(same.1) < 1e-12, "{same:?}");
    }
    let is_nan = |z: Pair| z.0.is_nan() && z.1.is_nan();
    assert!(is_nan(one(Complex::recip, (0.0, 0.0))));
    assert!(is_nan(one(|z| z / 0.0, (0.0, 0.0))));
    assert_eq!(one(Complex::ln, (0.0, 0.0)), (f64::NEG_INFINITY, 0.0));
    assert_eq!(one(Complex::sqrt, (0.0, 0.0)), (0.0, 0.0));
    assert_eq!(one(|z| z.powi(5), (0.0, 0.0)), (0.0, 0.0));
    assert_eq!(one(|z| z.powf(1.5), (0.0, 0.0)), (0.0, 0.0));
    // Functions must have the values of both sides of their branch cuts, by the sign of the zero imaginary part.
    let pi = std::f64::consts::PI;
    assert_eq!(one(Complex::ln, (-1.0, 0.0)), (0.0, pi));
    assert_eq!(one(Complex::ln, (-1.0, -0.0)), (0.0, -pi));
    assert_eq!(one(Complex::sqrt, (-9.0, -0.0)), (0.0, -3.0));
    // Derivatives: the derivative of the absolute value at 0 is 0, derivatives of integer powers are exact, and the
    // derivative of the root on the branch cut is one-sided.
    let at = |f: fn(Complex) -> Var, z: Pair| {
        run(grad(f), Complex::from(z)).unwrap().to_pairs::<f64>().unwrap()[0]
    };
    assert_eq!(at(Complex::abs, (0.0, 0.0)), (0.0, 0.0));
    assert_eq!(at(|z| z.powi(2).re, (0.0, 0.0)), (0.0, 0.0));
    assert_eq!(at(|z| z.sqrt().im, (-4.0, 0.0)), (-0.25, 0.0));
    assert_eq!(at(|z| z.sqrt().re, (0.0, 2.0)), (0.25, 0.25));
    assert!(!at(|z| z.sqrt().re, (0.0, 0.0)).0.is_finite());
    assert!(at(Complex::angle, (0.0, 0.0)).0.is_nan());
}

/// Batches, loops, branches and recordings accept complex arrays like other trees.
#[test]
fn trees_of_complex_arrays() {
    #[derive(Tree, Clone)]
    struct Wave<T> {
        amplitude: Complex<T>,
        phase: T,
    }
    let wave = Wave { amplitude: Complex::from(NUMBERS), phase: Tensor::from([0.5; 8]) };
    let shift = |w: Wave<Var>| w.amplitude * Complex::from_polar(1.0, w.phase);
    let all = run(shift, &wave).unwrap();
    assert_eq!(run(vmap(shift), &wave).unwrap(), all);
    assert_eq!(run(|w: Wave<Var>| map(shift, w), &wave).unwrap(), all);
    let power = |z: Complex| {
        let step = |((sum, _), w): ((Complex, Var), Complex)| ((sum * w, sum.re), sum.im);
        scan(step, (Complex::from(z.re.index(0).ones_like()), z.re.index(0)), z).0.0
    };
    let product = NUMBERS.into_iter().reduce(mul).unwrap();
    let found = run(power, &wave.amplitude).unwrap().to_pairs::<f64>().unwrap()[0];
    assert!((found.0 - product.0).hypot(found.1 - product.1) < 1e-13);
    check_grads(power, &wave.amplitude, 2).unwrap();
    let turned = |z: Complex| cond(z.re.sum().gt(0.0), |z: Complex| z, |z: Complex| -z, z);
    check_grads(turned, &wave.amplitude, 1).unwrap();
    let recorded = record(|z: Complex| z.abs2().sum(), &wave.amplitude);
    assert!(recorded.is_ok());
}

#[test]
fn products_of_matrices() {
    let (a, b) = (
        Complex::from(NUMBERS).reshaped(&[2, 4]).unwrap(),
        Complex::from(NUMBERS).reshaped(&[4, 2]).unwrap(),
    );
    let mut wanted = Vec::new();
    for i in 0..2 {
        for j in 0..2 {
            let terms = (0..4).map(|k| mul(NUMBERS[4 * i + k], NUMBERS[2 * k + j]));
            wanted.push(terms.fold((0.0, 0.0), |s, t| (s.0 + t.0, s.1 + t.1)));
        }
    }
    close(&run(|(a, b): (Complex, Complex)| a.matmul(b), (&a, &b)).unwrap(), &wanted);
    close(&run(|(a, b): (Complex, Complex)| a.dot(b), (&a, &b)).unwrap(), &wanted);
    // One factor of a product may be a real matrix.
    let real = run(|(a, b): (Complex, Complex)| a.dot(b.re) - a.dot(Complex::from(b.re)), (&a, &b));
    close(&real.unwrap(), &[(0.0, 0.0); 4]);
    // Systems with several right-hand sides must be solved, also in a batch.
    let system = Complex::from([(2.0, 1.0), (0.0, -1.0), (1.0, 0.5), (-1.0, 3.0)]);
    let system = system.reshaped(&[2, 2]).unwrap();
    let residual = |(a, b): (Complex, Complex)| a.matmul(a.solve(b)) - b;
    close(&run(residual, (&system, &a)).unwrap(), &[(0.0, 0.0); 8]);
    check_grads(|(a, b): (Complex, Complex)| a.solve(b), (&system, &a), 2).unwrap();
}

#[test]
fn printing_and_conversions() {
    let z = Complex::from(&NUMBERS[..2]);
    assert_eq!(z, Complex::from(NUMBERS[..2].to_vec()));
    assert_ne!(z, Complex::from(&NUMBERS[1..3]));
    assert_eq!(z.to_pairs::<f64>().unwrap(), NUMBERS[..2]);
    assert!(z.to_pairs::<f32>().is_err());
    assert_eq!(Complex::from((1.0f32, -2.0f32)).to_string(), "1.0 + i -2.0");
    assert!(format!("{z:?}").starts_with("Complex { re: f64[2]"));
    assert!(z.reshaped(&[3]).is_err());
    let traced = run(|z: Complex| (format!("{z:?}").contains("f64[2]")).then_some(z.re), &z);
    assert_eq!(traced.unwrap(), Some(z.re));
}

/// Errors have the user's line, and each mistake gives one error only.
#[test]
fn mistakes() {
    let check = |line: u32, error: tapeloom::Error, words: &[&str]| {
        let text = error.to_string();
        assert!(text.contains(&format!("{}:{line}:", file!())), "line {line}: {text}");
        for word in words {
            assert!(text.contains(word), "{word} is not in {text}");
        }
        assert_eq!(text.matches("error[").count(), 1, "{text}");
    };
    let z = Complex::from(NUMBERS);
    let e = run(|z: Complex| z * z.re.convert(Dtype::F32), &z).unwrap_err();
    check(line!() - 1, e, &["error[dtype]", "one dtype"]);
    let e = run(|z: Complex| z + z.index(0).reshape([1]).map(|x| concat(&[x, x], 0)), &z);
    check(line!() - 1, e.unwrap_err(), &["error[shape]", "broadcast"]);
    let e = run(|z: Complex| z.dot(z.slice_axis(0, ..3)), &z).unwrap_err();
    check(line!() - 1, e, &["error[shape]", "`dot`"]);
    let e = run(|z: Complex| z.solve(z), &z).unwrap_err();
    check(line!() - 1, e, &["error[shape]"]);
    let e = run(|n: Var| Complex::new(n, n), [1i64, 2]).unwrap_err();
    check(line!() - 1, e, &["error[dtype]", "`complex` needs floats, got i64[2]"]);
    let e = run(|z: Complex| Complex::new(z.re, z.im.slice_axis(0, ..3)), &z).unwrap_err();
    assert_eq!(e.to_string().matches("error[").count(), 1, "{e}");
    check(line!() - 2, e, &["error[shape]", "`complex`"]);
}

/// Quotients, angles, logarithms and roots are differentiable for numbers whose squares overflow or underflow.
#[test]
fn derivatives_far_from_one_are_kept() {
    type Of = fn(Complex, Complex) -> Complex;
    // The functions must not change if both numbers are multiplied by the same positive factor. So their derivatives
    // with respect to the numbers before this multiplication must not depend on the factor.
    let functions: [(&str, Of); 4] = [
        ("quotient", |z, w| z / w),
        ("angle", |z, w| Complex::new(z.angle(), w.angle())),
        ("logarithm", |z, w| z.ln() - w.ln()),
        ("quotient of roots and absolute values", |z, w| z.sqrt() / w.sqrt() * (z.abs() / w.abs())),
    ];
    let pair = (Complex::from((1.0, 2.0)), Complex::from((-0.5, 0.25)));
    for (name, f) in functions {
        let of = |times: f64| {
            let loss = move |(z, w): (Complex, Complex)| {
                let y = f(z * times, w * times);
                y.re + 2.0 * y.im
            };
            let (z, w) = run(grad(loss), &pair).unwrap();
            [z.to_pairs::<f64>().unwrap(), w.to_pairs::<f64>().unwrap()].concat()
        };
        let near = of(1.0);
        for times in [1e300, 1e-300] {
            for (far, near) in of(times).iter().zip(&near) {
                let off = (far.0 - near.0).abs().max((far.1 - near.1).abs());
                assert!(off < 1e-13, "{name} at {times:e}: {far:?} and {near:?}");
            }
        }
    }
}

/// Tests roots of the largest and smallest numbers, and real exponentials that are infinite.
#[test]
fn the_ends_of_the_range_have_roots_and_exponentials() {
    let root = |z: (f64, f64)| {
        run(|z: Complex| z.sqrt(), Complex::from(z)).unwrap().to_pairs::<f64>().unwrap()[0]
    };
    for (re, im) in [(3.0, -4.0), (-3.0, 4.0), (0.0, 2.0), (-2.0, 0.0), (1.5, 1.5)] {
        let near = root((re, im));
        for half in [-537, -520, 500, 510] {
            let (whole, half) = (2f64.powi(2 * (half / 2)).powi(2), 2f64.powi(2 * (half / 2)));
            let far = root((re * whole, im * whole));
            let same = (far.0 - near.0 * half).abs().max((far.1 - near.1 * half).abs());
            assert!(same <= 4e-16 * half * 2.0, "{re} {im} by {half:e}: {far:?}, {near:?}");
        }
    }
    let (re, im) = root((1.7e308, 1.7e308));
    assert!((re / 1.432_508_823_015_457e154 - 1.0).abs() < 1e-14 && im < re, "{re:e} {im:e}");
    let exp = |z: (f64, f64)| {
        run(|z: Complex| z.exp(), Complex::from(z)).unwrap().to_pairs::<f64>().unwrap()[0]
    };
    assert_eq!(exp((1e300, 0.0)), (f64::INFINITY, 0.0));
    assert_eq!(exp((-1e300, 0.0)), (0.0, 0.0));
    assert_eq!(exp((1e300, 1.0)), (f64::INFINITY, f64::INFINITY));
    // The expected values are from mpmath. The exponential of the real part alone overflows, but a component of the
    // result may be finite.
    for (z, (re, im)) in [
        ((709.9, 1.5), (1.429_883_248_952_389_1e307, f64::INFINITY)),
        ((745.0, std::f64::consts::FRAC_PI_2), (2.169_551_051_762_044_6e307, f64::INFINITY)),
    ] {
        let y = exp(z);
        assert!((y.0 / re - 1.0).abs() < 1e-15 && y.1 == im, "{z:?}: {y:?}");
    }
    let tangent = run(
        |(z, dz): (Complex, Complex)| jvp(Complex::exp)((z, dz)).1,
        (Complex::from((709.9, 1.5)), Complex::from((1.0, 0.0))),
    );
    let tangent = tangent.unwrap().to_pairs::<f64>().unwrap();
    assert!((tangent[0].0 / 1.429_883_248_952_389_1e307 - 1.0).abs() < 1e-15, "{tangent:?}");
    let single =
        run(|z: Complex| z.exp(), Complex { re: Tensor::from(89f32), im: Tensor::from(1.5f32) });
    let single = single.unwrap().to_pairs::<f32>().unwrap()[0];
    assert!((single.0 / 3.175_826_5e37 - 1.0).abs() < 1e-5, "{single:?}");
    let (z, dz) = (Complex::from((2.0, 0.0)), Complex::from((0.0, 1.0)));
    let tangent = run(|(z, dz): (Complex, Complex)| jvp(Complex::exp)((z, dz)).1, (z, dz));
    assert_eq!(tangent.unwrap().to_pairs::<f64>().unwrap(), [(0.0, 2f64.exp())]);
}

/// Returns a Hermitian matrix of irregular numbers, times `scale`.
pub(crate) fn hermitian(n: usize, scale: f64) -> Complex<Tensor> {
    let number = |i: usize, j: usize| ((7 * i + 3 * j + i * j) as f64).sin() * scale;
    let part = |f: &dyn Fn(usize, usize) -> f64| {
        Tensor::new(&[n, n], (0..n * n).map(|k| f(k / n, k % n)).collect()).unwrap()
    };
    Complex {
        re: part(&|i, j| number(i, j) + number(j, i)),
        im: part(&|i, j| number(i + 5, j) - number(j + 5, i)),
    }
}

#[test]
fn mistakes_in_matrices_are_errors_of_the_line() {
    let tall = Complex { re: Tensor::from([[1.0], [2.0]]), im: Tensor::from([[0.0], [0.0]]) };
    let square = hermitian(2, 1.0);
    // The fields `re` and `im` are public, so a user can give them different shapes.
    let uneven = Complex { re: Tensor::from([[1.0]]), im: hermitian(2, 1.0).im };
    for (line, error) in [
        (line!(), run(|h: Complex| h.eigh(), &tall).unwrap_err()),
        (line!(), run(|h: Complex| h.eigvalsh(), &tall).unwrap_err()),
        (line!(), run(|h: Complex| h.eigh_range(1..3), &square).unwrap_err()),
        (line!(), run(|h: Complex| h.expm(), &tall).unwrap_err()),
        (line!(), run(|h: Complex| h.solve(h), &tall).unwrap_err()),
        (line!(), run(|h: Complex| h.solve(h.index(0).sum()), &square).unwrap_err()),
        (line!(), run(|h: Complex| h.solve(eye(3, Dtype::F64)), &square).unwrap_err()),
        (line!(), run(|h: Complex| Complex::einsum("ij,jk", &[h, h]), &tall).unwrap_err()),
        (line!(), run(|h: Complex| Complex::einsum("ij,jk", &[h]), &tall).unwrap_err()),
        (line!(), run(|_: Complex| Complex::einsum("", &[]), &tall).unwrap_err()),
        (line!(), run(|_: Complex| Complex::concat(&[], 0), &tall).unwrap_err()),
        (line!(), run(|h: Complex| h.index(0).trace(), &tall).unwrap_err()),
        (line!(), run(|h: Complex| h.broadcast_to([3]), &tall).unwrap_err()),
        (line!(), run(|h: Complex| h.eigh(), &uneven).unwrap_err()),
        (line!(), run(|h: Complex| h.expm(), &uneven).unwrap_err()),
        (line!(), run(|h: Complex| h.solve(h), &uneven).unwrap_err()),
    ] {
        let text = error.to_string();
        assert!(text.contains(&format!("{}:{line}:", file!())), "{text}");
        assert_eq!(error.diagnostics().len(), 1, "{text}");
    }
    // Complex systems are computed with real matrices of twice the size. The shapes of these matrices must not appear
    // in a message.
    let error = run(|h: Complex| h.solve(eye(3, Dtype::F64)), &square).unwrap_err().to_string();
    assert!(error.contains("`solve` of f64[2,2] and f64[3,3]"), "{error}");
    let error = run(|h: Complex| h.expm(), &tall).unwrap_err().to_string();
    assert!(error.contains("got f64[2,1]"), "{error}");
    let batch = |h: Complex, n: usize| Complex::stack(&vec![h; n], 0);
    let error = run(|h: Complex| batch(h, 3).solve(batch(h, 2)), &square).unwrap_err().to_string();
    assert!(error.contains("`solve` of f64[3,2,2] and f64[2,2,2]"), "{error}");
    let error = run(|h: Complex| h.solve(constant([1f32, 2.0])), &square).unwrap_err().to_string();
    assert!(error.contains("got f64[2,2] and f32[2]"), "{error}");
    let error = run(|h: Complex| h.eigh(), &uneven).unwrap_err().to_string();
    assert!(error.contains("with parts of the types f64[1,1] and f64[2,2]"), "{error}");
}

/// A product of nine matrices in Einstein's notation is their product, in time proportional to their number.
#[test]
fn einsum_of_many_operands() {
    let spec: Vec<String> = ('a'..'j').zip('b'..'k').map(|(i, j)| format!("{i}{j}")).collect();
    let spec = spec.join(",") + "->aj";
    let f = |h: Complex| {
        let z = Complex { re: h.re, im: h.im + h.re };
        let power = (0..8).fold(z, |product, _| product.matmul(z));
        let difference = Complex::einsum(&spec, &[z; 9]) - power;
        difference.abs().max() / power.abs().max()
    };
    assert!(run(f, hermitian(3, 0.5)).unwrap().item::<f64>().unwrap() < 1e-14);
    let products = |h: Complex| Complex::einsum("ij,jk,kl,lm->im", &[h; 4]);
    let text = jit(products).explain(hermitian(2, 1.0)).unwrap().stages()[0].text.clone();
    assert_eq!(text.matches("= dot{").count(), 12, "{text}");
}

//! Fourier transforms compared with their definitions: lengths, axes, norms, derivatives, engines, extremes, errors.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::f64::consts::PI;
use tapeloom::prelude::*;
use tapeloom::{Error, fft::Cosine, fft::Mode, fft::Norm, fft::along};

/// Returns pseudo-random numbers between -1 and 1.
fn noise(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn array(shape: &[usize], seed: u64) -> Tensor {
    Tensor::new(shape, noise(shape.iter().product(), seed)).unwrap()
}

fn complex(shape: &[usize], seed: u64) -> Complex<Tensor> {
    Complex { re: array(shape, seed), im: array(shape, seed + 1) }
}

type Pairs = Vec<(f64, f64)>;

/// Returns `Σ_k x[k] exp(∓2 π i j k / n)`, computed by the definition.
fn definition(x: &[(f64, f64)], inverse: bool) -> Pairs {
    let n = x.len();
    let sign = if inverse { 1.0 } else { -1.0 };
    let term = |j: usize, k: usize| {
        let (s, c) = (sign * 2.0 * PI * (j * k % n) as f64 / n as f64).sin_cos();
        (x[k].0 * c - x[k].1 * s, x[k].0 * s + x[k].1 * c)
    };
    let sum = |j| (0..n).map(|k| term(j, k)).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    (0..n).map(sum).collect()
}

/// Asserts that each element is close to the wanted one, relative to the largest element.
#[track_caller]
fn close(found: &[(f64, f64)], wanted: &[(f64, f64)], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    let largest = wanted.iter().fold(1.0, |m: f64, w| m.max(w.0.hypot(w.1)));
    for (f, w) in found.iter().zip(wanted) {
        let error = (f.0 - w.0).hypot(f.1 - w.1);
        assert!(error <= 1e-13 * largest, "{what}: {found:?} and {wanted:?}");
    }
}

fn real(x: &Tensor) -> Pairs {
    x.numbers().map(|x| (x, 0.0)).collect()
}

fn scaled(x: Pairs, factor: f64) -> Pairs {
    x.into_iter().map(|(re, im)| (re * factor, im * factor)).collect()
}

/// Tests every length, complex and real arrays, every norm, and both directions.
#[test]
fn transforms_are_their_definitions() {
    for n in (1..=16).chain([31, 64, 97]) {
        let z = complex(&[n], n as u64);
        let (pairs, x) = (z.to_pairs::<f64>().unwrap(), z.re.clone());
        let half = n / 2 + 1;
        for norm in [Norm::Backward, Norm::Ortho, Norm::Forward] {
            let what = format!("n = {n}, {norm:?}");
            let n = n as f64;
            let (forward, inverse) = match norm {
                Norm::Backward => (1.0, 1.0 / n),
                Norm::Ortho => (1.0 / n.sqrt(), 1.0 / n.sqrt()),
                Norm::Forward => (1.0 / n, 1.0),
            };
            let by = || along(-1).norm(norm);
            let program = jit(move |(z, x): (Complex, Var)| {
                let all = (fft::fft(z, by()), fft::ifft(z, by()), fft::fft(x, by()));
                let n = z.re.len();
                let back = fft::irfft(fft::rfft(x, by()), by().points(n));
                (all, fft::ifft(x, by()), fft::rfft(x, by()), back)
            });
            let ((f, i, fx), ix, rx, back) = program.call((&z, &x)).unwrap();
            let check = |y: &Complex<Tensor>, wanted: Pairs| {
                close(&y.to_pairs::<f64>().unwrap(), &wanted, &what);
            };
            check(&f, scaled(definition(&pairs, false), forward));
            check(&i, scaled(definition(&pairs, true), inverse));
            check(&fx, scaled(definition(&real(&x), false), forward));
            check(&ix, scaled(definition(&real(&x), true), inverse));
            check(&rx, scaled(definition(&real(&x), false), forward)[..half].to_vec());
            close(&real(&back), &real(&x), &what);
        }
    }
}

/// A transform along several axes equals successive transforms along each axis, for axes in any order, negative
/// axes, and all axes.
#[test]
fn several_axes_are_one_after_the_other() {
    let z = complex(&[3, 4, 5], 7);
    let same = |f: fn(Complex) -> Complex, g: fn(Complex) -> Complex| {
        let (y, w) = (run(f, &z).unwrap(), run(g, &z).unwrap());
        assert_eq!(y.re.shape(), w.re.shape());
        close(&y.to_pairs::<f64>().unwrap(), &w.to_pairs::<f64>().unwrap(), "axes");
    };
    same(|z| fft::fftn(z, [0, 2]), |z| fft::fft(fft::fft(z, 0), -1));
    same(|z| fft::fftn(z, [-1, 1]), |z| fft::fft(fft::fft(z, 1), 2));
    same(|z| fft::fftn(z, ..), |z| fft::fft(fft::fft(fft::fft(z, 0), 1), 2));
    same(|z| fft::ifftn(z, ..), |z| fft::ifft(fft::ifft(fft::ifft(z, 0), 1), 2));
    same(|z| fft::fft2(z), |z| fft::fftn(z, [1, 2]));
    same(|z| fft::ifft2(z), |z| fft::ifftn(z, [1, 2]));
    same(|z| fft::fftn(z.re, [0, 1]), |z| fft::fftn(z.re + 0.0 * z, [0, 1]));
    same(|z| fft::rfftn(z.re, [2, 0]), |z| fft::fft(fft::rfft(z.re, 0), 2));
    same(|z| fft::rfft2(z.re), |z| fft::fft(fft::rfft(z.re, 2), 1));
    same(|z| fft::fftn(z, Vec::<i64>::new()), |z| z);
    let back = |z: Complex| Complex::from(fft::irfft2(z));
    same(back, |z| fft::irfft(fft::ifft(z, 1), 2).into());
    let back = |z: Complex| fft::irfftn(z, along([2, 0]).points_each([5, 4])).into();
    same(back, |z| fft::irfft(fft::ifft(z, 2), along(0).points(4)).into());
}

#[test]
fn points_cut_off_or_put_zeros() {
    let x = array(&[2, 5], 3);
    let cut = run(|x: Var| fft::rfft(x, along(1).points(3)), &x).unwrap();
    assert_eq!(cut, run(|x: Var| fft::rfft(x.slice_axis(1, ..3), 1), &x).unwrap());
    let zeros = run(|x: Var| fft::fft(x, along(0).points(4)), &x).unwrap();
    assert_eq!(zeros, run(|x: Var| fft::fft(x.pad(&[(0, 2), (0, 0)], 0.0), 0), &x).unwrap());
    let z = complex(&[4], 5);
    let same = |n: usize, width: i64| {
        let y = run(move |z: Complex| fft::irfft(z, along(0).points(n)), &z).unwrap();
        let padded =
            move |z: Complex| fft::irfft(z.map(|x| x.pad(&[(0, width)], 0.0)), along(0).points(n));
        assert_eq!(y, run(padded, &z).unwrap());
    };
    same(4, -1);
    same(5, -1);
    same(7, 0);
    same(9, 1);
}

type Transform = fn(Var) -> Complex;

/// All transforms of the module `fft`, as functions of a real matrix.
const ALL: [(&str, Transform); 12] = [
    ("fft", |x| fft::fft(Complex { re: x, im: x.sin() }, -1)),
    ("fft of reals", |x| fft::fft(x, 0)),
    ("ifft", |x| fft::ifft(Complex { re: x, im: x.cos() }, 0)),
    ("rfft", |x| fft::rfft(x, -1)),
    ("irfft even", |x| fft::irfft(Complex { re: x, im: x * x }, -1).into()),
    ("irfft odd", |x| fft::irfft(Complex { re: x, im: x * x }, along(0).points(5)).into()),
    ("fft2", |x| fft::fft2(x)),
    ("rfft2", |x| fft::rfft2(x)),
    ("dct", |x| fft::dct(x, Cosine::II, -1).into()),
    ("dct III", |x| fft::dct(x, Cosine::III, along(0).norm(Norm::Ortho)).into()),
    ("idct", |x| fft::idct(x, Cosine::II, along(-1).norm(Norm::Ortho)).into()),
    ("fftconvolve", |x| fft::fftconvolve(x, x.exp(), Mode::Same).into()),
];

/// Interpreter and machine code must agree in every bit, because both call the same function; so must each member of a
/// batch.
#[test]
fn engines_and_batches_agree_in_every_bit() {
    for (name, f) in ALL {
        let x = array(&[3, 4], 11);
        let energy = move |x: Var| (f(x).abs2() * 0.5).sum();
        let both = move |x: Var| (f(x), grad(energy)(x));
        let of_both = |x: &Tensor| {
            let native = jit(both).call(x).unwrap();
            let (y, g) = jit(both).interpreted().call(x).unwrap();
            // The values must agree in every bit: no sum, which engines may compute in different orders, precedes the
            // transform.
            assert_eq!(native.0, y, "{name}");
            assert!(native.1.numbers().zip(g.numbers()).all(|(a, b)| (a - b).abs() < 1e-12));
        };
        of_both(&x);
        let single: Tensor = x.numbers().map(|x| x as f32).collect();
        let single = single.reshape(&[3, 4]).unwrap();
        let y = jit(f).call(&single).unwrap();
        assert_eq!(y, jit(f).interpreted().call(&single).unwrap(), "{name} of f32");
        assert_eq!(y.re.dtype(), Dtype::F32, "{name}");
        let many = array(&[5, 3, 4], 13);
        let batch = jit(move |x: Var| vmap(f)(x)).call(&many).unwrap();
        let looped = jit(move |x: Var| map(f, x)).call(&many).unwrap();
        for i in 0..5 {
            let one = jit(f).call(many.row(i).unwrap()).unwrap();
            assert_eq!(batch.re.row(i).unwrap(), one.re, "{name}");
            assert_eq!(batch.im.row(i).unwrap(), one.im, "{name}");
            assert_eq!(looped.re.row(i).unwrap(), one.re, "{name}");
        }
    }
}

/// Tests derivatives in all modes up to third order, in batches, and in loops with transforms in their bodies.
#[test]
fn derivatives_of_all() {
    for (name, f) in ALL {
        let x = array(&[3, 4], 17);
        let energy = move |x: Var| (f(x).abs2() + 1.0).sqrt().sum();
        check_grads(energy, &x, 3).unwrap_or_else(|e| panic!("{name}: {e}"));
        check_grads(f, &x, 1).unwrap_or_else(|e| panic!("{name}: {e}"));
        let many = array(&[2, 3, 4], 19);
        check_grads(move |x: Var| vmap(grad(energy))(x), &many, 1).unwrap();
    }
    // Transforms must work in a loop: a nonlinear filter, applied in three iterations.
    let smooth = |x: Var| {
        let step = |(x, gain): (Var, Var)| {
            let y = fft::irfft(fft::rfft(x, -1) * gain, along(-1).points(5));
            (y.tanh(), y.sum())
        };
        scan(step, x, constant(array(&[3, 3], 23)))
    };
    check_grads(smooth, array(&[5], 29), 2).unwrap();
}

#[test]
fn cosine_transforms_are_their_definitions() {
    for n in (1..=9).chain([16, 25]) {
        let x = array(&[n], n as u64);
        let v = x.to_vec::<f64>().unwrap();
        let cosine = |a: usize, b: usize| (PI * (a * (2 * b + 1)) as f64 / (2 * n) as f64).cos();
        let second = |k: usize| 2.0 * (0..n).map(|j| v[j] * cosine(k, j)).sum::<f64>();
        let third = |k: usize| v[0] + 2.0 * (1..n).map(|j| v[j] * cosine(j, k)).sum::<f64>();
        // The orthogonal transform: each column of the matrix of the second kind is divided by its norm.
        let root = |k: usize| ((if k == 0 { 4.0 } else { 2.0 }) * n as f64).sqrt();
        let ortho_third =
            |k: usize| (0..n).map(|j| 2.0 * v[j] * cosine(j, k) / root(j)).sum::<f64>();
        let all = |f: &dyn Fn(usize) -> f64| (0..n).map(|k| (f(k), 0.0)).collect::<Pairs>();
        let check = |kind: Cosine, norm: Norm, wanted: Pairs| {
            let by = move || along(0).norm(norm);
            let y = run(move |x: Var| fft::dct(x, kind, by()), &x).unwrap();
            close(&real(&y), &wanted, &format!("n = {n}, {kind:?}, {norm:?}"));
            let back = move |x: Var| fft::idct(fft::dct(x, kind, by()), kind, by());
            close(&real(&run(back, &x).unwrap()), &real(&x), "back");
        };
        check(Cosine::II, Norm::Backward, all(&second));
        check(Cosine::II, Norm::Forward, scaled(all(&second), 0.5 / n as f64));
        check(Cosine::II, Norm::Ortho, all(&|k| second(k) / root(k)));
        check(Cosine::III, Norm::Backward, all(&third));
        check(Cosine::III, Norm::Forward, scaled(all(&third), 0.5 / n as f64));
        check(Cosine::III, Norm::Ortho, all(&ortho_third));
    }
}

#[test]
fn convolutions_are_their_definitions() {
    for (n, m) in [(1, 1), (1, 4), (4, 1), (5, 3), (3, 5), (6, 6), (17, 30)] {
        let (x, y) = (array(&[n], n as u64), array(&[m], m as u64 + 50));
        let (a, b) = (x.to_vec::<f64>().unwrap(), y.to_vec::<f64>().unwrap());
        let full: Pairs = (0..n + m - 1)
            .map(|k| {
                let inside = k.saturating_sub(m - 1)..n.min(k + 1);
                (inside.map(|j| a[j] * b[k - j]).sum(), 0.0)
            })
            .collect();
        let check = |mode: Mode, wanted: &[(f64, f64)]| {
            let z = run(move |(x, y): (Var, Var)| fft::fftconvolve(x, y, mode), (&x, &y)).unwrap();
            close(&real(&z), wanted, &format!("{n}, {m}, {mode:?}"));
        };
        check(Mode::Full, &full);
        let middle = (m - 1) / 2;
        check(Mode::Same, &full[middle..middle + n]);
        let short = n.min(m) - 1;
        check(Mode::Valid, &full[short..short + n.abs_diff(m) + 1]);
    }
    let z = run(
        |(x, y): (Var, Var)| fft::fftconvolve(x, y, Mode::Full),
        (array(&[2, 1, 4], 1), array(&[3, 2], 2)),
    );
    assert_eq!(z.unwrap().shape(), [2, 3, 5]);
    for n in 1..300 {
        let smooth = |mut n: usize| {
            for p in [2, 3, 5] {
                while n.is_multiple_of(p) {
                    n /= p;
                }
            }
            n == 1
        };
        assert_eq!(Some(fft::next_fast_len(n)), (n..).find(|n| smooth(*n)));
    }
    assert_eq!(fft::next_fast_len(usize::MAX), usize::MAX);
}

/// Tests nan, infinite, large and small numbers in each of the three transforms.
#[test]
fn extremes() {
    let of = |x: [f64; 4]| {
        let f = |x: Var| (fft::fft(x, 0), fft::rfft(x, 0), fft::irfft(x, along(0).points(6)));
        run(f, x).unwrap()
    };
    let is_nan = |x: &Tensor| x.numbers().all(f64::is_nan);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let (y, half, x) = of([1.0, bad, 0.0, 2.0]);
        assert!([&y.re, &y.im, &half.re, &half.im, &x].iter().all(|x| is_nan(x)), "{bad}");
    }
    // A nan in one batch member must not affect the other members.
    let two = [[1.0, f64::NAN], [1.0, 2.0]];
    let y = run(|x: Var| fft::rfft(x, 1).re, two).unwrap();
    assert!(is_nan(&y.row(0).unwrap()));
    assert_eq!(y.row(1).unwrap(), Tensor::from([3.0, -1.0]));
    // Small and large numbers have full relative accuracy, and sums above the largest number are infinite.
    for scale in [1e300, 1e-300] {
        let (y, half, _) = of([scale, 0.0, 0.0, 0.0]);
        assert_eq!(y.re, Tensor::from([scale; 4]));
        assert!(half.im.numbers().all(|y| y == 0.0));
    }
    assert_eq!(of([1e308; 4]).1.re.get::<f64>(&[0]).unwrap(), f64::INFINITY);
    let (y, half, x) = of([0.0; 4]);
    assert!([&y.re, &y.im, &half.re, &half.im, &x].iter().all(|x| x.numbers().all(|x| x == 0.0)));
    // Transforms of one element, and of none, must be right.
    let one = run(|x: Var| (fft::fft(x, 0), fft::irfft(x, along(0).points(1))), [3.0]).unwrap();
    assert_eq!(one, (Complex::from([(3.0, 0.0)]), Tensor::from([3.0])));
    let none = |x: Var| {
        let all = (fft::fft(x, 0), fft::ifft(x, 0), fft::rfft(x, 0));
        (all, fft::irfft(x, along(0).points(0)), fft::dct(x, Cosine::II, 0))
    };
    let ((y, _, half), x, cosines) = run(none, Tensor::from([0.0; 0])).unwrap();
    assert_eq!((y.re.shape(), half.im.shape(), x.shape(), cosines.shape()), {
        let zero: &[usize] = &[0];
        (zero, zero, zero, zero)
    });
    for shape in [[1 << 59, 1 << 59, 0], [0, 1 << 59, 1 << 59]] {
        let f = move |()| fft::rfft2(zeros(shape, Dtype::F64)).re;
        assert_eq!(jit(f).call(()).unwrap().elements(), 0);
    }
}

fn fails<A: Tree<Var>, B: Tree<Var>>(f: impl Fn(A) -> B, args: impl Args<A>) -> Error {
    match run(f, args) {
        Ok(_) => panic!("the program is wrong and ran"),
        Err(error) => error,
    }
}

/// Each error describes the mistake and has the user's line.
#[test]
fn mistakes() {
    let check = |line: u32, error: Error, words: &[&str]| {
        let text = error.to_string();
        assert!(text.contains(&format!("{}:{line}:", file!())), "line {line}: {text}");
        for word in words {
            assert!(text.contains(word), "{word} is not in {text}");
        }
        assert_eq!(text.matches("error[").count(), 1, "{text}");
    };
    let x = [[1.0, 2.0], [3.0, 4.0]];
    let e = fails(|x: Var| fft::fft(x.convert(Dtype::I64), 0).re, x);
    check(line!() - 1, e, &["error[dtype]", "`fft` needs floats", "convert"]);
    let e = fails(|x: Var| fft::rfft(x, 2).re, x);
    check(line!() - 1, e, &["error[shape]", "axis 2", "axes are -2 to 1"]);
    let e = fails(|x: Var| fft::fft(x, [0, 1]).re, x);
    check(line!() - 1, e, &["error[shape]", "along 2 axes", "`fftn`"]);
    let e = fails(|x: Var| fft::fftn(x, [0, 0]).re, x);
    check(line!() - 1, e, &["error[shape]", "axis 0 twice"]);
    let e = fails(|x: Var| fft::fftn(x, along(..).points(3)).re, x);
    check(line!() - 1, e, &["error[shape]", "2 axes", "1 numbers", "points_each"]);
    let e = fails(|x: Var| fft::rfftn(x, Vec::<usize>::new()).re, x);
    check(line!() - 1, e, &["error[shape]", "along no axis"]);
    let e = fails(|x: Var| fft::fft2(x.flatten()).re, x);
    check(line!() - 1, e, &["error[shape]", "`fft2`", "no such axis"]);
    let e = fails(|x: Var| fft::irfft(x.slice_axis(0, ..1), 0), x);
    check(line!() - 1, e, &["error[shape]", "the extent 1", "points(n)"]);
    let e = fails(|x: Var| fft::fftconvolve(x, x.convert(Dtype::F32), Mode::Full), x);
    check(line!() - 1, e, &["error[dtype]", "`fftconvolve`"]);
    let e = fails(|x: Var| fft::fftconvolve(x.sum(), x, Mode::Full), x);
    check(line!() - 1, e, &["error[shape]", "the last axis"]);
    let e = fails(|x: Var| fft::fftconvolve(x.slice_axis(1, ..0), x, Mode::Full), x);
    check(line!() - 1, e, &["error[shape]", "an element at least"]);
    let e = fails(|x: Var| fft::dct(x, Cosine::II, -3), x);
    check(line!() - 1, e, &["error[shape]", "`dct`"]);
    let e = fails(|x: Var| fft::fft(Complex { re: x, im: x.flatten() }, 0).re, x);
    check(line!() - 1, e, &["error[shape]", "broadcast"]);
    let e = fails(|x: Var| fft::rfft(x, along(0).points(usize::MAX)).re, x);
    check(line!() - 1, e, &["error[shape]", "a size that fits into memory"]);
}

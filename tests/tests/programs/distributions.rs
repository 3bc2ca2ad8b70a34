//! Samples of distributions drawn by rejection, compared with samples of JAX
//! (`tests/data/random/record_distributions.py`), with moments and by the Kolmogorov-Smirnov test; derivatives compared
//! with formulas.

use serde_json::Value;
use tapeloom::prelude::*;
use tapeloom_tests::Elements;
use tapeloom_tests::conformance::tensor;

fn numbers(list: &Value) -> Vec<f64> {
    match list {
        Value::Array(list) => list.iter().map(|x| x.as_f64().unwrap()).collect(),
        one => vec![one.as_f64().unwrap()],
    }
}

#[test]
fn samples_are_those_of_jax() {
    let mut seen = 0;
    for line in include_str!("../../data/random/distributions.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (f, seed) = (case["f"].as_str().unwrap(), case["seed"].as_i64().unwrap());
        let want = tensor(&case).unwrap();
        let (shape, dtype) = (want.shape().to_vec(), want.dtype());
        let params: Vec<Tensor> =
            case["params"].as_array().unwrap().iter().map(|p| Tensor::from(numbers(p))).collect();
        let sample = |()| {
            let key = random::key(seed);
            let p: Vec<Var> = params.iter().map(|p| constant(p).convert(dtype)).collect();
            let shape = &shape[..];
            match f {
                "gamma" => random::gamma(key, p[0], shape),
                "loggamma" => random::loggamma(key, p[0], shape),
                "student_t" => random::student_t(key, p[0], shape),
                "beta" => random::beta(key, p[0], p[1], shape),
                "dirichlet" => random::dirichlet(key, p[0], shape),
                "cauchy" => random::cauchy(key, shape, dtype),
                "logistic" => random::logistic(key, shape, dtype),
                "ball" => {
                    let norm = params[0].to_vec::<f64>().unwrap()[0];
                    random::ball(key, 3, norm, &shape[..1], dtype)
                }
                "choice_without_replacement" => {
                    random::choice_without_replacement(key, p[0], shape[0])
                }
                "weighted_choice" => random::weighted_choice(key, p[0], p[1], shape),
                "weighted_choice_without_replacement" => {
                    random::weighted_choice_without_replacement(key, p[0], p[1], shape[0])
                }
                other => panic!("{other} is recorded, and not compared"),
            }
        };
        let got = run(sample, ()).unwrap();
        assert_eq!(got.ty(), want.ty(), "{f}");
        // JAX's normal numbers, from which it makes these samples, have errors of some units in the last place, and JAX
        // rounds subnormal numbers to 0.
        let (within, least) = match dtype {
            Dtype::F32 => (2e-4, f64::from(f32::MIN_POSITIVE)),
            _ => (1e-11, f64::MIN_POSITIVE),
        };
        for i in 0..got.elements() {
            let (x, y) = (got.at(i).to_f64(), want.at(i).to_f64());
            let close = (x - y).abs() <= (within * y.abs()).max(least);
            assert!(close, "{f} of seed {seed} in {dtype}, element {i}: {x:e}, JAX {y:e}");
        }
        seen += 1;
    }
    assert_eq!(seen, 38);
}

/// Returns the Kolmogorov-Smirnov statistic of samples: the largest distance of their distribution from the
/// distribution function `below`, times the root of the number of samples. A correct sampler exceeds 1.95 once in a
/// thousand tests.
fn distance(samples: &[f64], below: impl Fn(f64) -> f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let steps = sorted.iter().enumerate().map(|(i, x)| {
        let p = below(*x);
        (p - i as f64 / n).abs().max((p - (i as f64 + 1.0) / n).abs())
    });
    steps.fold(0.0, f64::max) * n.sqrt()
}

/// Returns the integral of `f(t) exp(k (cos t - 1))` for t from 0 to x, by the midpoint rule in the part of the interval
/// where the exponential is not negligible.
fn angles(x: f64, k: f64, f: impl Fn(f64) -> f64) -> f64 {
    const STEPS: i32 = 4000;
    let end = x.clamp(-12.0 / k.sqrt(), 12.0 / k.sqrt());
    let at = |i: i32| end * (f64::from(i) + 0.5) / f64::from(STEPS);
    let weight = |t: f64| (-2.0 * k * (0.5 * t).sin().powi(2)).exp();
    (0..STEPS).map(|i| f(at(i)) * weight(at(i))).sum::<f64>() * end / f64::from(STEPS)
}

const N: usize = 4000;

fn samples(f: impl Fn(Var) -> Var) -> Vec<f64> {
    run(|()| f(random::key(11)).convert(Dtype::F64), ()).unwrap().to_vec().unwrap()
}

/// Compiles a function of one number, and returns it as a Rust function.
fn scalar(f: impl Fn(Var) -> Var + 'static) -> impl Fn(f64) -> f64 {
    let f = jit(f);
    move |x| f.call(x).unwrap().item().unwrap()
}

#[test]
fn continuous_samples_follow_their_distribution_functions() {
    let check = |name: &str, samples: Vec<f64>, below: &dyn Fn(f64) -> f64| {
        let d = distance(&samples, below);
        assert!(d < 1.95, "{name}: {d}");
    };
    for a in [0.05, 0.7, 1.0, 3.5, 200.0] {
        let below = scalar(move |x: Var| x.full_like(a).gammainc(x));
        let name = format!("gamma({a})");
        check(&name, samples(|key| random::gamma(key, a, [N])), &below);
        check(&name, samples(|key| random::loggamma(key, a, [N])), &|y| below(y.exp()));
        check(&name, samples(|key| 0.5 * random::chisquare(key, 2.0 * a, [N])), &below);
    }
    for (a, b) in [(0.3, 0.4), (2.0, 5.0), (30.0, 1.0)] {
        let below = scalar(move |x: Var| x.full_like(a).betainc(x.full_like(b), x));
        check(&format!("beta({a}, {b})"), samples(|key| random::beta(key, a, b, [N])), &below);
    }
    for v in [1.0, 4.0] {
        let tail = scalar(move |x: Var| {
            x.full_like(v / 2.0).betainc(x.full_like(0.5), v / (v + x * x)) * 0.5
        });
        let below = |x: f64| if x < 0.0 { tail(x) } else { 1.0 - tail(x) };
        check(&format!("student_t({v})"), samples(|key| random::student_t(key, v, [N])), &below);
    }
    let below = |x: f64| 1.0 / (1.0 + (-x).exp());
    check("logistic", samples(|key| random::logistic(key, [N], Dtype::F64)), &below);
    let below = |x: f64| 0.5 + x.atan() / std::f64::consts::PI;
    check("cauchy", samples(|key| random::cauchy(key, [N], Dtype::F64)), &below);
    for k in [0.0, 1e-3, 0.7, 4.0, 500.0, 1e12] {
        // The samples are angles of a von Mises distribution with concentration k. Their expected distribution function
        // is integrated by the midpoint rule.
        let x = samples(|key| random::von_mises(key, k, [N]));
        assert!(x.iter().all(|x| x.abs() <= std::f64::consts::PI));
        let below =
            |x: f64| 0.5 + angles(x, k, |_| 1.0) / (2.0 * angles(std::f64::consts::PI, k, |_| 1.0));
        check(&format!("von_mises({k})"), x, &below);
    }
    for p in [1.0, 2.0, 3.5, 200.0, f64::INFINITY] {
        let norm = |key| {
            let x = random::ball(key, 4, p, [N], Dtype::F64).abs();
            if p.is_infinite() { x.max_axis(-1) } else { x.powf(p).sum_axis(-1).powf(1.0 / p) }
        };
        check(&format!("ball of {p}"), samples(norm), &|r| r.powi(4));
    }
}

/// Counts of Poisson and binomial samples are compared with their probabilities by Pearson's test, and means and
/// variances for rates of 1e12 with the exact ones.
#[test]
fn counts_follow_their_probabilities() {
    let pearson = |name: &str, samples: Vec<f64>, p: &dyn Fn(f64) -> f64| {
        let (mut sum, mut cells, mut rest, mut others) = (0.0, 0, 1.0, samples.len() as f64);
        let n = samples.len() as f64;
        for k in 0..2000 {
            let want = n * p(f64::from(k));
            if want < 8.0 {
                continue;
            }
            let got = samples.iter().filter(|x| **x == f64::from(k)).count() as f64;
            sum += (got - want).powi(2) / want;
            (cells, rest, others) = (cells + 1, rest - want / n, others - got);
        }
        if rest * n > 1.0 {
            sum += (others - rest * n).powi(2) / (rest * n);
            cells += 1;
        }
        let freedom = f64::from(cells - 1);
        let sigmas = (sum - freedom) / (2.0 * freedom).sqrt();
        assert!(cells > 1 && sigmas < 4.5, "{name}: {sum} with {freedom} degrees of freedom");
    };
    let lgamma = scalar(|x: Var| x.lgamma());
    for rate in [0.3, 4.0, 9.9, 10.1, 60.0, 500.0] {
        let p = |k: f64| (k * f64::ln(rate) - rate - lgamma(k + 1.0)).exp();
        pearson(&format!("poisson({rate})"), samples(|key| random::poisson(key, rate, [N])), &p);
    }
    for (n, q) in [(1.0, 0.3), (12.0, 0.5), (40.0, 0.2), (40.0, 0.9), (1000.0, 0.5), (1e5, 0.002)] {
        let p = |k: f64| {
            if k > n {
                return 0.0;
            }
            let ways = lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0);
            (ways + k * f64::ln(q) + (n - k) * f64::ln(1.0 - q)).exp()
        };
        pearson(
            &format!("binomial({n}, {q})"),
            samples(|key| random::binomial(key, n, q, [N])),
            &p,
        );
    }
    for (n, q) in [(1.0, 0.3), (0.4, 0.2), (30.0, 0.6)] {
        let p = |k: f64| {
            let ways = lgamma(n + k) - lgamma(n) - lgamma(k + 1.0);
            (ways + n * f64::ln(q) + k * f64::ln(1.0 - q)).exp()
        };
        let name = format!("negative_binomial({n}, {q})");
        pearson(&name, samples(|key| random::negative_binomial(key, n, q, [N])), &p);
    }
    // Each count of a multinomial distribution must be distributed like a binomial count.
    for (class, q) in [0.2, 0.5, 0.3].into_iter().enumerate() {
        let draw = |key: Var| {
            let all = random::multinomial(key, 20.0, constant([4.0, 10.0, 6.0]), [N]);
            all.take(class, -1)
        };
        let p = |k: f64| {
            let ways = lgamma(21.0) - lgamma(k + 1.0) - lgamma(21.0 - k);
            if k > 20.0 {
                0.0
            } else {
                (ways + k * f64::ln(q) + (20.0 - k) * f64::ln(1.0 - q)).exp()
            }
        };
        pearson(&format!("multinomial, outcome {class}"), samples(draw), &p);
    }
    let large = samples(|key| random::poisson(key, 1e12, [N]));
    let mean = large.iter().map(|x| x - 1e12).sum::<f64>() / N as f64 / 1e6;
    let square = large.iter().map(|x| ((x - 1e12) / 1e6).powi(2)).sum::<f64>() / N as f64;
    assert!(mean.abs() < 0.08 && (square - 1.0).abs() < 0.12, "{mean} {square}");
    let large = samples(|key| random::binomial(key, 1e12, 0.25, [N]));
    let sigma = (1e12f64 * 0.1875).sqrt();
    let mean = large.iter().map(|x| (x - 0.25e12) / sigma).sum::<f64>() / N as f64;
    assert!(mean.abs() < 0.08, "{mean}");
}

/// Derivatives of expectations, of first and second order, are compared with formulas. Derivatives of a sample with
/// respect to its parameter must leave the value of the distribution function at the sample constant.
#[test]
fn samples_move_as_their_distributions_do() {
    // The expected moments of a gamma distribution with shape a are E x² = a (a + 1) and E ln x = ψ(a).
    for a in [0.3, 1.7, 20.0] {
        let square = |a: Var| random::gamma(random::key(5), a, [40_000]).square().mean();
        let slope = run(grad(square), a).unwrap().item::<f64>().unwrap();
        let off = (slope - (2.0 * a + 1.0)) / (2.0 * a + 1.0);
        assert!(off.abs() < 0.05, "{a}: {slope}");
        let log = |a: Var| random::loggamma(random::key(5), a, [40_000]).mean();
        let slope = run(grad(log), a).unwrap().item::<f64>().unwrap();
        let want = run(|a: Var| grad(|a: Var| a.digamma())(a), a).unwrap().item::<f64>().unwrap();
        assert!((slope - want).abs() < 0.05 * want, "{a}: {slope} {want}");
        let bend = run(grad(grad(square)), a).unwrap().item::<f64>().unwrap();
        assert!((bend - 2.0).abs() < 0.4, "{a}: {bend}");
    }
    // A sample x(a) must move with its parameter a so that the distribution function P(a, x(a)) stays constant: its
    // first and second derivatives along a must be 0.
    let quantile = |a: Var| {
        let x = random::gamma(random::key(3), a, [50]);
        let (dx, ddx) = jvp(|a: Var| {
            let f = |a: Var| random::gamma(random::key(3), a, [50]);
            jvp(f)((a, a.ones_like())).1
        })((a, a.ones_like()));
        let level = |h: f64| (a + h).gammainc(x + h * dx + 0.5 * h * h * ddx);
        ((level(1e-3) - level(0.0)).abs().max(), (level(1e-2) - level(0.0)).abs().max())
    };
    let (near, far) = run(quantile, 2.5).unwrap();
    let (near, far) = (near.item::<f64>().unwrap(), far.item::<f64>().unwrap());
    assert!(near < 1e-8 && far < 1e-5, "{near} {far}");
    let bound = |(a, b): (Var, Var)| random::beta(random::key(9), a, b, [40_000]).square().mean();
    let (da, db) = run(grad(bound), (2.0, 3.0)).unwrap();
    // The expected second moment of a beta distribution is a (a + 1) / ((a + b) (a + b + 1)), here 1/5.
    let (da, db) = (da.item::<f64>().unwrap(), db.item::<f64>().unwrap());
    assert!((da - 0.2 * (0.5 + 1.0 / 3.0 - 0.2 - 1.0 / 6.0)).abs() < 0.004, "{da}");
    assert!((db + 0.2 * (0.2 + 1.0 / 6.0)).abs() < 0.004, "{db}");
    let first =
        |alpha: Var| random::dirichlet(random::key(9), alpha, [40_000, 3]).mean_axis(0).index(0);
    let slope = run(grad(first), [1.0, 2.0, 7.0]).unwrap().to_vec::<f64>().unwrap();
    for (got, want) in slope.iter().zip([0.09, -0.01, -0.01]) {
        assert!((got - want).abs() < 0.002, "{slope:?}");
    }
    // The derivative of an angle is -∂P/∂κ / p with the distribution function P and the density p.
    for k in [0.0, 0.5, 3.0, 1e4] {
        let draw = |k: Var| random::von_mises(random::key(4), k, [50]);
        let (x, dx) = run(|k: Var| jvp(draw)((k, k.ones_like())), k).unwrap();
        let pi = std::f64::consts::PI;
        let mean = angles(pi, k, f64::cos) / angles(pi, k, |_| 1.0);
        for (x, dx) in x.numbers().zip(dx.numbers()) {
            let moved =
                angles(x, k, |t| t.cos() - mean) / (-2.0 * k * (0.5 * x).sin().powi(2)).exp();
            assert!(
                (dx + moved).abs() < 1e-6 * (1e-3 / (1.0 + k) + moved.abs()),
                "{k}: {x} {dx} {moved}"
            );
        }
    }
    // At κ = 0, the derivative of the log density in κ is cos x. Near 0, the derivative of the entropy is -κ/2 to first
    // order.
    let (p, h) =
        (|k: Var| stats::von_mises_logpdf(1.0, 0.0, k), |k: Var| stats::von_mises_entropy(k));
    let at_zero = |k: Var| (grad(p)(k), grad(grad(p))(k), grad(h)(k), grad(grad(h))(k));
    let (p, dp, h, dh) = run(at_zero, 0.0).unwrap();
    for (found, want) in [(p, 1f64.cos()), (dp, -0.5), (h, 0.0), (dh, -0.5)] {
        assert!((found.item::<f64>().unwrap() - want).abs() < 1e-14, "{found} and not {want}");
    }
    // The expected derivatives are those of the mean cosine E cos x = A(κ) = I₁(κ) / I₀(κ) with respect to the
    // concentration κ: A' = 1 - A / κ - A², and its derivative A''.
    let cos = |k: Var| random::von_mises(random::key(5), k, [40_000]).cos().mean();
    let (slope, bend) = run(|k: Var| (grad(cos)(k), grad(grad(cos))(k)), 2.0).unwrap();
    let (slope, bend) = (slope.item::<f64>().unwrap(), bend.item::<f64>().unwrap());
    let (a, first) = (0.697_774_657_964, 0.164_223_196_2);
    assert!((slope - first).abs() < 0.005, "{slope}");
    assert!((bend - (a / 4.0 - first / 2.0 - 2.0 * a * first)).abs() < 0.02, "{bend}");
    // A sample that underflows must have a finite derivative; the sample's logarithm has a large one.
    let tiny = |a: Var| random::gamma(random::key(1), a, [20]).sum();
    assert!(run(grad(tiny), 1e-4).unwrap().item::<f64>().unwrap().is_finite());
    let log = |a: Var| random::loggamma(random::key(1), a, [20]).sum();
    assert!(run(grad(log), 1e-4).unwrap().item::<f64>().unwrap() > 1e5);
}

/// Let A = I₁ / I₀ be the quotient of Bessel functions of the concentration κ. The slope of the log density at its mode
/// must be 1 - A, and the slope of the entropy -κ A'. A difference of Bessel functions would lose digits in proportion
/// to κ. The expected values of 1 - A and A' are mpmath's.
#[test]
fn slopes_of_the_von_mises_distribution_keep_their_digits_at_large_concentrations() {
    let density = |k: Var| stats::von_mises_logpdf(0.5, 0.5, k);
    let entropy = |k: Var| stats::von_mises_entropy(k);
    // The divergence from a distribution with the doubled concentration must have the slope -κ A' with respect to κ.
    let kl = |l: Var| move |k: Var| stats::von_mises_kl((0.0, k), (0.0, l.stop_gradient()));
    let f =
        |k: Var| (grad(density)(k), grad(grad(density))(k), grad(entropy)(k), grad(kl(2.0 * k))(k));
    for (k, rest, fall) in [
        (100.0, 0.005_012_626_994_831_235, 5.025_383_022_147_036e-5),
        (301.0, 0.001_662_513_851_427_259_7, 5.527_916_167_691_293e-6),
        (1e5, 5.000_012_500_125_002e-6, 5.000_025_000_375_008e-11),
        (1e8, 5.000_000_012_5e-9, 5.000_000_025e-17),
    ] {
        let wanted = [rest, -fall, -k * fall, -k * fall];
        let wide = run(f, k).unwrap();
        let narrow = run(f, k as f32).unwrap();
        for ((p, dp, h, kl), bound) in [(wide, 4e-15), (narrow, 2e-6)] {
            for (found, want) in [p, dp, h, kl].into_iter().zip(wanted) {
                let found = found.numbers().next().unwrap();
                assert!((found / want - 1.0).abs() < bound, "{k}: {found} and not {want}");
            }
        }
    }
}

/// Checks derivatives of gamma samples x at large shape parameters a. For a normal number z, x = a (1 + z/(3 √a) -
/// 1/(9a))³, so dx/da is near 1 + z/(2 √a), with a second derivative near -z/(4 a √a).
#[test]
fn samples_of_large_shape_parameters_move_as_their_mean() {
    type Of = fn(Var) -> Var;
    let draw: Of = |a| random::gamma(random::key(3), a, a.shape());
    let log: Of = |a| random::loggamma(random::key(3), a, a.shape());
    let square: Of = |k| random::chisquare(random::key(3), k, k.shape());
    let slopes = |f: Of, a: Var| {
        let forward = jvp(f)((a, a.ones_like())).1;
        let reverse = grad(|a: Var| f(a).sum())(a);
        stack(&[forward, reverse], 0)
    };
    let near = |x: f64, want: f64, within: f64| (x - want).abs() <= within;
    for exponent in [3, 6, 9, 10, 12, 16, 20, 25, 28, 30, 37, 50, 100, 200, 300] {
        let a = 10f64.powi(exponent);
        let all = Tensor::full(&[8], a).unwrap();
        let x = run(draw, &all).unwrap().to_vec::<f64>().unwrap();
        let wanted: Vec<f64> = x.iter().map(|x| 1.0 + 0.5 * (x / a).ln()).collect();
        // Terms of order 1/a are left out, and the logarithm of the sample is rounded.
        let within = 3.0 / a + 1e-12;
        for (name, f, scale) in [("gamma", draw, 1.0), ("chisquare", square, 2.0)] {
            let at = all.clone();
            let slope = run(move |a: Var| slopes(f, scale * a), at).unwrap();
            for (slope, want) in slope.to_vec::<f64>().unwrap().iter().zip(wanted.repeat(2)) {
                assert!(near(*slope, want, within), "{name} at {a:e}: {slope:?}, want {want:?}");
            }
        }
        let slope = run(move |a: Var| a * slopes(log, a), &all).unwrap();
        for (slope, x) in slope.to_vec::<f64>().unwrap().iter().zip(x.repeat(2)) {
            let want = 1.0 - 0.5 * (x / a).ln();
            assert!(near(*slope, want, within), "loggamma at {a:e}: {slope:?}, want {want:?}");
        }
        if exponent <= 37 {
            let single = Tensor::full(&[8], a as f32).unwrap();
            let slope = run(move |a: Var| slopes(draw, a), single).unwrap();
            for (slope, want) in slope.to_vec::<f32>().unwrap().iter().zip(wanted.repeat(2)) {
                let within = 1e-4 + 6.0 / a.sqrt();
                assert!(
                    near((*slope).into(), want, within),
                    "f32 at {a:e}: {slope:?}, want {want:?}"
                );
            }
        }
    }
    let bend = |a: Var| {
        let slope = |a: Var| grad(|a: Var| draw(a).sum())(a);
        (draw(a), jvp(slope)((a, a.ones_like())).1)
    };
    for a in [1e4, 9.9e5, 1.01e6, 1e8, 1e10, 1e13, 1e100] {
        let (x, bend) = run(bend, Tensor::full(&[8], a).unwrap()).unwrap();
        for (x, bend) in x.to_vec::<f64>().unwrap().iter().zip(bend.to_vec::<f64>().unwrap()) {
            let want = -0.25 * (x / a).ln() / a;
            let within = 3.0 / (a * a) + 1e-3 / (a * a.sqrt());
            assert!((bend - want).abs() < within, "at {a:e}: {bend:e}, want {want:e}");
        }
    }
    // The derivatives must agree below and above the point at which the formula changes.
    let both = |a: Var| {
        let (x, slope) = jvp(draw)((a, a.ones_like()));
        (x / a, slope)
    };
    let below = run(both, Tensor::full(&[8], 999_999.999_999).unwrap()).unwrap();
    let above = run(both, Tensor::full(&[8], 1e6).unwrap()).unwrap();
    let numbers = |x: &Tensor| x.to_vec::<f64>().unwrap();
    for ((x, y), (dx, dy)) in numbers(&below.0)
        .iter()
        .zip(numbers(&above.0))
        .zip(numbers(&below.1).iter().zip(numbers(&above.1)))
    {
        assert!(near(*x, y, 1e-13) && near(*dx, dy, 1e-11), "{x} {y}, {dx} {dy}");
    }
}

/// Mean and variance of binomial and Poisson counts around 1e9 to 1e18 must be right; there, differences of logarithms
/// of factorials lose all digits.
#[test]
fn large_counts_have_their_variance() {
    type Of = fn(Var) -> Var;
    const COUNT: usize = 4000;
    let moments = |draw: Of, mean: f64| {
        move |of: Var| {
            let off = draw(of).convert(Dtype::F64) - mean;
            (off.mean(), off.var())
        }
    };
    let binomial: Of = |n| random::binomial(random::key(8), n, 0.5, [COUNT]);
    let rare: Of = |n| random::binomial(random::key(8), n, 1e-3, [COUNT]);
    let poisson: Of = |rate| random::poisson(random::key(8), rate, [COUNT]);
    for n in [1e9, 1e13, 1e15, 1e18] {
        let all = [
            ("binomial", binomial, 0.5 * n, 0.25 * n),
            ("rare", rare, 1e-3 * n, 1e-3 * 0.999 * n),
            ("poisson", poisson, n, n),
        ];
        for (name, draw, mean, variance) in all {
            let (off, spread) = run(moments(draw, mean), n).unwrap();
            let (off, spread) = (off.item::<f64>().unwrap(), spread.item::<f64>().unwrap());
            assert!(off.abs() < 4.0 * (variance / COUNT as f64).sqrt(), "{name} of {n}: {off}");
            assert!((spread / variance - 1.0).abs() < 0.1, "{name} of {n}: {}", spread / variance);
        }
    }
    let beyond = |n: Var| {
        stack(
            &[random::binomial(random::key(0), n, 0.5, []), random::poisson(random::key(0), n, [])],
            0,
        )
    };
    assert_eq!(run(beyond, 1e19).unwrap().to_vec::<i64>().unwrap(), [-1, -1]);
}

/// For shape parameters so small that derivatives of the samples' logarithms overflow, samples must be 0 or 1, with
/// derivatives of 0 in both modes and both orders.
#[test]
fn samples_at_tiny_shapes_stay_where_they_are() {
    type Of = fn(Var) -> Var;
    let all: [(&str, Of); 4] = [
        ("gamma", |a| random::gamma(random::key(1), a.broadcast_to([5]), [5])),
        ("chisquare", |a| random::chisquare(random::key(1), a.broadcast_to([5]), [5])),
        ("beta", |a| random::beta(random::key(1), a, a, [5])),
        ("dirichlet", |a| random::dirichlet(random::key(1), a.broadcast_to([3]), [5, 3])),
    ];
    let derivatives = |f: Of| {
        move |a: Var| {
            let weighed = |a: Var| {
                let x = f(a).flatten();
                (x * (arange(x.size(), x.dtype()) + 1.0)).sum()
            };
            let along = |a: Var| jvp(weighed)((a, a.ones_like())).1;
            let orders = [grad(weighed)(a), along(a), grad(along)(a), grad(grad(weighed))(a)];
            (f(a), orders.map(|x| x.convert(Dtype::F64)).to_vec())
        }
    };
    for (name, f) in all {
        let wide = [1e-153, 1e-155, 1e-200, 1e-300].map(Tensor::from);
        let narrow = [1e-18f32, 1e-20, 1e-30, 1e-38].map(Tensor::from);
        for a in wide.iter().chain(&narrow) {
            let (x, orders) = run(derivatives(f), a).unwrap();
            assert!(x.numbers().all(|x| x == 0.0 || x == 1.0), "{name} at {a}: {x}");
            for order in orders {
                assert_eq!(order.item::<f64>().unwrap(), 0.0, "{name} at {a}");
            }
        }
    }
}

/// Extreme shape parameters: for a shape of -0 all samples must be 0; for infinitely many degrees of freedom samples
/// must be normal.
#[test]
fn shapes_at_the_ends_of_their_ranges() {
    let x = run(|a: Var| random::gamma(random::key(0), a, [4]), -0.0).unwrap();
    assert_eq!(x, Tensor::from([0.0; 4]));
    let t =
        |freedom: f64| run(|n: Var| random::student_t(random::key(4), n, [4000]), freedom).unwrap();
    let (limit, near) = (t(f64::INFINITY), t(1e12));
    for (x, y) in limit.numbers().zip(near.numbers()) {
        assert!((x - y).abs() < 1e-4 * y.abs(), "{x} and {y}");
    }
    let slope = run(grad(|n: Var| random::student_t(random::key(4), n, [9]).sum()), f64::INFINITY);
    assert_eq!(slope.unwrap().item::<f64>().unwrap(), 0.0);
}

/// Batches must equal single calls; parameters outside their domain give nan; wrong arguments give errors.
#[test]
fn edges_and_mistakes() {
    let f = |(key, a): (Var, Var)| random::gamma(key, a, [3]);
    let keys = |seed: Var| random::split_n(random::key(seed), 4);
    let both =
        run(|(s, a): (Var, Var)| vmap(f)((keys(s), a)), (3i64, [0.5, 1.5, 2.5, 3.5])).unwrap();
    let one = run(|(s, a): (Var, Var)| f((keys(s).index(2), a)), (3i64, 2.5)).unwrap();
    assert_eq!(both.to_vec::<f64>().unwrap()[6..9], one.to_vec::<f64>().unwrap());
    let x =
        run(|a: Var| random::gamma(random::key(0), a, [4]), [0.0, -1.0, f64::NAN, f64::INFINITY]);
    let x = x.unwrap().to_vec::<f64>().unwrap();
    assert!(x[0] == 0.0 && x[1].is_nan() && x[2].is_nan() && x[3] == f64::INFINITY, "{x:?}");
    let k = run(|r: Var| random::poisson(random::key(0), r, [3]), [0.0, -1.0, f64::NAN]).unwrap();
    assert_eq!(k.to_vec::<i64>().unwrap(), [0, -1, -1]);
    let k = |(n, p): (Var, Var)| random::binomial(random::key(0), n, p, [5]);
    let n = [7.0, 7.0, 0.0, 7.0, -1.0];
    let few = run(k, (n, [0.0, 1.0, 0.5, 1.5, 0.5])).unwrap();
    assert_eq!(few.to_vec::<i64>().unwrap(), [0, 7, 0, -1, -1]);
    let n = [f64::INFINITY, f64::INFINITY, f64::INFINITY, f64::NAN, 7.0];
    let none = run(k, (n, [0.0, 1.0, 0.5, 0.5, f64::NAN])).unwrap();
    assert_eq!(none.to_vec::<i64>().unwrap(), [-1; 5]);
    let k = |(n, p): (Var, Var)| random::negative_binomial(random::key(0), n, p, [5]);
    let few = run(k, ([7.0, 7.0, 0.0, 7.0, f64::NAN], [1.0, 0.0, 0.5, 1.5, 0.5])).unwrap();
    assert_eq!(few.to_vec::<i64>().unwrap(), [0, -1, -1, -1, -1]);
    // The counts must sum to n, and an outcome of weight 0 must not occur, even if it is the last one.
    let k = |(n, w): (Var, Var)| random::multinomial(random::key(0), n, w, [500, 2]);
    let counts = run(k, ([1.0, 70.0], [0.1, 0.0, 0.2, 0.7, 0.0])).unwrap().to_vec::<i64>().unwrap();
    for (i, k) in counts.chunks(5).enumerate() {
        assert_eq!(k.iter().sum::<i64>(), [1, 70][i % 2], "{k:?}");
        assert!(k[1] == 0 && k[4] == 0 && k.iter().all(|k| *k >= 0), "{k:?}");
    }
    for (n, w) in
        [(-1.0, [1.0, 1.0]), (2.0, [1.0, -1.0]), (2.0, [0.0, 0.0]), (2.0, [f64::NAN, 1.0])]
    {
        let none = run(|(n, w): (Var, Var)| random::multinomial(random::key(0), n, w, []), (n, w));
        assert_eq!(none.unwrap().to_vec::<i64>().unwrap(), [-1, -1], "{n} {w:?}");
    }
    let empty = run(|()| random::gamma(random::key(0), 1.0, [0, 3]), ()).unwrap();
    assert_eq!(empty.shape(), [0, 3]);
    let mistakes: [fn(Var) -> Var; 11] = [
        |x| random::gamma(x, 1.0, [2]),
        |x| random::gamma(random::key(0), x, [2]),
        |_| random::gamma(random::key(0), 1i64, [2]),
        |x| random::beta(random::key(0), x, x.convert(Dtype::F32), [3]),
        |x| random::dirichlet(random::key(0), x, []),
        |x| random::choice_without_replacement(random::key(0), x, 4),
        |x| random::weighted_choice(random::key(0), x, x.slice_axis(0, 1..), [2]),
        |_| random::ball(random::key(0), 2, -1.0, [2], Dtype::F64),
        |x| random::multinomial(random::key(0), x, x.sum(), [3]),
        |x| random::multinomial(random::key(0), x, x, [2]),
        |x| random::negative_binomial(x, 1.0, 0.5, [2]),
    ];
    for (i, mistake) in mistakes.into_iter().enumerate() {
        let message = run(mistake, [1.0, 2.0, 3.0]).unwrap_err().to_string();
        assert!(message.contains("distributions.rs"), "{i}: {message}");
    }
    // A key given to two distributions is an error, as a key used twice.
    let twice = |()| {
        let key = random::key(1);
        random::gamma(key, 1.0, [2]) + random::beta(key, 1.0, 1.0, [2])
    };
    assert!(jit(twice).key_check().call(()).is_err());
    let once =
        |()| random::gamma(random::key(1), 1.0, [2]) + random::student_t(random::key(2), 1.0, [2]);
    assert!(jit(once).key_check().call(()).is_ok());
}

/// The value of a function of one number and its derivative there.
type Edge<'a> = (&'a str, fn(Var) -> Var, f64, [f64; 2]);

/// At the edges of a support, values are those of the closed support, and derivatives are one-sided limits; outside, the
/// density is -inf with a derivative of 0.
#[test]
fn densities_have_one_sided_derivatives_at_edges() {
    const INF: f64 = f64::INFINITY;
    let ln2 = 2f64.ln();
    let cases: &[Edge] = &[
        ("gamma(1) at 0", |x| stats::gamma_logpdf(x, 1.0, 1.0), 0.0, [0.0, -1.0]),
        ("gamma(2) at 0", |x| stats::gamma_logpdf(x, 2.0, 1.0), 0.0, [-INF, INF]),
        ("gamma(0.5) at 0", |x| stats::gamma_logpdf(x, 0.5, 1.0), 0.0, [INF, -INF]),
        ("gamma(20) at 0", |x| stats::gamma_logpdf(x, 20.0, 1.0), 0.0, [-INF, INF]),
        ("gamma below 0", |x| stats::gamma_logpdf(x, 2.0, 1.0), -1.0, [-INF, 0.0]),
        ("gamma in a at x = 0", |a| stats::gamma_logpdf(0.0, a, 1.0), 1.0, [0.0, -INF]),
        ("exponential at 0", |x| stats::exponential_logpdf(x, 0.5), 0.0, [ln2, -2.0]),
        ("exponential below 0", |x| stats::exponential_logpdf(x, 0.5), -0.1, [-INF, 0.0]),
        ("uniform at its end", |x| stats::uniform_logpdf(x, 0.0, 0.5), 0.5, [ln2, 0.0]),
        ("uniform in its end", |b| stats::uniform_logpdf(0.5, 0.0, b), 0.5, [ln2, -2.0]),
        ("beta(1, 1) at 0", |x| stats::beta_logpdf(x, 1.0, 1.0), 0.0, [0.0, 0.0]),
        ("beta(1, 2) at 0", |x| stats::beta_logpdf(x, 1.0, 2.0), 0.0, [ln2, -1.0]),
        ("beta(2, 1) at 1", |x| stats::beta_logpdf(x, 2.0, 1.0), 1.0, [ln2, 1.0]),
        ("beta(2, 2) at 1", |x| stats::beta_logpdf(x, 2.0, 2.0), 1.0, [-INF, -INF]),
        ("beta above 1", |x| stats::beta_logpdf(x, 2.0, 2.0), 1.5, [-INF, 0.0]),
        ("bernoulli of 0 at p = 0", |p| stats::bernoulli_logpmf(0.0, p), 0.0, [0.0, -1.0]),
        ("bernoulli of 1 at p = 0", |p| stats::bernoulli_logpmf(1.0, p), 0.0, [-INF, INF]),
        ("bernoulli of 1 at p = 1", |p| stats::bernoulli_logpmf(1.0, p), 1.0, [0.0, 1.0]),
        ("binomial of 0 at p = 0", |p| stats::binomial_logpmf(0, 3.0, p), 0.0, [0.0, -3.0]),
        ("binomial of n at p = 1", |p| stats::binomial_logpmf(3, 3.0, p), 1.0, [0.0, 3.0]),
        ("binomial of 1 at p = 0", |p| stats::binomial_logpmf(1, 3.0, p), 0.0, [-INF, INF]),
        ("binomial of n in n", |n| stats::binomial_logpmf(0, n, 0.5), 3.0, [-3.0 * ln2, -ln2]),
        ("poisson of 0 at rate 0", |r| stats::poisson_logpmf(0, r), 0.0, [0.0, -1.0]),
        ("poisson of 2 at rate 0", |r| stats::poisson_logpmf(2, r), 0.0, [-INF, INF]),
        ("bernoulli's entropy at 0", |p| stats::bernoulli_entropy(p), 0.0, [0.0, INF]),
        ("bernoulli's entropy at 1", |p| stats::bernoulli_entropy(p), 1.0, [0.0, -INF]),
        ("bernoulli's divergence at 0", |p| stats::bernoulli_kl(p, 0.5), 0.0, [ln2, -INF]),
        ("divergence of equal parameters", |p| stats::bernoulli_kl(p, 0.3), 0.3, [0.0, 0.0]),
        ("poisson's divergence at 0", |r| stats::poisson_kl(r, 2.0), 0.0, [2.0, -INF]),
        ("normal divergence of a point", |s| stats::normal_kl((0.0, s), (0.0, 1.0)), 1.0, [0.0; 2]),
        ("laplace at its kink", |x| stats::laplace_logpdf(x, 1.0, 0.5), 1.0, [0.0, -2.0]),
        (
            "truncated normal in an infinite bound",
            |a| stats::truncated_normal_logpdf(0.0, a, INF, 0.0, 1.0),
            -INF,
            [-0.5 * std::f64::consts::TAU.ln(), 0.0],
        ),
        (
            "truncated normal in an infinite bound of a tail",
            |a| stats::truncated_normal_logpdf(-3.0, a, -3.0, 0.0, 1.0),
            -INF,
            [1.188_787_688_305_677_8, 0.0],
        ),
        (
            "categorical with an impossible class",
            |x| stats::categorical_logpmf(0, stack(&[x, x.full_like(-INF)], 0), -1),
            1.0,
            [0.0, 0.0],
        ),
    ];
    for (name, f, at, want) in cases {
        let (y, slope) = run(value_and_grad(*f), *at).unwrap();
        let got = [y.item::<f64>().unwrap(), slope.item::<f64>().unwrap()];
        let near = |x: f64, y: f64| x == y || (x - y).abs() < 1e-14 * y.abs().max(1.0);
        let both = got.iter().zip(want).all(|(x, y)| near(*x, *y));
        assert!(both, "{name}: {got:?} and not {want:?}");
    }
}

/// Far from the bulk of a distribution, large terms cancel, and squares overflow or underflow. The expected values and
/// slopes are mpmath's.
#[test]
fn distributions_keep_their_digits_in_tails() {
    const INF: f64 = f64::INFINITY;
    let tail: fn(Var) -> Var = |x| stats::truncated_normal_logpdf(x, 1e5, INF, 0.0, 1.0);
    let within = 1e-12;
    let cases: &[(Edge, f64)] = &[
        (
            (
                "entropy of an open tail",
                |a| stats::truncated_normal_entropy(a, INF, 1.0),
                40.0,
                [-2.690_126_536_403_841, -0.024_937_791_175_459_637],
            ),
            within,
        ),
        (
            (
                "entropy of an interval in a tail",
                |a| stats::truncated_normal_entropy(-201.0, -a, 1.0),
                200.0,
                [-4.298_367_361_861_307, -0.004_999_500_093_726_882],
            ),
            1e-9,
        ),
        (("density at the end of a tail", tail, 1e5, [11.512_925_465_070_229, -1e5]), within),
        (
            (
                "entropy of an open tail at 1e5",
                |a| stats::truncated_normal_entropy(a, INF, 1.0),
                1e5,
                [-10.512_925_465_170_228, -9.999_999_995_988_656e-6],
            ),
            within,
        ),
        (
            (
                "entropy of an interval at 1e5",
                |a| stats::truncated_normal_entropy(-100_001.0, -a, 1.0),
                1e5,
                [-10.512_925_465_170_228, -9.999_999_995_988_656e-6],
            ),
            within,
        ),
        (
            (
                "entropy of an interval in a tail, near to it",
                |a| stats::truncated_normal_entropy(a, 40.1, 1.0),
                40.0,
                [-2.782_627_295_279_542_4, -3.048_389_463_873_893_3],
            ),
            within,
        ),
        (
            (
                "divergence of narrow Cauchy distributions",
                |x| stats::cauchy_kl((0.0, 1e-200), (x, 1e-200)),
                1.0,
                [919.647_742_836_498_4, 2.0],
            ),
            within,
        ),
        (
            (
                "divergence of a narrow and a wide Cauchy distribution",
                |t| stats::cauchy_kl((0.0, 1e-200), (0.0, t)),
                1e200,
                [919.647_742_836_498_4, 1e-200],
            ),
            within,
        ),
        (
            (
                "dirichlet of large parameters",
                |a| {
                    stats::dirichlet_logpdf(constant([0.25, 0.25, 0.5]), stack(&[a, a, 2.0 * a], 0))
                },
                1e6,
                [15.096_795_616_574_683, 1.000_000_187_5e-6],
            ),
            within,
        ),
    ];
    for ((name, f, at, want), within) in cases {
        let (y, slope) = run(value_and_grad(*f), *at).unwrap();
        let got = [y.item::<f64>().unwrap(), slope.item::<f64>().unwrap()];
        let near = |x: f64, y: f64| (x - y).abs() < within * y.abs().max(1.0);
        let both = got.iter().zip(want).all(|(x, y)| near(*x, *y));
        assert!(both, "{name}: {got:?} and not {want:?}");
    }
    // The square of the ratio of the scales underflows, and the divergence must still be right.
    let y = run(|s: Var| stats::normal_kl((0.0, s), (0.0, 1.0)), 1e-200).unwrap();
    assert!((y.item::<f64>().unwrap() - 460.017_018_598_809_1).abs() < 1e-12, "{y}");
    // The bounds are near 10⁴, so their squares of 10⁸ cancel, and the result must still be right.
    let p = (1e4, 1e4 + 1e-4, 0.0, 1.0);
    let y = run(|high: Var| stats::truncated_normal_kl(p, (1e4, high, 0.0, 1.0)), INF).unwrap();
    assert!((y.item::<f64>().unwrap() - 0.458_675_140_773_305_1).abs() < 1e-12, "{y}");
    // In f32, terms of magnitude 10⁷ and 10⁴ cancel, and the result must still be right.
    let alpha = [1e6f32, 1e6, 2e6];
    let single = |alpha: Var| stats::dirichlet_logpdf(constant([0.25f32, 0.25, 0.5]), alpha);
    let y = run(single, alpha).unwrap().item::<f32>().unwrap();
    assert!((y - 15.096_796).abs() < 1e-4, "{y}");
    let single = |x: Var| stats::truncated_normal_logpdf(x, 200.0, 201.0, 0.0, 1.0);
    let y = run(single, 200f32).unwrap().item::<f32>().unwrap();
    assert!((y - 5.298_342).abs() < 1e-5, "{y}");
    let single = |n: Var| stats::cauchy_kl((0.0, 1e-30), (n, 1e-30));
    let y = run(single, 1f32).unwrap().item::<f32>().unwrap();
    assert!((y - 136.768_8).abs() < 1e-4, "{y}");
    // Second derivatives of entropies must agree with finite differences near the bulk of the distribution and in its
    // tail.
    let entropy = |(a, b): (Var, Var)| stats::truncated_normal_entropy(a, b, 1.0);
    check_grads(entropy, (1.5, 3.0), 2).unwrap();
    check_grads(entropy, (-9.0, -8.0), 2).unwrap();
    // If both bounds of a truncated normal distribution are infinite, the second derivatives of its log density with
    // respect to them must be 0.
    let both = |(low, high): (Var, Var)| stats::truncated_normal_logpdf(0.5, low, high, 0.0, 1.0);
    let second = run(hessian(both), (-INF, INF)).unwrap();
    assert!(second.numbers().all(|x| x == 0.0), "{second}");
}

/// Means of log densities over samples estimate negative entropies: density, entropy and sampler of a distribution must
/// belong together.
#[test]
fn samplers_densities_and_entropies_agree() {
    type Row<'a> = (&'a str, fn(Var) -> Var, fn() -> Var);
    let f64s = Dtype::F64;
    let rows: &[Row] = &[
        (
            "normal",
            |key| stats::normal_logpdf(random::normal(key, [N], Dtype::F64), 0.0, 1.0),
            || stats::normal_entropy(1.0),
        ),
        (
            "truncated normal",
            |key| {
                let x = random::truncated_normal(key, [N], 0.5, 2.0);
                stats::truncated_normal_logpdf(x, 0.5, 2.0, 0.0, 1.0)
            },
            || stats::truncated_normal_entropy(0.5, 2.0, 1.0),
        ),
        (
            "laplace",
            |key| stats::laplace_logpdf(random::laplace(key, [N], Dtype::F64), 0.0, 1.0),
            || stats::laplace_entropy(1.0),
        ),
        (
            "gumbel",
            |key| stats::gumbel_logpdf(random::gumbel(key, [N], Dtype::F64), 0.0, 1.0),
            || stats::gumbel_entropy(1.0),
        ),
        (
            "cauchy",
            |key| stats::cauchy_logpdf(random::cauchy(key, [N], Dtype::F64), 0.0, 1.0),
            || stats::cauchy_entropy(1.0),
        ),
        (
            "student_t",
            |key| stats::student_t_logpdf(random::student_t(key, 3.0, [N]), 3.0, 0.0, 1.0),
            || stats::student_t_entropy(3.0, 1.0),
        ),
        (
            "von Mises",
            |key| stats::von_mises_logpdf(random::von_mises(key, 1.5, [N]), 0.0, 1.5),
            || stats::von_mises_entropy(1.5),
        ),
        (
            "exponential",
            |key| stats::exponential_logpdf(2.0 * random::exponential(key, [N], Dtype::F64), 2.0),
            || stats::exponential_entropy(2.0),
        ),
        (
            "gamma",
            |key| stats::gamma_logpdf(0.5 * random::gamma(key, 2.5, [N]), 2.5, 0.5),
            || stats::gamma_entropy(2.5, 0.5),
        ),
        (
            "chisquare",
            |key| stats::chisquare_logpdf(random::chisquare(key, 3.0, [N]), 3.0),
            || stats::gamma_entropy(1.5, 2.0),
        ),
        (
            "beta",
            |key| stats::beta_logpdf(random::beta(key, 2.0, 0.5, [N]), 2.0, 0.5),
            || stats::beta_entropy(2.0, 0.5),
        ),
        (
            "dirichlet",
            |key| {
                let alpha = constant([0.5, 2.0, 3.0]);
                stats::dirichlet_logpdf(random::dirichlet(key, alpha, [N, 3]), alpha)
            },
            || stats::dirichlet_entropy(constant([0.5, 2.0, 3.0])),
        ),
        (
            "bernoulli",
            |key| stats::bernoulli_logpmf(random::bernoulli(key, 0.3, [N]), 0.3),
            || stats::bernoulli_entropy(0.3),
        ),
        (
            "categorical",
            |key| {
                let logits = constant([0.0, 1.0, -1.0]);
                let k = random::categorical(key, logits.broadcast_to([N, 3]), -1);
                stats::categorical_logpmf(k, logits, -1)
            },
            || stats::categorical_entropy(constant([0.0, 1.0, -1.0]), -1),
        ),
        (
            "poisson",
            |key| stats::poisson_logpmf(random::poisson(key, 4.0, [N]), 4.0),
            || stats::poisson_entropy(4.0),
        ),
        (
            "binomial",
            |key| stats::binomial_logpmf(random::binomial(key, 30.0, 0.6, [N]), 30.0, 0.6),
            || stats::binomial_entropy(30, 0.6),
        ),
    ];
    for (name, density, entropy) in rows {
        let log = |()| {
            let log = density(random::key(11)).convert(f64s);
            (log.mean(), log.std(), entropy())
        };
        let (mean, deviation, entropy) = run(log, ()).unwrap();
        let [mean, deviation, entropy] =
            [mean, deviation, entropy].map(|x| x.item::<f64>().unwrap());
        let error = deviation / (N as f64).sqrt();
        assert!((mean + entropy).abs() < 4.0 * error + 1e-12, "{name}: {mean} {entropy} {error}");
    }
}

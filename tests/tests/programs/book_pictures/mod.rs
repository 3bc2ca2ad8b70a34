//! Pictures of the book that show results of the programs in its chapters.

mod chart;

use self::chart::Chart;
use super::book::compare_picture;
use tapeloom::{conv, prelude::*};
use tapeloom_tests::Failure;

const GREY: &str = "#999999";
const BLUE: &str = "#2471a3";
const RED: &str = "#c0392b";

/// Each picture of the book must equal the plot of its program's results.
#[test]
fn pictures_show_the_results_of_their_programs() {
    type Draw = fn() -> Result<String, Failure>;
    let all: [(&str, Draw); 7] = [
        ("filter", control_flow),
        ("gaussian_process", linear_algebra),
        ("median", convolutions),
        ("spiral", networks),
        ("gamma", special_functions),
        ("gas", implicit),
        ("tone", fourier),
    ];
    for (name, draw) in all {
        compare_picture(name, &draw().unwrap());
    }
}

/// Returns `n` numbers from `from` to `to`.
fn range(from: f64, to: f64, n: usize) -> Vec<f64> {
    (0..n).map(|i| from + (to - from) * i as f64 / (n - 1) as f64).collect()
}

/// Returns the points whose coordinates are `x` and the elements of `y`.
fn pairs(x: &[f64], y: &Tensor) -> Vec<(f64, f64)> {
    x.iter().copied().zip(y.numbers()).collect()
}

/// Plots the output of the filter in the chapter on loops, for a step with noise.
fn control_flow() -> Result<String, Failure> {
    let t = range(0.0, 119.0, 120);
    let noise = |k: usize| ((k * k * 7919) % 1000) as f64 / 1000.0 - 0.5;
    let step = |k: usize| if (30..80).contains(&k) { 1.0 } else { 0.0 };
    let signal: Vec<f64> = (0..120).map(|k| step(k) + 0.5 * noise(k)).collect();
    let filtered = jit(|(a, xs): (Var, Var)| {
        let iteration = |(y, x): (Var, Var)| (y + a * (x - y), y + a * (x - y));
        scan(iteration, xs.index(0), xs).1
    });
    let smooth = |a: f64| -> Result<Vec<(f64, f64)>, Failure> {
        Ok(pairs(&t, &filtered.call((a, signal.clone()))?))
    };
    let points: Vec<(f64, f64)> = t.iter().copied().zip(signal.iter().copied()).collect();
    let chart = Chart::new([0.0, 119.0], [-0.4, 1.4])
        .dots("signal", GREY, &points)
        .line("a = 0.4", BLUE, &smooth(0.4)?)
        .line("a = 0.08", RED, &smooth(0.08)?);
    Ok(chart.svg(["iteration", "y"], [&[0.0, 30.0, 60.0, 90.0], &[0.0, 0.5, 1.0]]))
}

/// Plots the Gaussian process of the book's chapter on linear algebra, fitted to twelve values with noise.
fn linear_algebra() -> Result<String, Failure> {
    let kernel = |length: Var, a: Var, b: Var| {
        let distance = (a.expand_dims(1) - b) / length.exp();
        (-0.5 * distance.square()).exp()
    };
    let factor = move |length: Var, noise: Var, x: Var| {
        let noise = noise.exp().square() * eye(x.len(), Dtype::F64);
        linalg::cholesky(kernel(length, x, x) + noise)
    };
    let log_likelihood = move |((length, noise), x, y): ((Var, Var), Var, Var)| {
        let l = factor(length, noise, x);
        let white = linalg::solve_triangular(l, y, Triangle::LOWER);
        -0.5 * white.square().sum() - l.diagonal().ln().sum()
    };
    let x: Vec<f64> =
        (0..12).map(|i| [0.0, 0.4, 0.7, 1.3, 1.5, 2.1, 2.4, 3.6, 4.1, 4.3, 4.9, 5.5][i]).collect();
    let y: Vec<f64> = x
        .iter()
        .enumerate()
        .map(|(i, x)| x.sin() + [0.12, -0.2, 0.05, -0.1, 0.17][i % 5])
        .collect();
    let step = jit(move |(p, x, y): ((Var, Var), Var, Var)| {
        let (dl, dn) = grad(move |p: (Var, Var)| log_likelihood((p, x, y)))(p);
        (p.0 + 0.02 * dl, p.1 + 0.02 * dn)
    });
    let mut fitted = (Tensor::from(0.0), Tensor::from(-1.0));
    for _ in 0..300 {
        fitted = step.call((&fitted, x.clone(), y.clone()))?;
    }
    let at = range(-0.5, 7.0, 151);
    let predict = |((length, noise), x, y, at): ((Var, Var), Var, Var, Var)| {
        let l = factor(length, noise, x);
        let across = kernel(length, x, at);
        let white = linalg::solve_triangular(l, across, Triangle::LOWER);
        let mean = across.t().dot(linalg::cho_solve(l, y));
        (mean, (1.0 - white.square().sum_axis(0)).sqrt())
    };
    let (mean, deviation) = run(predict, (&fitted, x.clone(), y.clone(), at.clone()))?;
    let band: Vec<(f64, f64, f64)> = pairs(&at, &mean)
        .into_iter()
        .zip(deviation.numbers())
        .map(|((x, m), s)| (x, m - 2.0 * s, m + 2.0 * s))
        .collect();
    let observed: Vec<(f64, f64)> = x.iter().copied().zip(y.iter().copied()).collect();
    let truth: Vec<(f64, f64)> = at.iter().map(|x| (*x, x.sin())).collect();
    let chart = Chart::new([-0.5, 7.0], [-2.2, 2.2])
        .band("mean ± 2 deviations", "#d6e6f2", &band)
        .line("sin x", GREY, &truth)
        .line("mean", BLUE, &pairs(&at, &mean))
        .dots("observations", RED, &observed);
    Ok(chart.svg(["x", "y"], [&[0.0, 2.0, 4.0, 6.0], &[-2.0, -1.0, 0.0, 1.0, 2.0]]))
}

/// Plots the moving mean and the median of a curve with outliers, as in the chapter on convolutions.
fn convolutions() -> Result<String, Failure> {
    let t = range(0.0, 99.0, 100);
    let curve = |k: usize| (k as f64 / 12.0).sin() + if k >= 60 { 1.0 } else { 0.0 };
    let spike = |k: usize| match k {
        11 | 37 => 2.0,
        25 | 78 => -2.0,
        _ => 0.0,
    };
    let signal: Vec<f64> = (0..100).map(|k| curve(k) + spike(k)).collect();
    let mean = |x: Var| conv::avg_pool(x, conv::windows([5]).same());
    let median = |x: Var| conv::patches(x, conv::windows([5]).same()).sort(-1).index_axis(-1, 2);
    let points: Vec<(f64, f64)> = t.iter().copied().zip(signal.iter().copied()).collect();
    let chart = Chart::new([0.0, 99.0], [-1.6, 3.2])
        .dots("x", GREY, &points)
        .line("mean of five", BLUE, &pairs(&t, &run(mean, signal.clone())?))
        .line("median of five", RED, &pairs(&t, &run(median, signal.clone())?));
    Ok(chart.svg(["index", "value"], [&[0.0, 20.0, 40.0, 60.0, 80.0], &[-1.0, 0.0, 1.0, 2.0, 3.0]]))
}

/// A layer of the network in the chapter on networks.
#[derive(Tree, Clone)]
struct Layer<T> {
    w: T,
    b: T,
}

/// Plots the classes that the network of the chapter on networks assigns to the points of the plane, after its
/// training.
fn networks() -> Result<String, Failure> {
    type Net<T> = Vec<Layer<T>>;
    fn scores(net: &Net<Var>, x: Var) -> Var {
        let (last, hidden) = net.split_last().expect("a layer");
        let h = hidden.iter().fold(x, |h, l| (h.dot(l.w) + l.b).relu());
        h.dot(last.w) + last.b
    }
    let start = |seed: Var| -> Net<Var> {
        let keys: [Var; 2] = random::split(random::key(seed));
        let layer = |(&(n, m), key): (&(usize, usize), Var)| Layer {
            w: nn::he_normal(key, [n, m], Dtype::F64),
            b: zeros([m], Dtype::F64),
        };
        [(2, 32), (32, 2)].iter().zip(keys).map(layer).collect()
    };
    let places: Vec<[f64; 2]> = (0..80)
        .map(|i| {
            let (t, side) = (0.5 + f64::from(i / 2) / 12.0, if i % 2 == 0 { 1.0 } else { -1.0 });
            [side * t * (2.0 * t).cos(), side * t * (2.0 * t).sin()]
        })
        .collect();
    let (x, labels) = (Tensor::from(places.clone()), (0..80i64).map(|i| i % 2).collect::<Tensor>());
    let adam = optim::adam(optim::cosine_decay(0.02, 400).warm_up(10));
    let train = |(seed, x, labels): (Var, Var, Var)| {
        let net = start(seed);
        let state = adam.init(&net);
        let iteration = |(_, (net, state)): (Var, (Net<Var>, _))| {
            let loss = |net: Net<Var>| scores(&net, x).cross_entropy(labels).mean();
            adam.step(&grad(loss)(net.clone()), &state, &net)
        };
        fori_loop(400, iteration, (net, state)).0
    };
    let net = run(train, (3i64, &x, &labels))?;

    // The plane is divided into 80 by 80 cells; the points are the middles of the cells.
    let (n, edge) = (80, 4.4);
    let size = 2.0 * edge / n as f64;
    let at = |i: usize| size * i as f64 - edge;
    let middles: Vec<[f64; 2]> =
        (0..n * n).map(|k| [at(k % n) + size / 2.0, at(k / n) + size / 2.0]).collect();
    let class = |(net, x): (Net<Var>, Var)| scores(&net, x).argmax(-1);
    let classes = run(class, (&net, Tensor::from(middles)))?;
    let classes: Vec<bool> = classes.numbers().map(|c| c > 0.5).collect();
    let mut cells = Vec::new();
    for (row, classes) in classes.chunks(n).enumerate() {
        let mut column = 0;
        for run in classes.chunk_by(|a, b| a == b) {
            if run[0] {
                cells.push([at(column), at(row), at(column + run.len()), at(row + 1)]);
            }
            column += run.len();
        }
    }
    let points = |class: usize| -> Vec<(f64, f64)> {
        places.iter().skip(class).step_by(2).map(|[x, y]| (*x, *y)).collect()
    };
    let chart = Chart::new([-edge, edge], [-edge, edge])
        .size([400.0, 400.0])
        .cells("assigned to class 1", "#f2cfc9", &cells)
        .dots("class 0", BLUE, &points(0))
        .dots("class 1", RED, &points(1));
    let ticks = [-4.0, -2.0, 0.0, 2.0, 4.0];
    Ok(chart.svg(["x", "y"], [&ticks, &ticks]))
}

/// Plots the densities of the gamma distribution at three shapes, and the frequencies of samples.
fn special_functions() -> Result<String, Failure> {
    let x = range(0.02, 9.0, 180);
    let density = |(a, x): (Var, Var)| ((a - 1.0) * x.ln() - x - a.lgamma()).exp();
    let draw = |(a, key): (Var, Var)| random::gamma(random::key(key), a, [20_000]);
    let samples = run(draw, (3.0, 1i64))?;
    let width = 0.25;
    let mut counts = vec![0.0; 36];
    for x in samples.numbers() {
        if let Some(count) = counts.get_mut((x / width) as usize) {
            *count += 1.0 / (width * 20_000.0);
        }
    }
    let corners = counts
        .iter()
        .enumerate()
        .flat_map(|(i, n)| [(i as f64 * width, 0.0, *n), ((i + 1) as f64 * width, 0.0, *n)]);
    let chart = Chart::new([0.0, 9.0], [0.0, 1.0]).band(
        "20,000 samples, a = 3",
        "#f2cfc9",
        &corners.collect::<Vec<_>>(),
    );
    let shapes = [(1.0, "a = 1", GREY), (1.5, "a = 1.5", BLUE), (3.0, "a = 3", RED)];
    let chart = shapes.into_iter().try_fold(chart, |chart, (a, name, colour)| {
        let y = run(density, (a, x.clone()))?;
        Ok::<Chart, Failure>(chart.line(name, colour, &pairs(&x, &y)))
    })?;
    Ok(chart.svg(["x", "density"], [&[0.0, 2.0, 4.0, 6.0, 8.0], &[0.0, 0.5, 1.0]]))
}

/// Plots the volume of the gas in the chapter on implicit equations against its pressure, with tangents.
fn implicit() -> Result<String, Failure> {
    let volume = |(p, t): (Var, Var)| {
        custom_root(
            |v: Var| (p + 0.1 / (v * v)) * (v - 0.05) - t,
            t / p,
            |f, v| {
                let slope = |v: Var| jvp(f)((v, v.ones_like()));
                while_loop(
                    |(_, step): (Var, Var)| step.abs().gt(1e-13),
                    |(v, _)| {
                        let (y, dy) = slope(v);
                        (v - y / dy, y / dy)
                    },
                    (v, v.ones_like()),
                )
                .0
            },
            |a, b| b / a(b.ones_like()),
        )
    };
    let (p, t) = (range(0.4, 4.0, 91), 2.0);
    let all = run(vmap(move |p: Var| volume((p, constant(t)))), p.clone())?;
    let mut chart = Chart::new([0.4, 4.0], [0.0, 5.0]).line("volume", BLUE, &pairs(&p, &all));
    let slope = jit(value_and_grad(move |p: Var| volume((p, constant(t)))));
    for (at, name) in [(0.7, "tangents by the derivative of the solution"), (1.4, ""), (2.8, "")] {
        let (v, dv) = slope.call(at)?;
        let (v, dv) = (v.item::<f64>()?, dv.item::<f64>()?);
        let ends = [-0.45, 0.45].map(|h| (at + h, v + h * dv));
        chart = chart.line(name, RED, &ends).dots("", RED, &[(at, v)]);
    }
    Ok(chart.svg(["pressure", "volume"], [&[1.0, 2.0, 3.0, 4.0], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]]))
}

/// Plots the loudest frequency of each frame of a rising tone, as in the chapter on Fourier transforms.
fn fourier() -> Result<String, Failure> {
    let loudest = |t: Var| {
        let tone = (std::f64::consts::TAU * (0.05 * t + 0.15 / 2048.0 * t * t)).sin();
        let window = fft::Window::Hann.periodic(128, Dtype::F64);
        fft::stft(tone, fft::Frames::new(window, 32)).abs().argmax(0)
    };
    let t: Vec<f64> = (0..2048).map(f64::from).collect();
    let bins = run(loudest, t)?;
    let found: Vec<(f64, f64)> = bins
        .numbers()
        .enumerate()
        .map(|(i, k)| ((32 * i) as f64, k / 128.0))
        .skip(2)
        .take(60)
        .collect();
    let chart = Chart::new([0.0, 2048.0], [0.0, 0.4])
        .line("frequency of the tone", GREY, &[(0.0, 0.05), (2048.0, 0.35)])
        .dots("loudest bin of a frame", BLUE, &found);
    let ticks: [&[f64]; 2] = [&[0.0, 512.0, 1024.0, 1536.0], &[0.0, 0.1, 0.2, 0.3, 0.4]];
    Ok(chart.svg(["sample", "periods a sample"], ticks))
}

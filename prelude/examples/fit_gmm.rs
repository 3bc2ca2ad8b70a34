//! Fits a mixture of Gaussians to points in the plane by gradient descent on its log-posterior.
//!
//! ```text
//! cargo run --release --example fit_gmm [OUTPUT.svg]
//! ```
//!
//! The points are those of a recorded GradBench conversation (`tests/data/gradbench/gmm.jsonl`). Each
//! component has a weight, a mean, and the triangular square root `Q` of its inverse covariance, with
//! `exp q` on the diagonal and `l` below it. The whole step (value, gradient, Adam) is one compiled
//! program.

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use indicatif::{ProgressBar, ProgressStyle};
use std::error::Error;
use std::time::Instant;
use tapeloom::prelude::*;

/// The number of components.
const COMPONENTS: usize = 5;
/// The number of steps of Adam.
const STEPS: usize = 400;

/// The parameters of k components in two dimensions.
#[derive(Clone, Tree)]
struct Mixture<T> {
    /// Logarithms of the weights, up to a constant: `[k]`.
    alpha: T,
    /// Means: `[k, 2]`.
    mu: T,
    /// Logarithms of the diagonals of the factors Q of the precisions: `[k, 2]`.
    q: T,
    /// The entries below the diagonals of the factors Q of the precisions: `[k]`.
    l: T,
}

/// Returns `-log p(x | mixture) - log p(mixture)` per point, with a Wishart prior on the precisions.
fn loss(p: &Mixture<Var>, x: Var) -> Var {
    let n = x.len();
    let offset = x.reshape([n, 1, 2]) - p.mu;
    let (dx, dy) = (offset.index_axis(2, 0), offset.index_axis(2, 1));
    let scale = p.q.exp();
    // Multiply x - mu by the factor Q of the precision, one row of the lower triangular Q at a time.
    let u = scale.index_axis(1, 0) * dx;
    let v = p.l * dx + scale.index_axis(1, 1) * dy;
    let log_weight = p.alpha - p.alpha.logsumexp();
    let beta = log_weight + p.q.sum_axis(1) - 0.5 * (u.square() + v.square());
    let likelihood = beta.logsumexp_axis(1).sum() - n as f64 * (2.0 * std::f64::consts::PI).ln();
    let prior = 0.5 * (scale.square().sum() + p.l.square().sum());
    (prior - likelihood) / n as f64
}

/// The parameters, the running mean of their gradients, and the running mean of the squared gradients.
type State<T> = (Mixture<T>, Mixture<T>, Mixture<T>);

/// Takes one step of Adam: Kingma and Ba, "Adam: a method for stochastic optimization" (2015).
fn adam<P: Tree<Var>>(p: &P, m: &P, s: &P, g: &P, t: Var) -> (P, P, P) {
    let m = tree_map2(|m, g| 0.9 * m + 0.1 * g, m, g);
    let s = tree_map2(|s, g| 0.999 * s + 0.001 * g * g, s, g);
    let [m_bias, s_bias] = [0.9_f64, 0.999].map(|b| 1.0 - (b.ln() * t).exp());
    let rate = |m, s: Var| 0.05 * (m / m_bias) / ((s / s_bias).sqrt() + 1e-8);
    (tree_map3(|p, m, s| p - rate(m, s), p, &m, &s), m, s)
}

fn step(((p, m, s), x, t): (State<Var>, Var, Var)) -> (Var, State<Var>) {
    let (value, g) = value_and_grad(|p: Mixture<Var>| loss(&p, x))(p.clone());
    (value, adam(&p, &m, &s, &g, t))
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "fit_gmm.svg".to_owned());
    let points = read_points()?;
    let n = points.shape()[0];
    println!("{n} points, {COMPONENTS} components, {STEPS} steps");

    let mut state = start(&points)?;
    let update = jit(step);
    let bar = ProgressBar::new(STEPS as u64)
        .with_style(ProgressStyle::with_template("{bar:40} {pos}/{len} loss {msg}")?);
    let mut losses = Vec::new();
    let begin = Instant::now();
    for t in 1..=STEPS {
        let (value, next) = update.call((&state, &points, t as f64))?;
        state = next;
        losses.push(value.item::<f64>()?);
        bar.set_message(format!("{:.4}", losses[t - 1]));
        bar.inc(1);
    }
    bar.finish();
    for t in (0..STEPS).step_by(STEPS / 8).chain([STEPS - 1]) {
        println!("step {t:4}  loss {:.6}", losses[t]);
    }
    println!("fitted in {:.1} ms, compilation included", begin.elapsed().as_secs_f64() * 1e3);

    report(&state.0, &points)?;
    std::fs::write(&path, picture(&points, &state.0)?)?;
    println!("wrote {path}");
    Ok(())
}

/// Times the objective and its gradient and prints the memory that the gradient needs.
fn report(p: &Mixture<Tensor>, points: &Tensor) -> Result<(), Box<dyn Error>> {
    let value = jit(|(p, x): (Mixture<Var>, Var)| loss(&p, x));
    let gradient =
        jit(|(p, x): (Mixture<Var>, Var)| value_and_grad(|p: Mixture<Var>| loss(&p, x))(p));
    let value_time = median(|| value.call((p, points)).map(drop))?;
    let gradient_time = median(|| gradient.call((p, points)).map(drop))?;
    println!(
        "objective {:.1} us, value and gradient {:.1} us, ratio {:.2}",
        value_time * 1e6,
        gradient_time * 1e6,
        gradient_time / value_time
    );
    let memory = gradient.explain((p, points))?;
    println!(
        "memory of one gradient: {} bytes of workspace, {} with arguments and results, known before the call",
        memory.workspace_bytes(),
        memory.peak_bytes()
    );
    Ok(())
}

/// Returns the median time of a call in seconds.
fn median(mut call: impl FnMut() -> Result<(), tapeloom::Error>) -> Result<f64, Box<dyn Error>> {
    call()?;
    let mut times = Vec::new();
    for _ in 0..201 {
        let start = Instant::now();
        call()?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Reads the points of the first recorded evaluation in two dimensions.
fn read_points() -> Result<Tensor, Box<dyn Error>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/gradbench/gmm.jsonl");
    for line in std::fs::read_to_string(path)?.lines() {
        let entry: serde_json::Value = serde_json::from_str(line)?;
        let input = &entry["message"]["input"];
        if let (Some(rows), Some(2)) = (input["x"].as_array(), input["d"].as_u64()) {
            let flat = rows.iter().flat_map(|r| r.as_array().into_iter().flatten());
            let flat: Option<Vec<f64>> = flat.map(serde_json::Value::as_f64).collect();
            return Ok(Tensor::new(&[rows.len(), 2], flat.ok_or("a point is not a number")?)?);
        }
    }
    Err("no points in two dimensions are recorded".into())
}

/// Returns the state before the first step of Adam: components of equal weight at points spread through the data, and
/// running means of zero.
fn start(points: &Tensor) -> Result<State<Tensor>, Box<dyn Error>> {
    let x = points.as_slice::<f64>()?;
    let stride = x.len() / 2 / COMPONENTS;
    let mu = (0..COMPONENTS).flat_map(|k| x[2 * k * stride..][..2].iter().copied()).collect();
    let mixture = Mixture {
        alpha: Tensor::from([0.0; COMPONENTS]),
        mu: Tensor::new(&[COMPONENTS, 2], mu)?,
        q: Tensor::from([[0.5; 2]; COMPONENTS]),
        l: Tensor::from([0.0; COMPONENTS]),
    };
    let nothing = zeros_like(&mixture);
    Ok((mixture, nothing.clone(), nothing))
}

/// Draws the points and, for each component, the ellipses of one and two standard deviations.
fn picture(points: &Tensor, p: &Mixture<Tensor>) -> Result<String, Box<dyn Error>> {
    /// Pixels per unit, and the half width of the picture in units.
    const SCALE: f64 = 100.0;
    const HALF: f64 = 4.0;
    /// One colour for each component.
    const COLOURS: [&str; COMPONENTS] = ["#c0392b", "#2471a3", "#1e8449", "#8e44ad", "#b9770e"];
    let size = 2.0 * HALF * SCALE;
    let place = |x: f64, y: f64| ((x + HALF) * SCALE, (HALF - y) * SCALE);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {size} {size}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for point in points.as_slice::<f64>()?.chunks(2) {
        let (x, y) = place(point[0], point[1]);
        svg += &format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"#446\" opacity=\"0.6\"/>\n"
        );
    }
    let alpha = p.alpha.as_slice::<f64>()?;
    let total: f64 = alpha.iter().map(|a| a.exp()).sum();
    let (mu, q) = (p.mu.as_slice::<f64>()?, p.q.as_slice::<f64>()?);
    for (k, l) in p.l.as_slice::<f64>()?.iter().enumerate() {
        let colour = COLOURS[k % COLOURS.len()];
        let weight = alpha[k].exp() / total;
        for radius in [1.0, 2.0] {
            // A point x of the ellipse at the angle t satisfies Q (x - mu) = r (cos t, sin t), where Q is the lower
            // triangular factor of the precision. Solve from the top row down.
            let corners = (0..=72).map(|i| {
                let (sin, cos) = (f64::from(i) / 72.0 * std::f64::consts::TAU).sin_cos();
                let dx = radius * cos / q[2 * k].exp();
                let dy = (radius * sin - l * dx) / q[2 * k + 1].exp();
                let (x, y) = place(mu[2 * k] + dx, mu[2 * k + 1] + dy);
                format!("{x:.1},{y:.1}")
            });
            let corners: Vec<String> = corners.collect();
            svg += &format!(
                "<polygon points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{:.1}\"/>\n",
                corners.join(" "),
                1.0 + 8.0 * weight
            );
        }
    }
    svg += "</svg>\n";
    Ok(svg)
}

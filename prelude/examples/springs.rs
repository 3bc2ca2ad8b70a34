//! A creature of springs learns to walk: masses in the plane, springs whose rest lengths oscillate, and a soft
//! floor with friction. The walked distance is differentiated through five hundred time steps, and gradient descent
//! finds the oscillations.
//!
//! ```text
//! cargo run --release --example springs               prints how far it comes
//! cargo run --release --example springs -- walk.svg   also writes a picture of its walk
//! ```
//!
//! After Hu et al., "DiffTaichi: differentiable programming for physical simulation" (2020).

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use tapeloom::prelude::*;

/// The numbers of columns and rows of masses.
const COLUMNS: usize = 5;
const ROWS: usize = 3;
/// The length of a time step in seconds, and the number of steps.
const STEP: f64 = 0.004;
const STEPS: usize = 500;

/// The pairs of masses joined by springs, the rest lengths of the springs, and the initial positions of the masses.
struct Body {
    from: Tensor,
    to: Tensor,
    length: Tensor,
    start: Tensor,
}

impl Body {
    /// Returns a lattice in which each mass is joined to its neighbours, diagonal neighbours included.
    fn new() -> Body {
        let place = |k: usize| [0.1 * (k % COLUMNS) as f64, 0.1 * (k / COLUMNS) as f64];
        let (mut from, mut to, mut length) = (Vec::new(), Vec::new(), Vec::new());
        for a in 0..COLUMNS * ROWS {
            for b in a + 1..COLUMNS * ROWS {
                let ([x, y], [u, v]) = (place(a), place(b));
                let apart = (x - u).hypot(y - v);
                if apart < 0.15 {
                    from.push(a as i64);
                    to.push(b as i64);
                    length.push(apart);
                }
            }
        }
        let start: Vec<[f64; 2]> = (0..COLUMNS * ROWS).map(place).collect();
        let [from, to] = [from, to].map(Tensor::from);
        Body { from, to, length: length.into(), start: start.into() }
    }

    /// Returns the positions of all masses after each step, f64[steps, masses, 2], if the rest length of spring k
    /// is multiplied by 1 + tanh(a_k sin 10 t + b_k cos 10 t) / 5 at time t.
    fn way(&self, (a, b): (Var, Var)) -> Var {
        let (from, to) = (constant(&self.from), constant(&self.to));
        let step = move |((x, v), t): ((Var, Var), Var)| {
            let swing = (a * (10.0 * t).sin() + b * (10.0 * t).cos()).tanh();
            let between = x.take(to, 0) - x.take(from, 0);
            let apart = between.square().sum_axis(1).sqrt();
            let pull = 1500.0 * (apart - constant(&self.length) * (1.0 + 0.2 * swing)) / apart;
            let pull = between * pull.expand_dims(1);
            let force = x.zeros_like().at(from).add(pull).at(to).add(-pull);
            // The depth of each mass in the floor, smoothed near the surface.
            let inside = 0.01 * (-100.0 * x.index_axis(1, 1)).softplus().expand_dims(1);
            let v =
                v + STEP * (force + constant([0.0, -9.8]) + inside * constant([0.0, 1.0]) * 2000.0);
            // Air damps motion a little, the floor strongly.
            let v = v * (-STEP * (3.0 + 3000.0 * inside)).exp();
            let x = x + STEP * v;
            ((x, v), x)
        };
        let times = STEP * arange(STEPS, Dtype::F64);
        let start = constant(&self.start);
        scan(step, (start, start.zeros_like()), times).1
    }

    /// Returns the distance that the centre of the creature moves.
    fn distance(&self, swing: (Var, Var)) -> Var {
        let x = self.way(swing);
        (x.index(-1) - constant(&self.start)).index_axis(1, 0).mean()
    }
}

/// The oscillation of each spring: the coefficients of the sine and of the cosine.
type Swing<T> = (T, T);

pub(crate) fn main() -> Result<(), tapeloom::Error> {
    let body = Body::new();
    let springs = body.length.shape()[0];
    let adam = (optim::clip_by_global_norm(1.0), optim::adam(0.02));
    type Adam = (optim::ClipByGlobalNorm, optim::Adam);
    let train = jit(|(p, state): (Swing<Var>, optim::State<Adam, Swing<Var>>)| {
        let (loss, g) = value_and_grad(|p: Swing<Var>| -body.distance(p))(p);
        (-loss, adam.step(&g, &state, &p))
    });
    let mut state = run(
        |()| {
            let keys: [Var; 2] = random::split(random::key(1));
            let [a, b] = keys.map(|key| 0.1 * random::normal(key, [springs], Dtype::F64));
            ((a, b), adam.init(&(a, b)))
        },
        (),
    )?;
    let start = state.0.clone();
    let mut came = Vec::new();
    for t in 1..=150 {
        let (distance, next) = train.call(&state)?;
        state = next;
        came.push(100.0 * distance.item::<f64>()?);
        if t == 1 || t % 25 == 0 {
            println!("before step {t:3} of descent it comes {:3.0} cm", came[came.len() - 1]);
        }
    }
    assert!(came[149] > came[0] + 50.0);

    let file = std::env::args().nth(1).filter(|name| name.ends_with(".svg"));
    if let Some(file) = file {
        let way = jit(|p: Swing<Var>| body.way(p));
        let ways = [way.call(&start)?, way.call(&state.0)?];
        if let Err(e) = std::fs::write(&file, body.picture(&ways)?) {
            println!("no picture: {file}: {e}");
        }
    }
    Ok(())
}

impl Body {
    /// Draws the trajectories one below the other: the creature at four times, and the path of its centre.
    fn picture(&self, ways: &[Tensor]) -> Result<String, tapeloom::Error> {
        let (from, to) = (self.from.to_vec::<i64>()?, self.to.to_vec::<i64>()?);
        let mut svg = String::from(
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 720 300' fill='none'>\n",
        );
        for (which, way) in ways.iter().enumerate() {
            let floor = 120.0 + 160.0 * which as f64;
            let x = way.to_vec::<f64>()?;
            let masses = COLUMNS * ROWS;
            let place = |t: usize, k: usize| {
                let at = 2 * (t * masses + k);
                (60.0 + 420.0 * x[at], floor - 420.0 * x[at + 1])
            };
            svg += &format!("<path d='M0 {floor}H720' stroke='#888'/>\n");
            for (n, t) in [0, STEPS / 3, 2 * STEPS / 3, STEPS - 1].into_iter().enumerate() {
                let shade = ["#bcd", "#8ab", "#579", "#135"][n];
                let line = |(a, b): (&i64, &i64)| {
                    let ((x, y), (u, v)) = (place(t, *a as usize), place(t, *b as usize));
                    format!("M{x:.1} {y:.1}L{u:.1} {v:.1}")
                };
                let lines: String = from.iter().zip(&to).map(line).collect();
                svg += &format!("<path d='{lines}' stroke='{shade}'/>\n");
            }
            let middle = |t: usize| {
                let (x, y) = place(t, masses / 2);
                format!("{x:.1},{y:.1} ")
            };
            let path: String = (0..STEPS).step_by(5).map(middle).collect();
            svg += &format!("<polyline points='{path}' stroke='#c40' stroke-width='1.5'/>\n");
        }
        Ok(svg + "</svg>\n")
    }
}

//! A creature of masses and springs, moved by a network.
//!
//! The form that the TapeFlow study changed (the mutated form) is one time step, with strides and square roots of the
//! wrong operands; all inputs are differentiated. The textbook form is mass_spring of DiffTaichi (Hu et al., 2020): a
//! lattice in the plane, connected along edges and diagonals, above a floor. The result is the distance that the first
//! mass covers within a number of time steps.
//!
//! Size: masses, springs, hidden units; for the textbook form, columns and rows of masses, steps, hidden units.

use super::{Array, ByHand, Form, Inputs, Kernel, Sizes, iterations, noise, unit};
use tapeloom::prelude::*;

/// The kernel as the TapeFlow study changed it (the mutated form): one time step.
pub(super) const STEP: Kernel = Kernel {
    name: "mass spring",
    form: Form::Mutated,
    sizes: Sizes { test: &[6, 3, 4], study: &[128, 64, 32], large: &[4096, 2048, 1024] },
    inputs: |size| {
        let [masses, springs, hidden] = [size[0], size[1], size[2]];
        let weights = WAVES * (hidden - 1) + 4 * masses + WAVES + 2;
        let small = |n: usize| Array::of(&[n], |i| 0.1 * noise(i));
        Inputs {
            variables: vec![
                Array::of(&[reach(size)], |i| 1.0 + 0.5 * unit(i)),
                small(masses * masses + 2),
                small(weights),
                small(hidden),
                Array::of(&[springs, hidden], |i| 0.1 * noise(i)),
                small(springs),
                Array::full(&[springs], 1.0),
                Array::full(&[springs], 0.1),
            ],
            data: vec![],
            seed: Array::full(&[reach(size)], 1.0),
        }
    },
    program: |size, x, _| step(size, x),
    by_hand: step_by_hand,
};

/// The kernel as textbooks define it, without the changes of the TapeFlow study: several time steps.
pub(super) const WALK: Kernel = Kernel {
    name: "mass spring",
    form: Form::Textbook,
    sizes: Sizes { test: &[3, 2, 60, 4], study: &[16, 8, 682, 32], large: &[64, 32, 682, 32] },
    inputs: |size| {
        let (body, hidden) = (Body::of(size), size[3]);
        let weights = |shape: &[usize]| Array::of(shape, |i| 0.1 * noise(i));
        Inputs {
            variables: vec![
                weights(&[hidden, SINES + 4 * body.masses() + 2]),
                weights(&[hidden]),
                weights(&[body.springs.len(), hidden]),
                weights(&[body.springs.len()]),
            ],
            data: vec![],
            seed: Array::full(&[], 1.0),
        }
    },
    program: |size, x, _| walk(size, x),
    by_hand: walk_by_hand,
};

/// The number of weights of sine waves. All but the first are multiplied by zero, because `1 / (j + 1)` in the C
/// program of the TapeFlow study divides integers.
const WAVES: usize = 16;

fn wave(j: usize) -> f64 {
    ((1 / (j + 1)) as f64).sin()
}

/// Returns the number of positions that the TapeFlow study's version of the kernel reads: one per mass, and one behind
/// them.
fn reach(size: &[usize]) -> usize {
    (size[0] + 1).max(2 * size[1])
}

fn step(size: &[usize], variables: &[Var]) -> Var {
    let [masses, springs, hidden] = [size[0], size[1], size[2]];
    let [x, v, w1, b1, w2, b2, length, reach] = [0, 1, 2, 3, 4, 5, 6, 7].map(|k| variables[k]);
    let waves = constant((0..WAVES).map(wave).collect::<Vec<_>>());
    let units = Ref::new(zeros([hidden], Dtype::F64));
    iterations(hidden, |h| {
        let z = Ref::new(0.0);
        iterations(WAVES, |j| z.add(w1.index(j) * waves.index(j)));
        let first = (h + 1) * WAVES;
        iterations(masses, |j| {
            let w = |k: i64| w1.index(first + 4 * j + k);
            z.add(w(0) * x.index(j) * 0.05);
            z.add(w(1) * x.index(j + 1) * 0.05);
            z.add(w(2) * v.index(j * masses) * 0.05);
            z.add(w(3) * v.index(j * masses + 1) * 0.05);
        });
        let last = first + 4 * masses;
        z.add(w1.index(last) + w1.index(last + 1) + b1.index(h));
        units.at(h).set(z.get().tanh());
    });
    let force = Ref::new(x.zeros_like());
    iterations(springs, |i| {
        let z = Ref::new(b2.index(i));
        iterations(hidden, |h| z.add(w2.index((i, h)) * units.at(h).get()));
        let act = z.get().tanh();
        let (a, b) = (i, 2 * i);
        let long = (2.0 * x.index(a) * x.index(b)).sqrt() + 1e-4;
        let target = length.index(i) * (1.0 + act * reach.index(i));
        let impulse = (long - target) / long * (x.index(b) - x.index(a));
        force.at(a).add(-impulse);
        force.at(b).add(impulse);
    });
    force.get()
}

/// Computes, by hand, value and gradient of one time step as the TapeFlow study changed it. The tape is the hidden
/// units of the network and the actuation of each spring.
fn step_by_hand(size: &[usize], inputs: &Inputs) -> ByHand {
    let [masses, springs, hidden] = [size[0], size[1], size[2]];
    let [x, v, w1, b1, w2, b2, length, reach] =
        [0, 1, 2, 3, 4, 5, 6, 7].map(|k| &inputs.variables[k].numbers);
    let waves: f64 = (0..WAVES).map(|j| w1[j] * wave(j)).sum();
    // The network has four inputs for mass j: two positions and two velocities, at the wrong strides of the study's
    // program.
    let seen = |j: usize| [x[j], x[j + 1], v[j * masses], v[j * masses + 1]];
    let units: Vec<f64> = (0..hidden)
        .map(|h| {
            let (rows, last) = w1[WAVES * (h + 1)..].split_at(4 * masses);
            let of = |(j, w): (usize, &[f64])| -> f64 {
                w.iter().zip(seen(j)).map(|(w, x)| w * x).sum()
            };
            let sum: f64 = rows.chunks(4).enumerate().map(of).sum();
            (waves + 0.05 * sum + last[0] + last[1] + b1[h]).tanh()
        })
        .collect();
    let row =
        |(w, b): (&[f64], &f64)| (w.iter().zip(&units).map(|(w, y)| w * y).sum::<f64>() + b).tanh();
    let acts: Vec<f64> = w2.chunks(hidden).zip(b2).map(row).collect();
    let mut force = vec![0.0; x.len()];
    for (i, act) in acts.iter().enumerate() {
        let (a, b) = (i, 2 * i);
        let long = (2.0 * x[a] * x[b]).sqrt() + 1e-4;
        let target = length[i] * (1.0 + act * reach[i]);
        let impulse = (long - target) / long * (x[b] - x[a]);
        force[a] -= impulse;
        force[b] += impulse;
    }

    let seed = &inputs.seed.numbers;
    let [
        mut of_x,
        mut of_v,
        mut of_w1,
        mut of_b1,
        mut of_w2,
        mut of_b2,
        mut of_length,
        mut of_reach,
    ] = [x, v, w1, b1, w2, b2, length, reach].map(|x| vec![0.0; x.len()]);
    let mut of_units = vec![0.0; hidden];
    for i in 0..springs {
        let (a, b) = (i, 2 * i);
        let root = (2.0 * x[a] * x[b]).sqrt();
        let long = root + 1e-4;
        let target = length[i] * (1.0 + acts[i] * reach[i]);
        let share = 1.0 - target / long;
        let ct = seed[b] - seed[a];
        of_x[b] += ct * share;
        of_x[a] -= ct * share;
        let of_share = ct * (x[b] - x[a]);
        let of_root = of_share * target / (long * long) / root;
        of_x[a] += of_root * x[b];
        of_x[b] += of_root * x[a];
        let of_target = -of_share / long;
        of_length[i] = of_target * (1.0 + acts[i] * reach[i]);
        of_reach[i] = of_target * length[i] * acts[i];
        let of_act = of_target * length[i] * reach[i] * (1.0 - acts[i] * acts[i]);
        of_b2[i] = of_act;
        for h in 0..hidden {
            of_w2[i * hidden + h] = of_act * units[h];
            of_units[h] += of_act * w2[i * hidden + h];
        }
    }
    for h in 0..hidden {
        let ct = of_units[h] * (1.0 - units[h] * units[h]);
        of_b1[h] = ct;
        (0..WAVES).for_each(|j| of_w1[j] += ct * wave(j));
        let first = WAVES * (h + 1);
        (0..2).for_each(|k| of_w1[first + 4 * masses + k] += ct);
        let ct = 0.05 * ct;
        for j in 0..masses {
            let (w, slopes) = (&w1[first + 4 * j..][..4], &mut of_w1[first + 4 * j..][..4]);
            slopes.iter_mut().zip(seen(j)).for_each(|(slope, x)| *slope += ct * x);
            of_x[j] += ct * w[0];
            of_x[j + 1] += ct * w[1];
            of_v[j * masses] += ct * w[2];
            of_v[j * masses + 1] += ct * w[3];
        }
    }
    let gradients = vec![of_x, of_v, of_w1, of_b1, of_w2, of_b2, of_length, of_reach];
    ByHand { value: force, gradients, tape: 8 * (hidden + springs) }
}

/// The number of sines that the network reads, their angular frequency, and the target position.
const SINES: usize = 10;
const OMEGA: f64 = 10.0;
const GOAL: [f64; 2] = [0.9, 0.2];
/// The time step in seconds, the damping per second, gravity in m/s², and the height of the floor in metres.
const SECONDS: f64 = 0.004;
const DAMPING: f64 = 15.0;
const GRAVITY: f64 = -4.8;
const FLOOR: f64 = 0.1;
/// The distance between neighbouring masses in metres, the stiffness of springs, and the largest relative change of a
/// spring's rest length.
const SPACING: f64 = 0.05;
const STIFFNESS: f64 = 3000.0;
const DRIVEN: f64 = 0.1;

/// The lattice: for each spring its two masses and its rest length, and the initial positions of the masses.
struct Body {
    springs: Vec<(usize, usize, f64)>,
    start: Vec<[f64; 2]>,
}

impl Body {
    fn of(size: &[usize]) -> Body {
        let [columns, rows] = [size[0], size[1]];
        let mut springs = Vec::new();
        for row in 0..rows {
            for column in 0..columns {
                let mut join = |column_to: usize, row_to: usize, length: f64| {
                    if column_to < columns && row_to < rows {
                        let mass = |column: usize, row: usize| row * columns + column;
                        springs.push((mass(column, row), mass(column_to, row_to), length));
                    }
                };
                join(column + 1, row, SPACING);
                join(column, row + 1, SPACING);
                join(column + 1, row + 1, SPACING * 2f64.sqrt());
                join(column.wrapping_sub(1), row + 1, SPACING * 2f64.sqrt());
            }
        }
        let place = |i: usize| {
            [(i % columns) as f64 * SPACING + 0.1, (i / columns) as f64 * SPACING + FLOOR + 0.01]
        };
        Body { springs, start: (0..columns * rows).map(place).collect() }
    }

    fn masses(&self) -> usize {
        self.start.len()
    }
}

fn sine(t: f64, j: usize) -> f64 {
    (OMEGA * t * SECONDS + std::f64::consts::TAU / SINES as f64 * j as f64).sin()
}

fn walk(size: &[usize], weights: &[Var]) -> Var {
    let body = Body::of(size);
    let [w1, b1, w2, b2] = [0, 1, 2, 3].map(|k| weights[k]);
    let ends = |end: fn(&(usize, usize, f64)) -> i64| {
        constant(body.springs.iter().map(end).collect::<Vec<_>>())
    };
    let (from, to) = (ends(|s| s.0 as i64), ends(|s| s.1 as i64));
    let length = constant(body.springs.iter().map(|s| s.2).collect::<Vec<_>>());
    let start = constant(body.start.clone());
    let phases = std::f64::consts::TAU / SINES as f64 * arange(SINES, Dtype::F64);
    let step = |(t, (x, v)): (Var, (Var, Var))| {
        let sines = (OMEGA * SECONDS * t.convert(Dtype::F64) + phases).sin();
        let state = 0.05 * concat(&[x - x.mean_keepdims(0), v], 1);
        let seen = concat(&[sines, state.reshape([4 * body.masses()]), constant(GOAL)], 0);
        let act = (w2.dot((w1.dot(seen) + b1).tanh()) + b2).tanh();
        let d = x.take(from, 0) - x.take(to, 0);
        let long = d.square().sum_axis(1).sqrt() + 1e-4;
        let target = length * (1.0 + DRIVEN * act);
        let impulse = (SECONDS * STIFFNESS * (long - target) / long).expand_dims(1) * d;
        let pushed = x.zeros_like().at(from).add(-impulse).at(to).add(impulse);
        let v = (-SECONDS * DAMPING).exp() * v + constant([0.0, SECONDS * GRAVITY]) + pushed;
        // A mass that would fall through the floor within the time step stops on it.
        let (height, falls) = (x.index_axis(1, 1), v.index_axis(1, 1));
        let lands = (height + SECONDS * falls).lt(FLOOR) & falls.lt(-1e-4);
        let time = select(lands, (FLOOR - height) / select(lands, falls, -1.0), SECONDS);
        let x = x + time.expand_dims(1) * v;
        (x, select(lands.expand_dims(1), 0.0, v))
    };
    let (x, _) = fori_loop(size[2], step, (start, start.zeros_like()));
    -x.index((0, 0))
}

/// The intermediate values of a time step that the reverse pass needs in addition to the state.
struct Worked {
    seen: Vec<f64>,
    units: Vec<f64>,
    acts: Vec<f64>,
    /// The velocities before the floor stops masses.
    v: Vec<[f64; 2]>,
    /// The time, in seconds, for which each mass moves within the step.
    time: Vec<f64>,
}

type State = (Vec<[f64; 2]>, Vec<[f64; 2]>);

fn work(body: &Body, weights: [&[f64]; 4], t: usize, (x, v): &State) -> Worked {
    let [w1, b1, w2, b2] = weights;
    let n = x.len() as f64;
    let middle = [0, 1].map(|c| x.iter().map(|x| x[c]).sum::<f64>() / n);
    let mut seen: Vec<f64> = (0..SINES).map(|j| sine(t as f64, j)).collect();
    for (x, v) in x.iter().zip(v) {
        seen.extend([x[0] - middle[0], x[1] - middle[1], v[0], v[1]].map(|s| 0.05 * s));
    }
    seen.extend(GOAL);
    let layer = |w: &[f64], b: &[f64], x: &[f64]| -> Vec<f64> {
        let rows = w.chunks(x.len()).zip(b);
        rows.map(|(w, b)| (w.iter().zip(x).map(|(w, x)| w * x).sum::<f64>() + b).tanh()).collect()
    };
    let units = layer(w1, b1, &seen);
    let acts = layer(w2, b2, &units);
    let slow = (-SECONDS * DAMPING).exp();
    let mut v: Vec<[f64; 2]> =
        v.iter().map(|v| [slow * v[0], slow * v[1] + SECONDS * GRAVITY]).collect();
    for ((a, b, length), act) in body.springs.iter().zip(&acts) {
        let (d, long) = apart(x, *a, *b);
        let share = SECONDS * STIFFNESS * (long - length * (1.0 + DRIVEN * act)) / long;
        for c in 0..2 {
            v[*a][c] -= share * d[c];
            v[*b][c] += share * d[c];
        }
    }
    let time = |(x, v): (&[f64; 2], &[f64; 2])| {
        let lands = x[1] + SECONDS * v[1] < FLOOR && v[1] < -1e-4;
        if lands { (FLOOR - x[1]) / v[1] } else { SECONDS }
    };
    let time = x.iter().zip(&v).map(time).collect();
    Worked { seen, units, acts, v, time }
}

fn apart(x: &[[f64; 2]], a: usize, b: usize) -> ([f64; 2], f64) {
    let d = [0, 1].map(|c| x[a][c] - x[b][c]);
    (d, (d[0] * d[0] + d[1] * d[1]).sqrt() + 1e-4)
}

/// Computes value and gradient of the textbook form by hand; the tape is the state before each time step.
fn walk_by_hand(size: &[usize], inputs: &Inputs) -> ByHand {
    let body = Body::of(size);
    let weights = [0, 1, 2, 3].map(|k| &inputs.variables[k].numbers[..]);
    let (masses, steps) = (body.masses(), size[2]);
    let mut state = (body.start.clone(), vec![[0.0; 2]; masses]);
    let mut tape = Vec::with_capacity(steps);
    for t in 0..steps {
        let worked = work(&body, weights, t, &state);
        let moved = |((x, v), time): ((&[f64; 2], &[f64; 2]), &f64)| {
            [x[0] + time * v[0], x[1] + time * v[1]]
        };
        let x = state.0.iter().zip(&worked.v).zip(&worked.time).map(moved).collect();
        let kept = |(v, time): (&[f64; 2], &f64)| if *time == SECONDS { *v } else { [0.0; 2] };
        let v = worked.v.iter().zip(&worked.time).map(kept).collect();
        tape.push(std::mem::replace(&mut state, (x, v)));
    }
    let value = vec![-state.0[0][0]];

    let mut gradients: Vec<Vec<f64>> = weights.iter().map(|w| vec![0.0; w.len()]).collect();
    let (mut of_x, mut of_v) = (vec![[0.0; 2]; masses], vec![[0.0; 2]; masses]);
    of_x[0][0] = -inputs.seed.numbers[0];
    let slow = (-SECONDS * DAMPING).exp();
    for (t, state) in tape.iter().enumerate().rev() {
        let worked = work(&body, weights, t, state);
        let x = &state.0;
        for i in 0..masses {
            let (v, time) = (worked.v[i], worked.time[i]);
            if time == SECONDS {
                (0..2).for_each(|c| of_v[i][c] += time * of_x[i][c]);
            } else {
                let of_time = of_x[i][0] * v[0] + of_x[i][1] * v[1];
                of_v[i] = of_x[i].map(|ct| time * ct);
                of_v[i][1] -= of_time * time / v[1];
                of_x[i][1] -= of_time / v[1];
            }
        }
        let mut of_acts = vec![0.0; body.springs.len()];
        for (((a, b, length), act), of_act) in
            body.springs.iter().zip(&worked.acts).zip(&mut of_acts)
        {
            let (d, long) = apart(x, *a, *b);
            let target = length * (1.0 + DRIVEN * act);
            let share = SECONDS * STIFFNESS * (1.0 - target / long);
            let ct = [0, 1].map(|c| of_v[*b][c] - of_v[*a][c]);
            let of_share = SECONDS * STIFFNESS * (ct[0] * d[0] + ct[1] * d[1]);
            let of_long = of_share * target / (long * long) / (long - 1e-4);
            for c in 0..2 {
                let of_d = share * ct[c] + of_long * d[c];
                of_x[*a][c] += of_d;
                of_x[*b][c] -= of_d;
            }
            *of_act = -of_share / long * length * DRIVEN * (1.0 - act * act);
        }
        of_v.iter_mut().flatten().for_each(|ct| *ct *= slow);
        let [of_w1, of_b1, of_w2, of_b2] = &mut gradients[..] else { continue };
        let back = |w: &[f64], x: &[f64], ct: &[f64], of_w: &mut [f64], of_b: &mut [f64]| {
            let mut of_x = vec![0.0; x.len()];
            of_b.iter_mut().zip(ct).for_each(|(b, ct)| *b += ct);
            let rows = of_w.chunks_mut(x.len()).zip(w.chunks(x.len())).zip(ct);
            for ((of_w, w), ct) in rows {
                of_w.iter_mut().zip(x).for_each(|(of_w, x)| *of_w += ct * x);
                of_x.iter_mut().zip(w).for_each(|(of_x, w)| *of_x += ct * w);
            }
            of_x
        };
        let mut of_units = back(weights[2], &worked.units, &of_acts, of_w2, of_b2);
        of_units.iter_mut().zip(&worked.units).for_each(|(ct, y)| *ct *= 1.0 - y * y);
        let of_seen = back(weights[0], &worked.seen, &of_units, of_w1, of_b1);
        let of_state = &of_seen[SINES..][..4 * masses];
        let middle =
            [0, 1].map(|c| of_state.chunks(4).map(|ct| ct[c]).sum::<f64>() / masses as f64);
        for (i, ct) in of_state.chunks(4).enumerate() {
            for c in 0..2 {
                of_x[i][c] += 0.05 * (ct[c] - middle[c]);
                of_v[i][c] += 0.05 * ct[2 + c];
            }
        }
    }
    ByHand { value, gradients, tape: 32 * masses * steps }
}

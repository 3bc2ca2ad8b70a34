//! A block of masses, connected by springs to their neighbours.
//!
//! The form that the TapeFlow study changed (the mutated form) computes the forces, from three neighbours of each inner
//! mass and without a square root. The textbook form computes the displacement of the block after a number of time
//! steps, from six neighbours.
//!
//! Size: masses along an edge; for the textbook form, also the number of steps.

use super::{Array, ByHand, Form, Inputs, Kernel, Sizes, iterations, noise, unit};
use tapeloom::prelude::*;

/// A quarter of the stiffness of a spring, and the time step.
const STIFF: f64 = 2.5;
const STEP: f64 = 0.001;

/// The kernel as the TapeFlow study changed it (the mutated form): the forces of springs.
pub(super) const FORCES: Kernel = Kernel {
    name: "somier",
    form: Form::Mutated,
    sizes: Sizes { test: &[4], study: &[10], large: &[192] },
    // The elements of an array are ordered by component: all first components, then all second, then all third.
    inputs: |size| {
        let (masses, all) = (size[0].pow(3), places(size[0]).numbers);
        let apart = |i: usize| all[3 * (i % masses) + i / masses];
        Inputs {
            variables: vec![Array::of(&[3 * masses], apart)],
            data: vec![],
            seed: Array::of(&[3 * masses], unit),
        }
    },
    program: |size, x, _| forces(size[0], x[0]),
    by_hand: forces_by_hand,
};

/// The kernel with the memory accesses that the tables of the TapeFlow study count. The result is the forces, followed
/// by the sum of all forces. Only the sum is differentiated, because the study's program reads no cotangents of forces.
pub(super) const MEASURED: Kernel = Kernel {
    form: Form::Measured,
    inputs: |size| {
        let all = 3 * size[0].pow(3);
        let seed = Array::of(&[all + 1], |i| if i < all { 0.0 } else { 1.0 });
        Inputs { seed, ..(FORCES.inputs)(size) }
    },
    program: |size, x, _| summed(size[0], x[0]),
    by_hand: |size, inputs| {
        let all = 3 * size[0].pow(3);
        let seed = Array::full(&[all], inputs.seed.numbers[all]);
        let variables = inputs.variables.clone();
        let mut found = forces_by_hand(size, &Inputs { variables, data: vec![], seed });
        found.value.push(found.value.iter().sum());
        found
    },
    ..FORCES
};

/// The kernel as textbooks define it, without the changes of the TapeFlow study: several time steps.
pub(super) const STEPS: Kernel = Kernel {
    name: "somier",
    form: Form::Textbook,
    sizes: Sizes { test: &[4, 3], study: &[10, 20], large: &[64, 16] },
    inputs: |size| Inputs {
        variables: vec![places(size[0])],
        data: vec![Array::of(&[size[0], size[0], size[0], 3], |i| lattice(size[0], i))],
        seed: Array::full(&[], 1.0),
    },
    program: |size, x, data| displacement(x[0], data[0], size[1]),
    by_hand: displacement_by_hand,
};

fn forces(n: usize, x: Var) -> Var {
    let force = Ref::new(x.zeros_like());
    springs(n, x, |i, part| force.at(i).add(part));
    force.get()
}

/// Returns the forces followed by their sum; the forces themselves have no derivative.
fn summed(n: usize, x: Var) -> Var {
    let all = 3 * n * n * n;
    let (force, sum) = (Ref::new(zeros([all + 1], x.dtype())), Ref::new(0.0));
    springs(n, x, |i, part| {
        force.at(i).add(part.stop_gradient());
        sum.add(part);
    });
    force.at(all).set(sum.get());
    force.get()
}

/// Calls `add` with the index of a force's component and the contribution of a spring to it, for each spring.
fn springs(n: usize, x: Var, add: impl Fn(Var, Var)) {
    let (inner, masses) = (n - 2, n * n * n);
    let point = |i: Var, j: Var, k: Var| {
        for (a, b) in [(i - 1, j), (i + 1, j), (i, j - 1)] {
            let at = |i: Var, j: Var| (i * n + j) * n + k;
            let (from, to) = (at(i, j), at(a, b));
            let of = |c: usize| x.index(to + c * masses) - x.index(from + c * masses);
            let d = [0, 1, 2].map(of);
            let q = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
            let g = STIFF * (q - 1.0) / q;
            (0..3).for_each(|c| add(to + c * masses, g * d[c]));
        }
    };
    iterations(inner, |i| iterations(inner, |j| iterations(inner, |k| point(i + 1, j + 1, k + 1))));
}

fn displacement(start: Var, rest: Var, steps: usize) -> Var {
    let inner = 1..start.len() - 1;
    let cube = |x: Var, moved: [i64; 3]| {
        let range = |by: i64| {
            inner.start.strict_add_signed(by as isize)..inner.end.strict_add_signed(by as isize)
        };
        x.slice(moved.map(range))
    };
    let neighbours: [[i64; 3]; 6] =
        [[-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0], [0, 0, -1], [0, 0, 1]];
    let step = |(_, (x, v)): (Var, (Var, Var))| {
        let pull = |moved: [i64; 3]| {
            let d = cube(x, moved) - cube(x, [0; 3]);
            let length = (d * d).sum_keepdims(3).sqrt();
            STIFF * (length - 1.0) / length * d
        };
        let force = neighbours[1..].iter().fold(pull(neighbours[0]), |sum, n| sum + pull(*n));
        let v = v + STEP * force.pad(&[(1, 1), (1, 1), (1, 1), (0, 0)], 0.0);
        (x + STEP * v, v)
    };
    let (x, _) = fori_loop(steps, step, (start, start.zeros_like()));
    (x - rest).square().sum()
}

/// Returns the rest position of component `i % 3` of mass `i / 3`.
fn lattice(n: usize, i: usize) -> f64 {
    let (point, axis) = (i / 3, i % 3);
    (point / [n * n, n, 1][axis] % n) as f64
}

fn places(n: usize) -> Array {
    Array::of(&[n, n, n, 3], |i| lattice(n, i) + 0.1 * noise(i))
}

/// Returns, for each inner mass, the position of its first component in the array.
fn inner(n: usize) -> impl Iterator<Item = usize> {
    let at = move |i: usize, j: usize, k: usize| 3 * ((i * n + j) * n + k);
    (1..n - 1).flat_map(move |i| (1..n - 1).flat_map(move |j| (1..n - 1).map(move |k| at(i, j, k))))
}

/// Returns the vector between two masses and its squared length.
fn between(x: &[f64], from: usize, to: usize) -> ([f64; 3], f64) {
    let d = [0, 1, 2].map(|c| x[to + c] - x[from + c]);
    (d, dot(d, d))
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// Computes, by hand, the forces of springs as the TapeFlow study defines them, and their gradient. There is no tape:
/// springs are recomputed.
fn forces_by_hand(size: &[usize], inputs: &Inputs) -> ByHand {
    let (n, x, seed) = (size[0], &inputs.variables[0].numbers, &inputs.seed.numbers);
    let masses = n * n * n;
    let at = |p: usize, c: usize| c * masses + p / 3;
    let neighbours = |p: usize| [p - 3 * n * n, p + 3 * n * n, p - 3 * n];
    let between = |p: usize, q: usize| {
        let d = [0, 1, 2].map(|c| x[at(q, c)] - x[at(p, c)]);
        (d, dot(d, d))
    };
    let (mut force, mut slope) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    for p in inner(n) {
        for nb in neighbours(p) {
            let (d, q) = between(p, nb);
            let g = STIFF * (q - 1.0) / q;
            (0..3).for_each(|c| force[at(nb, c)] += g * d[c]);
        }
    }
    for p in inner(n) {
        for nb in neighbours(p) {
            let (d, q) = between(p, nb);
            let f = [0, 1, 2].map(|c| seed[at(nb, c)]);
            let (g, along) = (STIFF * (q - 1.0) / q, 2.0 * STIFF / (q * q) * dot(f, d));
            for c in 0..3 {
                let ct = g * f[c] + along * d[c];
                slope[at(nb, c)] += ct;
                slope[at(p, c)] -= ct;
            }
        }
    }
    ByHand { value: force, gradients: vec![slope], tape: 0 }
}

/// Computes value and gradient of the textbook form by hand; the tape is the positions before each time step.
fn displacement_by_hand(size: &[usize], inputs: &Inputs) -> ByHand {
    let [n, steps] = [size[0], size[1]];
    let (rest, seed) = (&inputs.data[0].numbers, inputs.seed.numbers[0]);
    let neighbours = |p: usize| [p - 3 * n * n, p + 3 * n * n, p - 3 * n, p + 3 * n, p - 3, p + 3];
    let mut x = inputs.variables[0].numbers.clone();
    let (mut v, mut tape) = (vec![0.0; x.len()], Vec::with_capacity(steps));
    for _ in 0..steps {
        for p in inner(n) {
            for at in neighbours(p) {
                let (d, q) = between(&x, p, at);
                let g = STEP * STIFF * (1.0 - 1.0 / q.sqrt());
                (0..3).for_each(|c| v[p + c] += g * d[c]);
            }
        }
        let next = x.iter().zip(&v).map(|(x, v)| x + STEP * v).collect();
        tape.push(std::mem::replace(&mut x, next));
    }
    let value = x.iter().zip(rest).map(|(x, r)| (x - r) * (x - r)).sum();
    let mut of_x: Vec<f64> = x.iter().zip(rest).map(|(x, r)| 2.0 * seed * (x - r)).collect();
    let mut of_v = vec![0.0; x.len()];
    for x in tape.iter().rev() {
        of_v.iter_mut().zip(&of_x).for_each(|(v, x)| *v += STEP * x);
        for p in inner(n) {
            let f = [0, 1, 2].map(|c| STEP * of_v[p + c]);
            for at in neighbours(p) {
                let (d, q) = between(x, p, at);
                let near = 1.0 / q.sqrt();
                let (g, along) = (STIFF * (1.0 - near), STIFF * near / q * dot(f, d));
                for c in 0..3 {
                    let ct = g * f[c] + along * d[c];
                    of_x[at + c] += ct;
                    of_x[p + c] -= ct;
                }
            }
        }
    }
    let tape = tape.iter().map(|x| 8 * x.len()).sum();
    ByHand { value: vec![value], gradients: vec![of_x], tape }
}

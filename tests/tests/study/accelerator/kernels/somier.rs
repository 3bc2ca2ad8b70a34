//! Forces of springs between the points of a lattice. Each interior point of 10 x 10 x 10 points is connected to three
//! neighbours, and the force law has no square root.
//!
//! ```text
//! d = X[nb] - X[p];  q = d.d;  g = K/4 (q - 1) / q;  F[nb] += g d
//! ```
//!
//! Each neighbour stores its d, nine values per point. In the reverse pass, with f the cotangent of F[nb],
//! `d' = g f + K/2 / q^2 (f.d) d` is added to X'[nb] and subtracted from X'[p].

use crate::accelerator::kernel::{At, Emit, Kernel, noise};
use tapeloom_backend::accelerator::*;

pub(crate) struct Somier {
    /// Whether the cotangents of F are loaded from memory. The accesses of the TapeFlow authors' code suggest that they
    /// are constants there.
    pub(crate) seeds: bool,
}

const N: usize = 10;

/// Returns, for every interior point, its index and those of its neighbours at (i-1), (i+1), (j-1).
fn points() -> Vec<[usize; 4]> {
    let inner = || 1..N - 1;
    let all = inner().flat_map(|i| inner().flat_map(move |j| inner().map(move |k| (i, j, k))));
    let at = |i, j, k| (i * N + j) * N + k;
    all.map(|(i, j, k)| [at(i, j, k), at(i - 1, j, k), at(i + 1, j, k), at(i, j - 1, k)]).collect()
}

/// Returns the index of component c of a point, in an array with all first components before all second ones.
fn element(c: usize, point: usize) -> usize {
    c * N * N * N + point
}

fn difference(nb: usize, p: usize, c: usize) -> f64 {
    noise(element(c, nb)) - noise(element(c, p))
}

impl Kernel for Somier {
    fn arrays(&self) -> Arrays {
        let mut arrays = Arrays::bump(Arrays::BASE, 0, 0);
        for name in ["X", "F", "X'", "F'"] {
            arrays.push(name, (3 * N * N * N) as u64, 8);
        }
        arrays
    }

    fn tape(&self) -> Tape {
        let mut tape = Tape::at(Tape::BASE);
        tape.push(9, points().len() as u64);
        tape
    }

    fn forward(&self, m: &mut Emit<'_>) {
        let [x, f] = [0, 1].map(ArrayId::from_u32);
        let mut index = Token::READY;
        for (n, [p, neighbours @ ..]) in points().into_iter().enumerate() {
            m.layer(9, false);
            for (which, nb) in neighbours.into_iter().enumerate() {
                let d = [0, 1, 2].map(|c| {
                    let (a, b) = (m.load(x, element(c, nb)), m.load(x, element(c, p)));
                    m.add(a, b)
                });
                for (c, token) in d.into_iter().enumerate() {
                    let s = 3 * which + c;
                    let at = At::tape(RegionId::from_u32(0), s, n, s);
                    m.tape_store(at, difference(nb, p, c), token);
                }
                let squares = d.map(|d| m.mul(d, d));
                let q = m.add(squares[0], squares[1]);
                let q = m.add(q, squares[2]);
                let above = m.add(q, Token::READY);
                let above = m.mul(above, Token::READY);
                let g = m.op(Opcode::Div, &[above, q]);
                for (c, d) in d.into_iter().enumerate() {
                    let force = m.mul(g, d);
                    m.accumulate(f, element(c, nb), force);
                }
            }
            m.barrier();
            m.next(&mut index);
        }
    }

    fn reverse(&self, m: &mut Emit<'_>) {
        let [x, f] = [2, 3].map(ArrayId::from_u32);
        let mut index = Token::READY;
        for (n, [p, neighbours @ ..]) in points().into_iter().enumerate().rev() {
            m.layer(9, false);
            for (which, nb) in neighbours.into_iter().enumerate().rev() {
                let d = [0, 1, 2].map(|c| {
                    let s = 3 * which + c;
                    let at = At::tape(RegionId::from_u32(0), s, n, s);
                    m.tape_load(at, difference(nb, p, c))
                });
                let seeds = [0, 1, 2].map(|c| match self.seeds {
                    true => m.load(f, element(c, nb)),
                    false => Token::READY,
                });
                let squares = d.map(|d| m.mul(d, d));
                let q = m.add(squares[0], squares[1]);
                let q = m.add(q, squares[2]);
                let inverse = m.op(Opcode::Div, &[q]);
                let above = m.add(q, Token::READY);
                let g = m.mul(above, inverse);
                let square = m.mul(inverse, inverse);
                let products = [0, 1, 2].map(|c| m.mul(seeds[c], d[c]));
                let dot = m.add(products[0], products[1]);
                let dot = m.add(dot, products[2]);
                let along = m.mul(square, dot);
                for c in 0..3 {
                    let (a, b) = (m.mul(g, seeds[c]), m.mul(along, d[c]));
                    let ct = m.add(a, b);
                    m.accumulate(x, element(c, nb), ct);
                    m.accumulate(x, element(c, p), ct);
                }
            }
            m.barrier();
            m.next(&mut index);
        }
    }
}

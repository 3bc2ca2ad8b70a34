//! Products over pairs of bodies: `u = -u / (x[i,j] - x[j,i] + 0.001)` for 256 bodies, j > i.
//!
//! In the forward pass, each pair reads both x and stores u on the tape and in memory. In the reverse pass, each pair
//! loads u, reads both x again, and adds to both cotangents. Reads of x count as tape, because the forward pass used
//! the values. One of the two x is in another row for each j: 255 lines compete for eight sets of the cache. The chain
//! through u contains the division, so in the reverse pass the loads of cotangents run far ahead of their stores, and
//! most stores to the column miss once more.

use crate::accelerator::kernel::{At, Emit, Kernel, noise};
use tapeloom_backend::accelerator::*;

pub(crate) struct Gravity;

const N: usize = 256;
/// The number of pairs in a block of unrolled code.
const UNROLLED: usize = 8;

/// Returns the pairs (i, j) of each block of unrolled code, row by row.
fn blocks() -> Vec<Vec<(usize, usize)>> {
    let row = |i: usize| (i + 1..N).map(move |j| (i, j)).collect::<Vec<_>>();
    let rows = (0..N - 1).map(row);
    rows.flat_map(|row| row.chunks(UNROLLED).map(<[_]>::to_vec).collect::<Vec<_>>()).collect()
}

fn array(n: u32) -> ArrayId {
    ArrayId::from_u32(n)
}

/// Returns the indices of the elements (i, j) and (j, i) of x, each with its tape entry in a layer, for the pair with
/// index `at` in that layer. Elements of x have tape entries because the reverse pass reads x again, which counts as
/// reading tape.
fn inputs(at: usize, (i, j): (usize, usize)) -> [(usize, At); 2] {
    [(0, i * N + j), (1, j * N + i)].map(|(which, element)| {
        let identity = EntryIdentity::Array(array(0), element as u64);
        (element, At { identity, offset: 2 * at + which })
    })
}

impl Kernel for Gravity {
    fn arrays(&self) -> Arrays {
        let mut arrays = Arrays::bump(Arrays::BASE, 0, 0);
        for (name, size) in [("x", N * N), ("u", 1), ("x'", N * N)] {
            arrays.push(name, size as u64, 8);
        }
        arrays
    }

    fn tape(&self) -> Tape {
        let mut tape = Tape::at(Tape::BASE);
        tape.push(1, (N * (N - 1) / 2) as u64);
        tape
    }

    fn forward(&self, e: &mut Emit<'_>) {
        let (mut n, mut u, mut index) = (0, Token::READY, Token::READY);
        for block in blocks() {
            e.layer(2 * block.len(), true);
            let mut loads = Vec::new();
            for (at, pair) in block.iter().enumerate() {
                for (element, at) in inputs(at, *pair) {
                    loads.push(e.load(array(0), element));
                    e.tape_store(at, noise(element), Token::READY);
                }
            }
            e.barrier();
            e.layer(block.len(), false);
            for (offset, pair) in loads.chunks(2).enumerate() {
                let difference = e.add(pair[0], pair[1]);
                let away = e.add(difference, Token::READY);
                e.tape_store(At::tape(RegionId::from_u32(0), 0, n, offset), n as f64, u);
                let negative = e.mul(u, Token::READY);
                u = e.op(Opcode::Div, &[negative, away]);
                e.store(array(1), 0, u);
                n += 1;
            }
            e.barrier();
            e.next(&mut index);
        }
    }

    fn reverse(&self, e: &mut Emit<'_>) {
        let (mut n, mut u, mut index) = (N * (N - 1) / 2, Token::READY, Token::READY);
        for block in blocks().into_iter().rev() {
            e.layer(block.len(), false);
            let mut before = Vec::new();
            for offset in (0..block.len()).rev() {
                n -= 1;
                before.push(e.tape_load(At::tape(RegionId::from_u32(0), 0, n, offset), n as f64));
            }
            e.barrier();
            e.layer(2 * block.len(), true);
            for (before, at) in before.into_iter().zip((0..block.len()).rev()) {
                let [a, b] =
                    inputs(at, block[at]).map(|(element, at)| e.tape_load(at, noise(element)));
                let difference = e.add(a, b);
                let away = e.add(difference, Token::READY);
                let factor = e.op(Opcode::Div, &[away]);
                let ct = e.mul(u, before);
                let square = e.mul(factor, factor);
                let ct = e.mul(ct, square);
                let negative = e.mul(u, Token::READY);
                u = e.op(Opcode::Div, &[negative, away]);
                let (i, j) = block[at];
                e.accumulate(array(2), i * N + j, ct);
                e.accumulate(array(2), j * N + i, ct);
            }
            e.barrier();
            e.next(&mut index);
        }
    }
}

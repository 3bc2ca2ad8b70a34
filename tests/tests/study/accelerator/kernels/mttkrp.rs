//! MTTKRP: `A[i,j] += B[i,k,l] D[l,j] C[k,j]`, loops i, k, l, j all to 8.
//!
//! A may alias B, C and D, so Enzyme stores all three factors of each innermost iteration. This makes eight accesses in
//! the forward pass (A, B, D, C, three stores to the tape, A) and thirteen in the reverse pass (three loads of the
//! tape; the cotangent of A read, reset and added to; B, C and D added to). The authors' arrays are 864 bytes apart
//! behind headers of 48 bytes, the last one only 8 bytes apart, and overlap.

use crate::accelerator::kernel::{At, Emit, Kernel, noise};
use tapeloom_backend::accelerator::*;

pub(crate) struct Mttkrp;

const N: usize = 8;

struct Ids {
    a: ArrayId,
    b: ArrayId,
    d: ArrayId,
    c: ArrayId,
}

/// Returns the indices of the elements of A, B, D and C that iteration n = (i, k, l, j) accesses.
fn elements(n: usize) -> [usize; 4] {
    let (i, k, l, j) = (n / (N * N * N), n / (N * N) % N, n / N % N, n % N);
    [i * N + j, (i * N + k) * N + l, l * N + j, k * N + j]
}

fn values(n: usize) -> [f64; 3] {
    let [_, b, d, c] = elements(n);
    [0.5 + noise(b), 0.5 + noise(1000 + d), 0.5 + noise(2000 + c)]
}

fn ids(arrays: &Arrays, from: usize) -> Ids {
    let all: Vec<ArrayId> = arrays.iter().map(|(id, _)| id).skip(from).take(4).collect();
    Ids { a: all[0], b: all[1], d: all[2], c: all[3] }
}

impl Kernel for Mttkrp {
    fn arrays(&self) -> Arrays {
        let mut arrays = Arrays::bump(Arrays::BASE, 0, 0);
        for (at, name) in ["A", "B", "D", "C", "A'", "B'", "D'", "C'"].into_iter().enumerate() {
            let elements = if at % 4 == 1 { N * N * N } else { N * N };
            let structure = if at < 7 { 864 * at as u64 } else { 864 * 6 + 8 };
            arrays.place(name, Arrays::BASE + structure + 48, elements as u64, 8);
        }
        arrays
    }

    fn tape(&self) -> Tape {
        let mut tape = Tape::at(Tape::BASE);
        tape.push(3, (N * N * N * N) as u64);
        tape
    }

    fn forward(&self, e: &mut Emit<'_>) {
        let (ids, region) = (ids(&self.arrays(), 0), RegionId::from_u32(0));
        let mut index = Token::READY;
        for block in 0..N * N * N {
            e.layer(3 * N, false);
            for j in 0..N {
                let n = block * N + j;
                let ([at_a, at_b, at_d, at_c], x) = (elements(n), values(n));
                let a = e.load(ids.a, at_a);
                let b = e.load(ids.b, at_b);
                let d = e.load(ids.d, at_d);
                let c = e.load(ids.c, at_c);
                for (s, token) in [b, d, c].into_iter().enumerate() {
                    e.tape_store(At::tape(region, s, n, 3 * j + s), x[s], token);
                }
                let bd = e.mul(b, d);
                let bdc = e.mul(bd, c);
                let sum = e.add(a, bdc);
                e.store(ids.a, at_a, sum);
            }
            e.barrier();
            e.next(&mut index);
        }
    }

    fn reverse(&self, e: &mut Emit<'_>) {
        let (ids, region) = (ids(&self.arrays(), 4), RegionId::from_u32(0));
        let mut index = Token::READY;
        for block in (0..N * N * N).rev() {
            e.layer(3 * N, false);
            for j in (0..N).rev() {
                let n = block * N + j;
                let ([at_a, at_b, at_d, at_c], x) = (elements(n), values(n));
                let [c, d, b] =
                    [2, 1, 0].map(|s| e.tape_load(At::tape(region, s, n, 3 * j + s), x[s]));
                let seed = e.take(ids.a, at_a);
                e.accumulate(ids.a, at_a, seed);
                let (product, bd) = (e.mul(seed, c), e.mul(b, d));
                let ct = e.mul(product, d);
                e.accumulate(ids.b, at_b, ct);
                let ct = e.mul(seed, bd);
                e.accumulate(ids.c, at_c, ct);
                let ct = e.mul(product, b);
                e.accumulate(ids.d, at_d, ct);
            }
            e.barrier();
            e.next(&mut index);
        }
    }
}

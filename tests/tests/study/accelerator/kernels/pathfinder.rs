//! The cheapest path through a grid, with products in place of sums:
//! `dst[t+1,n] = wall[t+1,n] min(src[t,n], src[t,n-1], src[t,n+1])`, then src and dst are swapped. 99 rows of
//! 99 cells of arrays of 100 x 100.
//!
//! Each cell stores the outcomes of its two comparisons, the minimum and the wall. In the reverse pass, the
//! cotangent of dst is read and reset, the wall's cotangent is added to, and the minimum's cotangent goes to all
//! three candidates through selections.

use crate::accelerator::kernel::{At, Emit, Kernel, noise};
use tapeloom_backend::accelerator::*;

pub(crate) struct Pathfinder;

const N: usize = 100;
const ROWS: usize = N - 1;
const CELLS: usize = N - 1;
/// The number of cells in a block of unrolled code; a row has 33 blocks.
const UNROLLED: usize = 3;

/// Returns the columns of the three cells, or two at an edge, from which a path may come to column n.
fn candidates(n: usize) -> Vec<usize> {
    let left = (n > 0).then(|| n - 1);
    let right = (n < CELLS - 1).then_some(n + 1);
    [Some(n), left, right].into_iter().flatten().collect()
}

/// Returns the four values on the tape for a cell: two comparisons, the minimum, and the wall.
fn values(t: usize, n: usize) -> [f64; 4] {
    let wall = 1.0 + 0.02 * noise((t + 1) * N + n);
    [f64::from(t as u32 % 2), f64::from(n as u32 % 2), noise(t * N + n), wall]
}

fn array(n: usize) -> ArrayId {
    ArrayId::from_u32(n as u32)
}

impl Kernel for Pathfinder {
    fn arrays(&self) -> Arrays {
        let mut arrays = Arrays::bump(Arrays::BASE, 0, 0);
        for name in ["src", "dst", "wall", "src'", "dst'", "wall'"] {
            arrays.push(name, (N * N) as u64, 8);
        }
        arrays
    }

    fn tape(&self) -> Tape {
        let mut tape = Tape::at(Tape::BASE);
        tape.push(4, (ROWS * CELLS) as u64);
        tape
    }

    fn forward(&self, m: &mut Emit<'_>) {
        let mut index = Token::READY;
        for t in 0..ROWS {
            let (src, dst, wall) = (array(t % 2), array((t + 1) % 2), array(2));
            for block in 0..CELLS / UNROLLED {
                m.layer(4 * UNROLLED, false);
                for j in 0..UNROLLED {
                    let n = block * UNROLLED + j;
                    let candidates = candidates(n);
                    let mut least = m.load(src, t * N + candidates[0]);
                    let mut outcomes = [Token::READY; 2];
                    for (which, column) in candidates[1..].iter().enumerate() {
                        let other = m.load(src, t * N + column);
                        outcomes[which] = m.op(Opcode::Compare, &[least, other]);
                        least = m.op(Opcode::Select, &[outcomes[which], least, other]);
                    }
                    let factor = m.load(wall, (t + 1) * N + n);
                    let tokens = [outcomes[0], outcomes[1], least, factor];
                    for (s, token) in tokens.into_iter().enumerate() {
                        let region = RegionId::from_u32(0);
                        let at = At::tape(region, s, t * CELLS + n, 4 * j + s);
                        m.tape_store(at, values(t, n)[s], token);
                    }
                    let product = m.mul(factor, least);
                    m.store(dst, (t + 1) * N + n, product);
                }
                m.barrier();
                m.next(&mut index);
            }
        }
    }

    fn reverse(&self, m: &mut Emit<'_>) {
        let mut index = Token::READY;
        for t in (0..ROWS).rev() {
            let (src, dst, wall) = (array(3 + t % 2), array(3 + (t + 1) % 2), array(5));
            for block in (0..CELLS / UNROLLED).rev() {
                m.layer(4 * UNROLLED, false);
                for j in (0..UNROLLED).rev() {
                    let n = block * UNROLLED + j;
                    let [factor, least, second, first] = [3, 2, 1, 0].map(|s| {
                        let at = At::tape(RegionId::from_u32(0), s, t * CELLS + n, 4 * j + s);
                        m.tape_load(at, values(t, n)[s])
                    });
                    let seed = m.take(dst, (t + 1) * N + n);
                    let ct = m.mul(seed, least);
                    m.accumulate(wall, (t + 1) * N + n, ct);
                    let ct = m.mul(seed, factor);
                    for column in candidates(n).into_iter().rev() {
                        let part = m.op(Opcode::Select, &[first, second, ct]);
                        m.accumulate(src, t * N + column, part);
                    }
                }
                m.barrier();
                m.next(&mut index);
            }
        }
    }
}

//! The sum of logarithms, which the TapeFlow paper's program computes as a product: `s *= exp(x[i] - x[0])`, 10,000
//! times.
//!
//! Each iteration stores `e = exp(..)` and the product before it. In the reverse pass, `e' = s' s` is added to the
//! cotangent of x[i] and subtracted from that of x[0], which is in a register; then `s' *= e`. Blocks have eight
//! iterations.

use crate::accelerator::kernel::{At, Emit, Kernel, noise};
use tapeloom_backend::accelerator::*;

pub(crate) struct Logsum {
    /// Whether the cotangent of x[0] is summed, in a chain of additions. An earlier implementation of the machine
    /// model, the prototype whose figures `report.rs` has, omitted this sum.
    pub(crate) first: bool,
}

const N: usize = 10_000;
const UNROLLED: usize = 8;

fn e(i: usize) -> f64 {
    (0.02 * noise(i)).exp()
}

impl Kernel for Logsum {
    fn arrays(&self) -> Arrays {
        let mut arrays = Arrays::bump(Arrays::BASE, 0, 0);
        arrays.push("x", N as u64, 8);
        arrays.push("x'", N as u64, 8);
        arrays
    }

    fn tape(&self) -> Tape {
        let mut tape = Tape::at(Tape::BASE);
        tape.push(2, N as u64);
        tape
    }

    fn forward(&self, m: &mut Emit<'_>) {
        let (x, region) = (ArrayId::from_u32(0), RegionId::from_u32(0));
        let first = m.load(x, 0);
        let (mut index, mut s, mut value) = (Token::READY, Token::READY, 1.0);
        for block in 0..N / UNROLLED {
            m.layer(2 * UNROLLED, false);
            for j in 0..UNROLLED {
                let i = block * UNROLLED + j;
                let xi = m.load(x, i);
                let difference = m.add(xi, first);
                let factor = m.op(Opcode::Exp, &[difference]);
                m.tape_store(At::tape(region, 0, i, 2 * j), e(i), factor);
                m.tape_store(At::tape(region, 1, i, 2 * j + 1), value, s);
                s = m.mul(s, factor);
                value *= e(i);
            }
            m.barrier();
            m.next(&mut index);
        }
        m.op(Opcode::Log, &[s]);
    }

    fn reverse(&self, m: &mut Emit<'_>) {
        let (x, region) = (ArrayId::from_u32(1), RegionId::from_u32(0));
        let mut products = vec![1.0];
        for i in 0..N {
            products.push(products[i] * e(i));
        }
        let (mut index, mut s, mut first) = (Token::READY, Token::READY, Token::READY);
        for block in (0..N / UNROLLED).rev() {
            m.layer(2 * UNROLLED, false);
            for j in (0..UNROLLED).rev() {
                let i = block * UNROLLED + j;
                let before = m.tape_load(At::tape(region, 1, i, 2 * j + 1), products[i]);
                let factor = m.tape_load(At::tape(region, 0, i, 2 * j), e(i));
                let ct = m.mul(s, before);
                let ct = m.mul(ct, factor);
                m.accumulate(x, i, ct);
                if self.first {
                    first = m.add(first, ct);
                }
                s = m.mul(s, factor);
            }
            m.barrier();
            m.next(&mut index);
        }
        m.accumulate(x, 0, first);
    }
}

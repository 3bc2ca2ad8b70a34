//! A layer of a network with softmax: `a[i] = b[i] + sum_j W[i,j] p[j] / 255`, ten labels of 784 pixels.
//!
//! Every product stores its pixel. In the reverse pass, `W'[i,j] += a'[i] p[j] / 255`. Blocks have 16 products.

use crate::accelerator::kernel::{At, Emit, Kernel, noise};
use tapeloom_backend::accelerator::*;

pub(crate) struct Nn {
    /// The distance in bytes between neighbouring weights. The TapeFlow authors' tables have two misses per eight
    /// weights and, with streams, where only weights miss in the reverse pass, 1,965 misses in total, as if the
    /// distance were 16.
    pub(crate) apart: u64,
}

const LABELS: usize = 10;
const PIXELS: usize = 784;
const UNROLLED: usize = 16;

fn pixel(j: usize) -> f64 {
    (255.0 * (noise(j) + 0.5)).floor() / 255.0
}

const P: u32 = 0;
const W: u32 = 1;
const B: u32 = 2;
const W_BAR: u32 = 3;
const B_BAR: u32 = 4;

fn array(n: u32) -> ArrayId {
    ArrayId::from_u32(n)
}

impl Kernel for Nn {
    fn arrays(&self) -> Arrays {
        let mut arrays = Arrays::bump(Arrays::BASE, 0, 0);
        let weights = (LABELS * PIXELS) as u64;
        arrays.push("p", PIXELS as u64, 8);
        arrays.push("W", weights, self.apart);
        arrays.push("b", LABELS as u64, 8);
        arrays.push("W'", weights, self.apart);
        arrays.push("b'", LABELS as u64, 8);
        arrays
    }

    fn tape(&self) -> Tape {
        let mut tape = Tape::at(Tape::BASE);
        tape.push(1, (LABELS * PIXELS) as u64);
        tape
    }

    fn forward(&self, m: &mut Emit<'_>) {
        let mut index = Token::READY;
        let mut activations = Vec::new();
        for i in 0..LABELS {
            let mut sum = m.load(array(B), i);
            for block in 0..PIXELS / UNROLLED {
                m.layer(UNROLLED, false);
                for offset in 0..UNROLLED {
                    let j = block * UNROLLED + offset;
                    let w = m.load(array(W), i * PIXELS + j);
                    let p = m.load(array(P), j);
                    let p = m.op(Opcode::Div, &[p]);
                    let at = At::tape(RegionId::from_u32(0), 0, i * PIXELS + j, offset);
                    m.tape_store(at, pixel(j), p);
                    let product = m.mul(w, p);
                    sum = m.add(sum, product);
                }
                m.barrier();
                m.next(&mut index);
            }
            activations.push(m.op(Opcode::Exp, &[sum]));
        }
        let total = activations.into_iter().reduce(|a, b| m.add(a, b)).unwrap();
        m.op(Opcode::Log, &[total]);
    }

    fn reverse(&self, m: &mut Emit<'_>) {
        let mut index = Token::READY;
        for i in (0..LABELS).rev() {
            for block in (0..PIXELS / UNROLLED).rev() {
                m.layer(UNROLLED, false);
                for offset in (0..UNROLLED).rev() {
                    let j = block * UNROLLED + offset;
                    let at = At::tape(RegionId::from_u32(0), 0, i * PIXELS + j, offset);
                    let p = m.tape_load(at, pixel(j));
                    let ct = m.mul(Token::READY, p);
                    m.accumulate(array(W_BAR), i * PIXELS + j, ct);
                }
                m.barrier();
                m.next(&mut index);
            }
            m.accumulate(array(B_BAR), i, Token::READY);
        }
    }
}

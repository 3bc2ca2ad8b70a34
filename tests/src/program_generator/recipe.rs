//! Random programs described as data, and the shrinking of programs that fail a test.

use super::KINDS;
use crate::Rng;
use tapeloom_ir::{ArrayType, Dtype, Shape};

/// One step of a random program, which emits a few equations: its kind, its operands, and a seed for its attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gene {
    /// The index of the kind in `KINDS`; kind 0 emits nothing.
    pub kind: u8,
    /// The operands, counted backwards: 0 is the latest value of the needed dtype, 1 the value before, and so on.
    pub operands: [u8; 2],
    /// The seed from which attributes and literals are drawn.
    pub seed: u16,
}

/// A random program as data, from which a function is built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recipe {
    /// Whether floats may be infinities, nan and numbers near poles (a wild program).
    pub wild: bool,
    /// The extents from which the shapes of parameters are drawn.
    pub extents: [usize; 3],
    /// For each parameter a dtype and a shape, as indices into tables.
    pub params: Vec<[u8; 2]>,
    /// The bodies of the functions that the program may call; each may also call earlier ones.
    pub callees: Vec<Vec<Gene>>,
    /// The body of the program.
    pub genes: Vec<Gene>,
    /// Additional results, as positions counted backwards from the latest value. Up to two values that nothing reads
    /// are results too.
    pub results: Vec<u8>,
}

/// The largest number of steps in the body of a random program, and in the body of a function that it calls.
const LENGTH: [usize; 2] = [14, 5];
/// Extents of arrays: small extents, extents near the number of vector lanes, and extents of many vectors.
const SMALL: [usize; 6] = [1, 2, 3, 4, 5, 2];
const MIDDLE: [usize; 8] = [6, 7, 8, 9, 15, 16, 17, 31];
const LARGE: [usize; 8] = [32, 33, 63, 65, 100, 127, 257, 1000];
/// Dtypes of parameters; f64 is the most frequent, because derivatives need floats.
const DTYPES: [Dtype; 12] = [
    Dtype::F64,
    Dtype::F64,
    Dtype::F64,
    Dtype::F32,
    Dtype::F32,
    Dtype::I64,
    Dtype::I64,
    Dtype::I32,
    Dtype::I32,
    Dtype::U32,
    Dtype::U64,
    Dtype::Bool,
];

impl Recipe {
    /// Draws the description of a random program from a seed.
    pub fn draw(seed: u64) -> Recipe {
        let mut rng = Rng::new(seed);
        // Mix the bits of the seed, so that neighbouring seeds give unrelated sequences.
        let mut rng = Rng::new(rng.bits() ^ seed.rotate_left(32));
        let (small, middle, large) = match rng.index(10) {
            0..6 => (3, 0, 0),
            6..8 => (2, 1, 0),
            8 => (1, 2, 0),
            _ => (2, 0, 1),
        };
        let mut extents = [1; 3];
        for (i, n) in extents.iter_mut().enumerate() {
            *n = match i {
                i if i < large => LARGE[rng.index(LARGE.len())],
                i if i < large + middle => MIDDLE[rng.index(MIDDLE.len())],
                i if i < large + middle + small => SMALL[rng.index(SMALL.len())],
                _ => 1,
            };
        }
        if rng.index(12) == 0 {
            extents[rng.index(3)] = 0;
        }
        let mut params = vec![[0, rng.bits() as u8]];
        for _ in 0..1 + rng.index(4) {
            params.push([rng.index(DTYPES.len()) as u8, rng.bits() as u8]);
        }
        let genes = |rng: &mut Rng, most: usize| -> Vec<Gene> {
            let n = 1 + rng.index(most);
            let gene = |_| Gene {
                kind: rng.index(KINDS.len()) as u8,
                // Two thirds of the operands are among the latest three values, so that programs become deep.
                operands: [(); 2].map(|()| {
                    let reach = if rng.index(3) == 0 { 16 } else { 3 };
                    rng.index(reach) as u8
                }),
                seed: rng.bits() as u16,
            };
            (0..n).map(gene).collect()
        };
        let callees = match rng.index(6) {
            0 => 2,
            1 => 1,
            _ => 0,
        };
        let callees = (0..callees).map(|_| genes(&mut rng, LENGTH[1])).collect();
        let body = genes(&mut rng, LENGTH[0]);
        let results = (0..rng.index(4)).map(|_| rng.index(20) as u8).collect();
        Recipe { wild: rng.index(3) == 0, extents, params, callees, genes: body, results }
    }

    /// Returns the largest number of elements that an array of this program may have.
    pub(super) fn most_elements(&self) -> usize {
        match self.extents.iter().max() {
            Some(n) if *n > 31 => 1024,
            Some(n) if *n > 5 => 512,
            _ => 40,
        }
    }

    /// Returns the type of a parameter, given as indices of its dtype and its shape.
    pub(super) fn parameter(&self, [dtype, shape]: [u8; 2]) -> ArrayType {
        let [a, b, c] = self.extents;
        let shapes: [&[usize]; 12] = [
            &[],
            &[a],
            &[a],
            &[b],
            &[c],
            &[a, b],
            &[b, a],
            &[a, 1],
            &[1, b],
            &[b, c],
            &[b, a, c],
            &[a, a],
        ];
        let mut shape = shapes[usize::from(shape) % shapes.len()];
        while shape.iter().product::<usize>() > self.most_elements() {
            shape = &shape[1..];
        }
        ArrayType::new(DTYPES[usize::from(dtype) % DTYPES.len()], Shape::from(shape))
    }

    /// Returns simpler versions of this program, each with some steps left out, to shrink a failing program. Versions
    /// that leave out more steps come first.
    pub fn smaller(&self) -> Vec<Recipe> {
        let mut all = Vec::new();
        let n = self.genes.len();
        let mut chunk = n.div_ceil(2);
        while chunk > 0 {
            for start in (0..n).step_by(chunk) {
                let mut next = self.clone();
                next.genes.drain(start..n.min(start + chunk));
                all.push(next);
            }
            chunk /= 2;
        }
        let mut change = |edit: &dyn Fn(&mut Recipe)| {
            let mut next = self.clone();
            edit(&mut next);
            if next != *self {
                all.push(next);
            }
        };
        for i in 0..self.callees.len() {
            // A callee is emptied and not removed, because calls name callees by index.
            change(&|r| r.callees[i].clear());
            for k in 0..self.callees[i].len() {
                change(&|r| {
                    r.callees[i].remove(k);
                });
            }
        }
        change(&|r| {
            let used = r.callees.iter().any(|c| !c.is_empty());
            if !used {
                r.callees.clear();
            }
        });
        for i in 0..self.results.len() {
            change(&|r| {
                r.results.remove(i);
            });
            change(&|r| r.results[i] = 0);
        }
        // The first parameter is not removed, because a program needs a float.
        for i in 1..self.params.len() {
            change(&|r| {
                r.params.remove(i);
            });
        }
        for i in 0..self.params.len() {
            change(&|r| r.params[i] = [0, r.params[i][1]]);
            change(&|r| r.params[i][1] = 0);
            change(&|r| r.params[i][1] = r.params[i][1].min(1));
        }
        for i in 0..3 {
            for n in [0, 1, 2, 3, self.extents[i] / 2, self.extents[i].saturating_sub(1)] {
                if n < self.extents[i] {
                    change(&|r| r.extents[i] = n);
                }
            }
        }
        for i in 0..n {
            change(&|r| r.genes[i].operands = [0, 0]);
            for k in 0..2 {
                change(&|r| r.genes[i].operands[k] = 0);
                change(&|r| r.genes[i].operands[k] = r.genes[i].operands[k].saturating_sub(1));
            }
            change(&|r| r.genes[i].seed = 0);
            change(&|r| r.genes[i].seed /= 2);
        }
        change(&|r| r.wild = false);
        all
    }
}

//! Patterns that passes look for and that random statements seldom form: copied windows, products, sums over
//! adjacent elements, sums in memory, interleaved arrays, and loop-invariant arithmetic.

use super::{Generator, Stmt, at_index, float, int, store};
use crate::loop_ir::{Address, Arg, Buffer, BufferVersion, Extent, IndexId, Place};
use tapeloom_ir::{ArrayType, Code, Dtype};

/// The number of elements of a window: a contiguous part of an array, which is copied out, modified and copied back.
const WINDOW: usize = 4;

impl Generator<'_> {
    /// Appends to `body`, at random, one of the patterns of this file.
    pub(super) fn idiom(&mut self, body: &mut Vec<Stmt>) {
        match self.r.below(6) {
            0 => self.window(body),
            1 => self.product(body),
            2 => self.in_a_row(body),
            3 => self.in_memory(body),
            4 => self.interleaved(body),
            _ => self.in_common(body),
        }
    }

    /// Returns a random array to read: one that may be written, or one that is only read.
    fn some_array(&mut self) -> BufferVersion {
        let n = self.array();
        match self.r.below(3) {
            0 => BufferVersion::first(self.inputs[0]),
            _ => self.arrays[n],
        }
    }

    /// Returns a random array that may be written.
    fn own_array(&mut self) -> BufferVersion {
        let n = self.array();
        self.arrays[n]
    }

    fn plain(&self, index: IndexId, extent: usize, body: Vec<Stmt>) -> Stmt {
        self.for_(index, Extent::Constant(extent), Vec::new(), body)
    }

    /// Generates a loop that stores elements of two arrays in turns: the remainder of the index chooses the array, the
    /// quotient the element. The index may begin at a number that the divisor does not divide.
    fn interleaved(&mut self, body: &mut Vec<Stmt>) {
        let (i, mut inside, [a, b]) =
            (self.index(), Vec::new(), [(); 2].map(|()| self.some_array()));
        let divisor = int(self.r.of(&[2, 2, 3, 4, 9]));
        let start = int(self.r.below(3) as i64);
        let x = self.code(&mut inside, Code::Add, &[Arg::Index(i), start]);
        let quotient = self.code(&mut inside, Code::Div, &[x, divisor]);
        let last = int(self.size as i64 - 1);
        let quotient = self.code(&mut inside, Code::Clamp, &[int(0), quotient, last]);
        let remainder = self.code(&mut inside, Code::Rem, &[x, divisor]);
        let first = self.code(&mut inside, Code::Lt, &[remainder, int(1)]);
        let second = self.code(&mut inside, Code::Ge, &[remainder, int(1)]);
        let at = Address { dynamic: Some(quotient), ..Address::default() };
        let y = self.load(&mut inside, a, at.clone(), Some(first));
        let z = self.load(&mut inside, b, at, Some(second));
        let chosen = self.code(&mut inside, Code::Select, &[first, y, z]);
        let (to, extent) = (self.own_array(), 1 + self.r.below(self.size));
        inside.push(store(to, at_index(i), chosen, None));
        body.push(self.plain(i, extent, inside));
    }

    /// Generates a window of an array (a contiguous part) that is copied out or computed, then modified, and copied
    /// back or elsewhere. The start of the window may be computed before or after its first use.
    fn window(&mut self, body: &mut Vec<Stmt>) {
        let place = Place::Workspace(self.k.workspace);
        self.k.workspace += 64;
        let ty = ArrayType::new(Dtype::F64, [WINDOW]);
        let window =
            BufferVersion { buffer: self.k.buffers.push(Buffer::new(ty, place)), version: 0 };
        let array = self.own_array();
        let (copied, early) = (self.r.below(2) == 0, self.r.below(2) == 0);
        let mut start = (copied || early).then(|| self.address(body, WINDOW));
        match start.clone().filter(|_| copied) {
            Some(start) => body.push(self.copied((window, Address::default()), (array, start))),
            None => {
                let (i, mut iterations, from) = (self.index(), Vec::new(), self.some_array());
                let mut at = self.address(body, WINDOW);
                at.terms.push((i, 1));
                let x = self.load(&mut iterations, from, at, None);
                let x = self.code(&mut iterations, Code::Add, &[x, float(1.0)]);
                let x = self.bounded(&mut iterations, x);
                iterations.push(store(window, at_index(i), x, None));
                body.push(self.plain(i, WINDOW, iterations));
            }
        }
        if self.r.below(2) == 0 {
            let (i, mut iterations, from) = (self.index(), Vec::new(), self.some_array());
            let mut at = self.address(body, WINDOW);
            at.terms.push((i, 1));
            let mirrored =
                Address { offset: WINDOW as i64 - 1, terms: vec![(i, -1)], dynamic: None };
            let place = if self.r.below(2) == 0 { at_index(i) } else { mirrored };
            let x = self.load(&mut iterations, from, at, None);
            let y = self.load(&mut iterations, window, place, None);
            let x = self.code(&mut iterations, Code::Sub, &[x, y]);
            let x = self.bounded(&mut iterations, x);
            iterations.push(store(window, at_index(i), x, None));
            body.push(self.plain(i, WINDOW, iterations));
        }
        if self.r.below(3) == 0 {
            start = None;
        }
        let start = start.unwrap_or_else(|| self.address(body, WINDOW));
        let to = if self.r.below(4) == 0 { self.own_array() } else { array };
        body.push(self.copied((to, start), (window, Address::default())));
    }

    /// Generates a loop that copies a window of `WINDOW` elements from `from` to `to`.
    fn copied(&mut self, to: (BufferVersion, Address), from: (BufferVersion, Address)) -> Stmt {
        let (i, mut iterations) = (self.index(), Vec::new());
        let [to, from] = [to, from].map(|(held, mut at)| {
            at.terms.push((i, 1));
            (held, at)
        });
        let x = self.load(&mut iterations, from.0, from.1, None);
        iterations.push(store(to.0, to.1, x, None));
        self.plain(i, WINDOW, iterations)
    }

    /// Generates a matrix times a vector (with a use of each row's sum), a sum of scaled rows, or an outer product.
    fn product(&mut self, body: &mut Vec<Stmt>) {
        let (m, n) = (self.r.of(&[4, 8]), self.r.of(&[8, 9]));
        // `step` is the distance between rows, which overlap since arrays are short. With distance 1, columns are
        // contiguous, too. Then a contraction adds its terms in program order, but the loop that it replaces adds them
        // in lanes. So distance 1 requires sums that are exact in any order (`contracts`).
        let step = if self.contracts { self.r.of(&[1, 2]) } else { 2 };
        if self.size < step * m + n {
            return;
        }
        let matrix = BufferVersion::first(self.inputs[0]);
        let vector = if self.r.below(4) == 0 { self.own_array() } else { matrix };
        let to = self.own_array();
        let room = |g: &mut Self, room: usize| {
            let offset = g.r.below(g.size - room + 1) as i64;
            Address { offset, ..Address::default() }
        };
        let (i, j) = (self.index(), self.index());
        let with = |mut at: Address, terms: &[(IndexId, i64)]| {
            at.terms.extend_from_slice(terms);
            at
        };
        let whole = with(room(self, step * (m - 1) + n), &[(i, step as i64), (j, 1)]);
        let row = with(room(self, n), &[(j, 1)]);
        let each = with(room(self, m), &[(i, 1)]);
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        if self.r.below(3) == 0 {
            // For a vector x and a matrix w: set y[j] = 0, then add x[i] * w[i, j] to y[j] for all rows i and columns
            // j.
            let clear = self.index();
            let mut at = row.clone();
            at.terms = vec![(clear, 1)];
            body.push(self.plain(clear, n, vec![store(to, at, float(0.0), None)]));
            let x = self.load(&mut outer, vector, each, None);
            let w = self.load(&mut inner, matrix, whole, None);
            let product = self.code(&mut inner, Code::Mul, &[x, w]);
            let y = self.load(&mut inner, to, row.clone(), None);
            let sum = self.code(&mut inner, Code::Add, &[y, product]);
            inner.push(store(to, row, sum, None));
            outer.push(self.plain(j, n, inner));
            body.push(self.plain(i, m, outer));
            return;
        }
        // Load a value before the sum is computed, and read or store it after the sum.
        let early = (self.r.below(2) == 0).then(|| {
            let from = self.some_array();
            let x = self.load(&mut outer, from, each.clone(), None);
            let x = if self.r.below(2) == 0 { self.code(&mut outer, Code::Neg, &[x]) } else { x };
            self.bounded(&mut outer, x)
        });
        let other = self.own_array();
        let stored = early.map(|x| store(other, each.clone(), x, None));
        let when = self.r.below(4);
        outer.extend(stored.clone().filter(|_| when == 0));
        let var = self.k.vars.push(Dtype::F64);
        outer.push(Stmt::Var { var, init: float(0.0) });
        let x = self.load(&mut inner, matrix, whole, None);
        let w = self.load(&mut inner, vector, row, None);
        let product = self.code(&mut inner, Code::Mul, &[x, w]);
        inner.push(Stmt::Fold { var, code: Code::Add, value: product });
        outer.push(self.plain(j, n, inner));
        outer.extend(stored.clone().filter(|_| when == 1));
        let mut sum = Arg::Var(var);
        if self.r.below(3) > 0 {
            let x = early.unwrap_or(float(2.0));
            sum = self.code(&mut outer, Code::Add, &[sum, x]);
        }
        let sum = self.bounded(&mut outer, sum);
        outer.push(store(to, each, sum, None));
        outer.extend(stored.filter(|_| when == 2));
        body.push(self.plain(i, m, outer));
    }

    /// Generates a loop whose iterations add to an element and to its neighbours.
    fn in_a_row(&mut self, body: &mut Vec<Stmt>) {
        let (i, mut iterations, to) = (self.index(), Vec::new(), self.own_array());
        let (more, down) = (1 + self.r.below(3), self.r.below(2) == 0);
        let n = self.r.of(&[1, 2, 5, self.size - more]).min(self.size - more);
        let first = if down { n as i64 - 1 } else { 0 };
        let at = |k: i64| {
            let stride = if down { -1 } else { 1 };
            Address { offset: first + k, terms: vec![(i, stride)], dynamic: None }
        };
        let from = self.some_array();
        let x = self.load(&mut iterations, from, at_index(i), None);
        for k in 0..=more as i64 {
            if self.r.below(5) == 0 {
                continue;
            }
            let y = self.load(&mut iterations, to, at(k), None);
            let code = self.r.of(&[Code::Add, Code::Sub, Code::Max]);
            let y = self.code(&mut iterations, code, &[y, x]);
            let y = self.bounded(&mut iterations, y);
            let guard = if self.r.below(8) == 0 { self.guard(&mut iterations) } else { None };
            iterations.push(store(to, at(k), y, guard));
        }
        body.push(self.plain(i, n, iterations));
    }

    /// Generates sums that are accumulated in memory: an outer loop over the terms, and an inner loop over the results.
    /// An inner iteration adds its term to one or two results. At random, each further term goes to results one element
    /// further on, and a loop before the sums stores a start value in all results.
    fn in_memory(&mut self, body: &mut Vec<Stmt>) {
        let (terms, n, each) = (self.r.of(&[2, 3]), self.r.of(&[8, 9]), 1 + self.r.below(2));
        let moved = i64::from(self.r.below(6) == 0);
        if self.size < terms + n * each {
            return;
        }
        let (i, j, to, from) = (self.index(), self.index(), self.own_array(), self.some_array());
        if self.r.below(2) == 0 {
            let (clear, all) = (self.index(), self.r.of(&[self.size, n * each]));
            let first = float(f64::from(self.r.below(3) as u32));
            body.push(self.plain(clear, all, vec![store(to, at_index(clear), first, None)]));
        }
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        let with = self.some_array();
        let w = self.load(&mut outer, with, at_index(i), None);
        let at = Address { offset: 0, terms: vec![(i, 1), (j, 1)], dynamic: None };
        let x = self.load(&mut inner, from, at, None);
        for e in 0..each as i64 {
            let mut at = Address { offset: e, terms: vec![(j, each as i64)], dynamic: None };
            at.terms.extend((moved != 0).then_some((i, moved)));
            let y = self.load(&mut inner, to, at.clone(), None);
            let term = self.code(&mut inner, Code::Mul, &[x, w]);
            let code = self.r.of(&[Code::Add, Code::Sub, Code::Max]);
            let y = self.code(&mut inner, code, &[y, term]);
            let y = self.bounded(&mut inner, y);
            inner.push(store(to, at, y, None));
        }
        outer.push(self.plain(j, n, inner));
        body.push(self.plain(i, terms, outer));
    }

    /// Generates an inner loop that computes the same values in every iteration of the outer loop, if nothing writes
    /// the arrays that the inner loop reads.
    fn in_common(&mut self, body: &mut Vec<Stmt>) {
        let (i, j) = (self.index(), self.index());
        let (m, n) = (self.r.of(&[1, 4, 6]), self.r.of(&[1, 3, self.size]));
        let [from, with, to] = [self.some_array(), self.some_array(), self.own_array()];
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        let x = self.load(&mut inner, from, at_index(j), None);
        // In programs with contractions (`contracts`) all numbers are integers, so that sums are exact in any order.
        // Division by 1 leaves them integers.
        let by = if self.contracts { float(1.0) } else { float(3.0) };
        let x = self.code(&mut inner, Code::Div, &[x, by]);
        let y = self.load(&mut inner, with, at_index(j), None);
        let z = self.code(&mut inner, Code::Add, &[x, y]);
        let z = self.bounded(&mut inner, z);
        inner.push(store(to, at_index(j), z, None));
        if self.r.below(3) == 0 {
            let (held, address) = (self.own_array(), self.address(&mut outer, 1));
            let value = self.value(Dtype::F64);
            let value = self.bounded(&mut outer, value);
            outer.push(store(held, address, value, None));
        }
        outer.push(self.plain(j, n, inner));
        body.push(self.plain(i, m, outer));
    }
}

//! Definite-write analysis: finds the outputs of which a program certainly writes all elements.
//!
//! Clearing the memory of a large result costs as much as many kernels, so it is cleared only if the program may leave
//! elements unwritten. An output is *filled* if stores without guard or dynamic address reach every element, whatever
//! the arguments, and no statement reads the output before the steps (statements of the outermost block) with these
//! stores have ended. The proof counts elements. A store in loops reaches a lattice of elements:
//!
//! ```text
//! for i0 in 4 { for i1 in 3 { store b1[i0*6 + i1*2], .. } }       offset 0, (4 times 6), (3 times 2)
//! for i2 in 4 { for i3 in 3 { store b1[i2*6 + i3*2 + 1], .. } }   offset 1, (4 times 6), (3 times 2)
//! ```
//!
//! If the outermost terms of all lattices walk the whole buffer in blocks (here of 6 elements), it is enough that the
//! lattices together mark every element of the first block. All other stores count as missing, so an output may be
//! cleared needlessly: stores in a branch, in a `while` or in a loop of run-time extent, and outputs that a callee does
//! not fill itself.

use crate::loop_ir::{
    Access, BufferId, Call, Effect, Extent, Flow, IndexId, Kernel, KernelId, Program, Stmt,
};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use tapeloom_ir::ArrayType;

/// The maximal number of elements that the proof marks for one output, in total over all block sizes that it tries.
const MOST_MARKED: u64 = 1 << 16;

/// Returns, for each result of the program, whether stores certainly write all its elements before any statement
/// reads it. Such a result need not be cleared before the run.
pub(crate) fn filled(program: &Program) -> Vec<bool> {
    kernel_filled(&program.entry, &filled_by_callees(program))
}

/// Returns, for each callee of the program and each of its results, whether the callee certainly writes all elements of
/// the result before it reads any.
pub(crate) fn filled_by_callees(program: &Program) -> PrimaryMap<KernelId, Vec<bool>> {
    let mut callees = PrimaryMap::new();
    for kernel in program.callees.values() {
        let filled = kernel_filled(kernel, &callees);
        callees.push(filled);
    }
    callees
}

fn kernel_filled(kernel: &Kernel, callees: &PrimaryMap<KernelId, Vec<bool>>) -> Vec<bool> {
    let mut s = Search {
        kernel,
        callees,
        step: 0,
        loops: Vec::new(),
        doubt: false,
        lattices: SecondaryMap::new(),
        read: SecondaryMap::new(),
        filled: SecondaryMap::new(),
    };
    let outputs = kernel.outputs();
    for (step, stmt) in kernel.body.iter().enumerate() {
        s.step = step;
        s.block(std::slice::from_ref(stmt));
    }
    let filled = |(id, ty): (BufferId, &ArrayType)| {
        let elements = ty.shape.elements() as u64;
        elements == 0 || s.filled[id] || !s.read[id] && fills(s.lattices[id].iter(), elements)
    };
    outputs.into_iter().map(filled).collect()
}

/// A lattice: the elements `offset + Σ i * stride` that a store in loops reaches. The sum is over the pairs (extent,
/// stride) in `terms`, and each `i` counts from 0 to below its extent; strides are positive and ascending.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Lattice {
    /// The index of the kernel's step (statement of its outermost block) that contains the store.
    step: usize,
    offset: i64,
    /// The loops around the store: extent and stride (in elements) of each.
    terms: Vec<(u64, u64)>,
}

impl Lattice {
    /// Returns the lattice of a store in the step (statement of the outermost block) with this index, at
    /// `offset + Σ i * stride` over the pairs (extent, stride) of `terms`; `None` if an extent is 0.
    pub(crate) fn new(step: usize, mut offset: i64, terms: Vec<(u64, i64)>) -> Option<Lattice> {
        for (extent, stride) in &terms {
            // If a stride is negative, the lowest element of the term is at the loop's last iteration: move the offset
            // there, so that all strides are positive.
            let last = i64::try_from(extent.checked_sub(1)?).ok()?;
            offset = offset.wrapping_add(last.wrapping_mul((*stride).min(0)));
        }
        let moves = |t: &(u64, i64)| t.0 > 1 && t.1 != 0;
        let mut terms: Vec<(u64, u64)> =
            terms.into_iter().filter(moves).map(|(e, s)| (e, s.unsigned_abs())).collect();
        terms.sort_by_key(|t| t.1);
        Some(Lattice { step, offset, terms })
    }

    /// If the lattice has no gaps, returns its first element and the end (the last element plus 1); otherwise `None`.
    fn range(&self) -> Option<(u64, u64)> {
        let mut length = 1_u64;
        for (extent, stride) in &self.terms {
            if *stride > length {
                return None;
            }
            length = length.checked_add(stride.checked_mul(extent - 1)?)?;
        }
        let first = u64::try_from(self.offset).ok()?;
        Some((first, first.checked_add(length)?))
    }
}

impl Lattice {
    /// Writes element indices as numbers with digits: `digits` are the strides of the digits, and the last entry is the
    /// size of the buffer. If the lattice's elements are all combinations of a range of values per digit, returns the
    /// first value and the number of values of each digit; otherwise `None`.
    fn ranges_of_digits(&self, digits: &[u64]) -> Option<Vec<(u64, u64)>> {
        let mut offset = u64::try_from(self.offset).ok()?;
        let mut terms = self.terms.iter().copied().peekable();
        // The number of values of this digit that terms with smaller strides reach by a carry out of the digit below.
        let mut carried = 1;
        let mut ranges = Vec::new();
        for (stride, next) in digits.iter().zip(&digits[1..]) {
            let values = next / stride;
            let mut extent = carried;
            while let Some((n, _)) = terms.next_if(|(_, of)| *of == stride * extent) {
                extent = extent.checked_mul(n)?;
            }
            let first = (offset % next) / stride;
            offset -= first * stride;
            if extent > values {
                // The terms of this digit reach values beyond it, so they carry into the next digit. That is a
                // combination of ranges only if they reach all values of this digit equally often.
                if first != 0 || !extent.is_multiple_of(values) {
                    return None;
                }
                carried = extent / values;
                extent = values;
            } else {
                carried = 1;
            }
            if first + extent > values {
                return None;
            }
            ranges.push((first, extent));
        }
        (terms.next().is_none() && carried == 1 && offset == 0).then_some(ranges)
    }
}

struct Search<'a> {
    kernel: &'a Kernel,
    /// For each callee, whether it certainly writes all elements of each of its results.
    callees: &'a PrimaryMap<KernelId, Vec<bool>>,
    /// The index of the kernel's step (statement of its outermost block) that is analysed now.
    step: usize,
    loops: Vec<(IndexId, usize)>,
    /// Whether the current statement is in a branch or in a loop of run-time extent. Such a statement possibly never
    /// runs, so its stores do not count as writes of elements.
    doubt: bool,
    lattices: SecondaryMap<BufferId, Vec<Lattice>>,
    read: SecondaryMap<BufferId, bool>,
    /// For each buffer, whether earlier steps (statements of the outermost block) wrote all its elements before the
    /// first step that reads it.
    filled: SecondaryMap<BufferId, bool>,
}

impl Search<'_> {
    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            let (open, doubt) = (self.loops.len(), self.doubt);
            let shape = stmt.shape();
            match shape.effect {
                Effect::Call(call) => self.call(call),
                Effect::None
                | Effect::External(_)
                | Effect::Tape(_)
                | Effect::Limit(_)
                | Effect::Lap(_) => {
                    self.accesses(stmt);
                }
            }
            if let Some(c) = shape.contract.filter(|c| c.accumulate) {
                self.read(c.out.held.buffer);
            }
            match shape.flow {
                Flow::For { index, extent: Extent::Constant(n), .. } => self.loops.push((index, n)),
                Flow::For { extent: Extent::Scalar(_), .. } | Flow::While | Flow::If => {
                    self.doubt = true;
                }
                Flow::Straight | Flow::Nest => {}
            }
            for carry in shape.carries {
                // A carry with two buffers exchanges them, so their contents are not tracked: count both as read.
                if carry.input.buffer != carry.output.buffer {
                    self.read(carry.input.buffer);
                    self.read(carry.output.buffer);
                }
            }
            stmt.blocks().into_iter().for_each(|b| self.block(b));
            self.loops.truncate(open);
            self.doubt = doubt;
        }
    }

    fn accesses(&mut self, stmt: &Stmt) {
        stmt.accesses(&mut |access| match access.write {
            true => self.store(&access),
            false => self.read(access.held.buffer),
        });
    }

    /// Notes a read of an output. If earlier steps (statements of the outermost block) have not written all its
    /// elements, the output must be cleared before the run.
    fn read(&mut self, buffer: BufferId) {
        let of = &self.kernel.buffers[buffer];
        if self.read[buffer] || self.filled[buffer] || of.place.output().is_none() {
            return;
        }
        let before = self.lattices[buffer].iter().filter(|l| l.step < self.step);
        let filled = fills(before, of.ty.shape.elements() as u64);
        self.filled[buffer] = filled;
        self.read[buffer] = !filled;
    }

    fn call(&mut self, call: &Call) {
        call.operands.iter().for_each(|v| self.read(v.held.buffer));
        for (i, view) in call.outputs.iter().enumerate() {
            match self.callees[call.callee].get(i) {
                Some(true) => self.store(&view.access(true)),
                Some(false) | None => self.read(view.held.buffer),
            }
        }
    }

    fn store(&mut self, access: &Access<'_>) {
        let address = &access.address;
        if self.doubt || address.dynamic.is_some() || access.guard.is_some() {
            return;
        }
        let around = self.loops.iter().map(|(i, extent)| (*extent, address.stride(*i)));
        let terms = around.chain(access.reach.iter().copied());
        let terms = terms.map(|(extent, stride)| (extent as u64, stride)).collect();
        let lattice = Lattice::new(self.step, address.offset, terms);
        self.lattices[access.held.buffer].extend(lattice);
    }
}

/// Returns whether ranges (first, end) together contain all elements from 0 to `elements - 1`. For example, a loop that
/// was cut into two loops stores two such ranges.
fn ranges_fill(mut ranges: Vec<(u64, u64)>, elements: u64) -> bool {
    ranges.sort_unstable();
    let grown =
        ranges.iter().fold(0, |end, (from, to)| if *from <= end { end.max(*to) } else { end });
    grown >= elements
}

/// The largest number of lattices that [`boxes_fill`] compares in pairs.
const MOST_BOXES: usize = 64;

/// Returns whether lattices that are disjoint boxes together contain all `elements` elements. For example, the inside
/// of an array and its border are such boxes:
///
/// ```text
/// for i0 in 8 { for i1 in 8 { store b1[i0*10 + i1 + 11], .. } }      rows 1..9, columns 1..9
/// for i2 in 10 { store b1[i2], .. }                                  row 0
/// for i3 in 10 { store b1[i3 + 90], .. }                             row 9
/// for i4 in 8 { store b1[i4*10 + 10], .. store b1[i4*10 + 19], .. }  rows 1..9, columns 0 and 9
/// ```
fn boxes_fill<'a>(lattices: impl Iterator<Item = &'a Lattice> + Clone, elements: u64) -> bool {
    let mut strides: Vec<u64> = lattices.clone().flat_map(|l| &l.terms).map(|t| t.1).collect();
    strides.extend([1, elements]);
    strides.sort_unstable();
    strides.dedup();
    // The strides of the digits of an element's index (in a shape, the strides of its axes). Each stride divides the
    // next.
    let mut digits: Vec<u64> = Vec::new();
    for stride in strides {
        let fits = digits.last().is_none_or(|last| stride.is_multiple_of(*last));
        digits.extend((fits && elements.is_multiple_of(stride)).then_some(stride));
    }
    let mut boxes: Vec<Vec<(u64, u64)>> = Vec::new();
    for found in lattices.take(MOST_BOXES).filter_map(|l| l.ranges_of_digits(&digits)) {
        let apart = |other: &Vec<(u64, u64)>| {
            found.iter().zip(other).any(|(a, b)| a.0 + a.1 <= b.0 || b.0 + b.1 <= a.0)
        };
        if boxes.iter().all(apart) {
            boxes.push(found);
        }
    }
    let sizes = boxes.iter().map(|b| b.iter().map(|(_, extent)| extent).product::<u64>());
    sizes.sum::<u64>() == elements
}

/// Returns whether the lattices together contain all `elements` elements of a buffer; `false` if the proof would mark
/// more than `MOST_MARKED` elements.
pub(crate) fn fills<'a>(
    lattices: impl Iterator<Item = &'a Lattice> + Clone,
    elements: u64,
) -> bool {
    if ranges_fill(lattices.clone().filter_map(Lattice::range).collect(), elements)
        || boxes_fill(lattices.clone(), elements)
    {
        return true;
    }
    let outer = |l: &Lattice| l.terms.last().filter(|t| t.0 * t.1 == elements).map(|t| t.1);
    let mut blocks: Vec<u64> = lattices.clone().filter_map(outer).collect();
    blocks.push(elements);
    // Try smaller blocks first: they need fewer marks, and a larger block is complete if a smaller one is.
    blocks.sort_unstable();
    blocks.dedup();
    let mut budget = MOST_MARKED;
    blocks.into_iter().any(|block| {
        let Ok(size) = usize::try_from(block) else { return false };
        if block > budget || !elements.is_multiple_of(block) {
            return false;
        }
        let mut marks = vec![false; size];
        for lattice in lattices.clone() {
            if let Some(first) = first_block(lattice, block, elements)
                && first.terms.iter().fold(1u64, |n, t| n.saturating_mul(t.0)) <= budget
            {
                budget -= mark(&first, &mut marks);
            }
        }
        budget = budget.saturating_sub(block);
        marks.iter().all(|m| *m)
    })
}

/// Returns the part of a lattice that lies in the first `block` elements of the buffer; `None` unless the lattice
/// repeats this part in every block.
fn first_block(lattice: &Lattice, block: u64, elements: u64) -> Option<Lattice> {
    let mut first = lattice.clone();
    if block == elements {
        return Some(first);
    }
    let (extent, stride) = first.terms.pop()?;
    if extent * stride != elements || !block.is_multiple_of(stride) {
        return None;
    }
    if stride < block {
        first.terms.push((block / stride, stride));
    }
    // The terms that remain must not reach beyond the first block.
    let reach: u64 = first.terms.iter().map(|(e, s)| (e - 1) * s).sum();
    (first.offset >= 0 && first.offset as u64 + reach < block).then_some(first)
}

/// Marks the elements of a lattice in `marks`. Returns the number of marks made.
fn mark(lattice: &Lattice, marks: &mut [bool]) -> u64 {
    let mut at = vec![lattice.offset];
    for (extent, stride) in &lattice.terms {
        at = (0..*extent).flat_map(|i| at.iter().map(move |a| a + (i * stride) as i64)).collect();
    }
    for a in &at {
        if let Some(m) = usize::try_from(*a).ok().and_then(|a| marks.get_mut(a)) {
            *m = true;
        }
    }
    at.len() as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::loop_ir::parse;

    #[track_caller]
    fn check(ty: &str, body: &str, want: bool) {
        let text = format!("program @x {{ buffer b0: {ty} output 0 {body} }}");
        let program = parse(&text, &|_| None).unwrap();
        assert_eq!(filled(&program)[0], want, "{text}");
    }

    #[test]
    fn whole_arrays_are_filled() {
        check("f64[]", "store b0[0], 1.0", true);
        check("f64[0]", "", true);
        check("f64[4,100000]", "for i0 in 400000 { store b0[i0], 1.0 }", true);
        check("f64[3,4]", "for i0 in 3 { for i1 in 4 { store b0[i0*4 + i1], 1.0 } }", true);
        check("f64[3,4]", "for i0 in 3 { for i1 in 4 { store b0[i0 + i1*3], 1.0 } }", true);
        check("f64[9]", "for i0 in 9 { store b0[i0*-1 + 8], 1.0 }", true);
        check("f64[9]", "for i0 in 9 { for i1 in 2 { store b0[i0], 1.0 } }", true);
    }

    #[test]
    fn pieces_may_fill_together() {
        // The array has more elements than the proof may mark one by one, so the two ranges must be compared by their
        // ends.
        let most = "for i0 in 7 { for i1 in 9000 { store b0[i0*9000 + i1], 1.0 } }";
        let rest = |from: usize| format!("{most} for i2 in 7000 {{ store b0[i2 + {from}], 1.0 }}");
        check("f64[70000]", &rest(63_000), true);
        check("f64[70001]", &rest(63_001), false);
        check("f64[70000]", &rest(62_999), false);
        check(
            "f64[4]",
            "for i0 in 2 { store b0[i0], 1.0 } for i1 in 2 { store b0[i1 + 2], 1.0 }",
            true,
        );
        let pair = "store b0[i0*2], 1.0 store b0[i0*2 + 1], 1.0";
        check("f64[100000,2]", &format!("for i0 in 100000 {{ {pair} }}"), true);
        let half = "for i0 in 100000 { store b0[i0*4 + 2], 1.0 store b0[i0*4 + 3], 1.0 } \
                    for i1 in 100000 { for i2 in 2 { store b0[i1*4 + i2], 1.0 } }";
        check("f64[100000,4]", half, true);
    }

    #[test]
    fn boxes_may_fill_together() {
        let inside = "for i0 in 498 { for i1 in 698 { store b0[i0*700 + i1 + 701], 1.0 } }";
        let rows =
            "for i2 in 700 { store b0[i2], 1.0 } for i3 in 700 { store b0[i3 + 349300], 1.0 }";
        let columns = "for i4 in 498 { store b0[i4*700 + 700], 1.0 store b0[i4*700 + 1399], 1.0 }";
        let all = format!("{inside} {rows} {columns}");
        check("f64[500,700]", &all, true);
        check("f64[500,701]", &all, false);
        for (text, less) in [
            ("in 498 { for", "in 497 { for"),
            ("in 698", "in 697"),
            ("i2 in 700", "i2 in 699"),
            ("i4 in 498", "i4 in 497"),
            ("i4*700 + 700", "i4*700 + 1399"),
            ("i0*700 + i1 + 701", "i0*700 + i1 + 700"),
            ("i3 + 349300", "i3"),
        ] {
            assert_eq!(all.matches(text).count(), 1, "{text}");
            check("f64[500,700]", &all.replace(text, less), false);
        }
        // The inside of the array is stored by a loop that was cut into blocks of 8 rows and a rest of 18 rows. In
        // `thick`, one loop stores the two rows of each border.
        let pieces = "for i0 in 60 { for i5 in 8 { for i1 in 698 { store b0[i0*5600 + i5*700 + i1 + 701], 1.0 } } }
            for i0 in 18 { for i1 in 698 { store b0[i0*700 + i1 + 336701], 1.0 } }";
        check("f64[500,700]", &format!("{pieces} {rows} {columns}"), true);
        let thick = "for i0 in 496 { for i1 in 698 { store b0[i0*700 + i1 + 1401], 1.0 } }
            for i2 in 1400 { store b0[i2], 1.0 } for i3 in 1400 { store b0[i3 + 348600], 1.0 }
            for i4 in 496 { store b0[i4*700 + 1400], 1.0 store b0[i4*700 + 2099], 1.0 }";
        check("f64[500,700]", thick, true);
    }

    #[test]
    fn doubt_is_not_filled() {
        check("f64[3]", "for i0 in 2 { store b0[i0], 1.0 }", false);
        check("f64[3]", "for i0 in 3 { store b0[i0], 1.0 if true }", false);
        check("f64[3]", "for i0 in 3 { store b0[(i0)], 1.0 }", false);
        check("f64[3]", "for i0 in 0 { for i1 in 3 { store b0[i1], 1.0 } }", false);
        check("f64[4]", "for i0 in 2 { for i1 in 2 { store b0[i0 + i1], 1.0 } }", false);
        check("f64[100000,2]", "for i0 in 100000 { store b0[i0*2 + 1], 1.0 }", false);
        check("f64[1]", "nest { %0: f64 = load b0[0] store b0[0], %0 }", false);
        check(
            "f64[6]",
            "for i0 in 3 { store b0[i0*2], 1.0 } for i1 in 3 { store b0[i1*2], 1.0 }",
            false,
        );
    }

    #[test]
    fn conditional_stores_are_no_definite_writes() {
        check("f64[3]", "if true { for i0 in 3 { store b0[i0], 1.0 } }", false);
        check("f64[3]", "for i0 in (3) { store b0[i0], 1.0 }", false);
        check("f64[]", "while { %0: bool = lt 1, 2 } %0 { store b0[0], 1.0 }", false);
        check("f64[]", "while { store b0[0], 1.0 } true { }", false);
        // An unconditional store follows the store that may be skipped, so the output must count as filled.
        check("f64[]", "if true { store b0[0], 1.0 } store b0[0], 1.0", true);
        check("f64[3]", "serial i1 in (3) { } for i0 in 3 { store b0[i0], 1.0 }", true);
        // If a loop carries the output in place (`b0 = b0.1`), the output must count as filled. (The contents of
        // exchanged buffers, `b0 = b1`, are not tracked.)
        let carried = |next: &str| {
            format!(
                "version b0.1 continues b0 buffer b1: f64[3] workspace 0 \
                 for i1 in 3 {{ store b0[i1], 1.0 }} serial i0 in 2 carry b0 = {next} {{ \
                 for i2 in 3 {{ store {next}[i2], 2.0 }} }}"
            )
        };
        check("f64[3]", &carried("b0.1"), true);
        // The loop over `i1` fills the output before the exchange, so it must count as filled.
        check("f64[3]", &carried("b1"), true);
        check(
            "f64[3]",
            &carried("b1").replace("in 3 { store b0[i1], 1.0", "in 2 { store b0[i1], 1.0"),
            false,
        );
    }

    #[test]
    fn callees_count_as_definite_writes() {
        for (body, want) in [
            ("for i0 in 3 { store b0[i0], 1.0 }", true),
            ("for i0 in 2 { store b0[i0], 1.0 }", false),
            ("for i0 in 3 { store b0[i0], 1.0 } nest { %0: f64 = load b0[0] }", true),
            ("nest { %0: f64 = load b0[0] } for i0 in 3 { store b0[i0], 1.0 }", false),
            ("for i0 in 3 { store b0[i0], 1.0 %0: f64 = load b0[0] }", false),
            ("if true { for i0 in 3 { store b0[i0], 1.0 } }", false),
        ] {
            let text = format!(
                "kernel k0 @f {{ buffer b0: f64[3] output 0 {body} }} \
                 program @x {{ buffer b0: f64[4,3] output 0 \
                 for i0 in 4 {{ call k0() to (b0[i0*3; 3]) frame 0 }} }}"
            );
            assert_eq!(filled(&parse(&text, &|_| None).unwrap()), [want], "{body}");
        }
    }

    #[test]
    fn contractions_that_add_do_not_fill() {
        let text = "program @x { buffer b0: f64[1] output 0 buffer b1: f64[1] input 0 \
                    contract f64 1 x 1 x 1: b0[0; 1, 1] += b1[0; 1, 1] * b1[0; 1, 1] }";
        assert_eq!(filled(&parse(text, &|_| None).unwrap()), [false]);
    }

    #[test]
    fn contractions_fill() {
        let text = "program @x { buffer b0: f64[2,3,5] output 0 buffer b1: f64[2,3,7] input 0 \
                    buffer b2: f64[7,5] input 1 \
                    contract f64 3 x 5 x 7: b0[0; 5, 1] = b1[0; 7, 1] * b2[0; 5, 1] \
                    for 2 steps 15 = 21 * 0 }";
        let program = parse(text, &|_| None).unwrap();
        assert!(filled(&program)[0]);
    }
}

//! Copy elimination for arrays: a window of an array is used in place instead of being copied out and back.
//!
//! Loops carry only the part of an array that they need, so that reverse mode saves only this part. As a result,
//! iterations copy the window out of the array, work in the copy, and copy it back:
//!
//! ```text
//! serial i0 in 9 {                               serial i0 in 9 {
//!   for i1 in 8 {                                  for i3 in 8 {
//!     %0: f64 = load b0[i0*8 + i1]                   %2: f64 = load b0[i0*8 + i3]
//!     store b2[i1], %0                               store b0[i0*8 + i3 + 8], %2
//!   }                                              }
//!   for i3 in 8 {                                }
//!     %2: f64 = load b2[i3]
//!     store b3[i3], %2                  ->
//!   }
//!   for i4 in 8 {
//!     %3: f64 = load b3[i4]
//!     store b0[i0*8 + i4 + 8], %3
//!   }
//! }
//! ```
//!
//! The copies can be removed if no other statement touches this part of the array, or memory that aliases it, between
//! the two copies. There are two exceptions. A loop that fills the window may read, in each iteration, the array
//! element that this iteration is about to overwrite. Constants that are stored over the part of the array while the
//! window is still read are stored after the last use of the window instead.

use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::analysis::dependence::disjoint;
use crate::loop_ir::shape::Loop;
use crate::loop_ir::{
    Access, Address, Arg, BufferId, BufferVersion, Carry, Expr, Extent, Flow, IndexId, Kernel,
    Place, Rewriter, Stmt, infer_parallelism, visit,
};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::analysis::interval::Interval;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "copy_elimination",
    about: "a part of an array that is copied out and back is updated in place",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Kernels(|kernel, _| copy_elimination(kernel)),
};

/// The pass skips blocks with more statements than this, because for each copy it examines all statements up to the
/// last use of the window.
const LONGEST: usize = 128;

/// Removes copies of windows in all blocks of a kernel. Returns whether a copy was removed.
fn copy_elimination(kernel: &mut Kernel) -> bool {
    let mut mentions: SecondaryMap<BufferId, usize> = SecondaryMap::new();
    visit(&kernel.body, &mut |s| s.buffers(&mut |b| mentions[b] += 1));
    let changed = kernel.rewrite(|kernel, body| block(kernel, &mentions, body));
    if changed {
        infer_parallelism(kernel);
    }
    changed
}

/// Returns how often a statement, with its nested statements, names a buffer for which the predicate `like` holds.
fn named(stmt: &Stmt, like: impl Fn(BufferId) -> bool) -> usize {
    let mut times = 0;
    let mut count = |s: &Stmt| s.buffers(&mut |b| times += usize::from(like(b)));
    visit(std::slice::from_ref(stmt), &mut count);
    times
}

/// Removes copies in a block and in its nested blocks. Returns whether a copy was removed.
fn block(kernel: &Kernel, mentions: &SecondaryMap<BufferId, usize>, body: &mut Vec<Stmt>) -> bool {
    let mut changed = false;
    for stmt in body.iter_mut() {
        stmt.blocks_mut().into_iter().for_each(|inside| changed |= block(kernel, mentions, inside));
    }
    if body.len() > LONGEST {
        return changed;
    }
    let mut at = 0;
    while at < body.len() {
        let found = Copied::of(kernel, &body[at]).and_then(|copied| {
            let users = users(body, mentions, copied.window)?;
            let merged = copied.without_copies(kernel, body, at, users);
            merged.or_else(|| {
                let later = copied.filled_later(kernel, body, users)?;
                let last = later.iter().rposition(|s| named(s, |b| b == copied.window) > 0)?;
                copied.without_copies(kernel, &later, at, (at, last))
            })
        });
        match found {
            Some(new) => {
                *body = new;
                changed = true;
                at = 0;
            }
            None => at += 1,
        }
    }
    changed
}

/// Returns the positions of the first and the last statement of a block that name a buffer; `None` if statements
/// outside of the block name the buffer, too.
fn users(
    body: &[Stmt],
    mentions: &SecondaryMap<BufferId, usize>,
    buffer: BufferId,
) -> Option<(usize, usize)> {
    let here: Vec<usize> = body.iter().map(|s| named(s, |b| b == buffer)).collect();
    if here.iter().sum::<usize>() != mentions[buffer] {
        return None;
    }
    Some((here.iter().position(|n| *n > 0)?, here.iter().rposition(|n| *n > 0)?))
}

/// A loop that copies a part of an array into a whole buffer (the window), or from the window back into the
/// array.
#[derive(Clone, PartialEq, Debug)]
struct Copied {
    window: BufferId,
    array: BufferVersion,
    /// The address of the copied part's first element in the array.
    start: Address,
    elements: usize,
    /// True if the loop copies from the window (the buffer with the copy) into the array, false if from the array into
    /// the window.
    back: bool,
}

impl Copied {
    fn of(kernel: &Kernel, stmt: &Stmt) -> Option<Copied> {
        let Loop { index, extent, carries, body, .. } = stmt.counted()?;
        let [
            Stmt::Let { value, expr: Expr::Load { held: read, address: from, guard: None } },
            Stmt::Store { held: written, address: to, value: stored, guard: None },
        ] = body
        else {
            return None;
        };
        if *stored != Arg::Scalar(*value) || !carries.is_empty() || read.buffer == written.buffer {
            return None;
        }
        let whole = |b: BufferId, address: &Address| {
            let plain = Address { terms: vec![(index, 1)], ..Address::default() };
            let of = &kernel.buffers[b];
            let own = matches!(of.place, Place::Workspace(_)) && of.ty.shape.elements() == extent;
            own && *address == plain && !kernel.kept.keys().any(|held| held.buffer == b)
        };
        let (window, held, address, back) = if whole(written.buffer, to) {
            (written.buffer, *read, from, false)
        } else if whole(read.buffer, from) {
            (read.buffer, *written, to, true)
        } else {
            return None;
        };
        if address.stride(index) != 1
            || matches!(address.dynamic, Some(Arg::Var(_)))
            || matches!(kernel.buffers[held.buffer].place, Place::Record { .. })
            || kernel.buffers[held.buffer].ty.dtype != kernel.buffers[window].ty.dtype
        {
            return None;
        }
        let mut start = address.clone();
        start.terms.retain(|(i, _)| *i != index);
        Some(Copied { window, array: held, start, elements: extent, back })
    }

    /// Returns the block without this copy, or without both copies (out of the array, and back); `None` if
    /// that would change a result.
    fn without_copies(
        &self,
        kernel: &Kernel,
        body: &[Stmt],
        at: usize,
        (first, last): (usize, usize),
    ) -> Option<Vec<Stmt>> {
        let both = || {
            let back = Copied::of(kernel, &body[last]).filter(|other| other.back);
            back.is_some_and(|back| Copied { back: false, ..back } == *self)
        };
        // `work`: the statements that use the window (the buffer with the copied part). `goes_back`: whether the
        // window's final value is copied back to the array.
        let (work, goes_back) = match self.back {
            true if last == at => (first..at, true),
            false if first == at && both() => (at + 1..last, true),
            false if first == at => (at + 1..last + 1, false),
            true | false => return None,
        };
        let ahead = self.start_computation(&body[work.clone()])?;
        let ahead: Vec<usize> = ahead.into_iter().map(|k| work.start + k).collect();
        let mut survey = Survey { kernel, copied: self, inside: Vec::new(), touched: Vec::new() };
        for k in work.clone() {
            match self.back && k == first && self.fills(&body[k]) {
                true => survey.filled(&body[k]),
                false => survey.stmt(&body[k]),
            }
        }
        let written = survey.touched.contains(&Touch::Window { write: true });
        let allowed = |touch: &Touch| match touch {
            Touch::Window { write } => goes_back || !write,
            // If the window (the copy) is never written, the array and the window stay equal, so reads of the array are
            // harmless.
            Touch::Array { write } => !write && !written,
            Touch::Opaque => false,
        };
        if !(survey.touched.iter().all(allowed) || planted(Fault::WindowMeets)) {
            return None;
        }
        let mut place = InPlace { copied: self };
        let copies = [at, if goes_back { last } else { at }];
        let rest = (work.start..body.len()).filter(|k| !copies.contains(k) && !ahead.contains(k));
        let before = (0..work.start).filter(|k| !copies.contains(k));
        let order = before.chain(ahead.iter().copied()).chain(rest);
        let moved = |k: usize| match work.contains(&k) {
            true => place.stmt(&body[k]),
            false => body[k].clone(),
        };
        Some(order.map(moved).collect())
    }

    /// Returns the positions in `work` of the statements that compute the address where the window starts. They will
    /// move ahead of `work`, so they must be arithmetic on values defined before `work`. Returns `None` if they read
    /// memory or variables, which may hold other values ahead of `work`.
    fn start_computation(&self, work: &[Stmt]) -> Option<Vec<usize>> {
        let mut wanted: Vec<Arg> = self.start.dynamic.into_iter().collect();
        let mut ahead = Vec::new();
        while let Some(arg) = wanted.pop() {
            let Arg::Scalar(value) = arg else { continue };
            let Some(at) = work.iter().position(|s| s.defined() == Some(value)) else { continue };
            let Stmt::Let { expr: Expr::Code(_, args), .. } = &work[at] else { return None };
            if args.iter().any(|a| matches!(a, Arg::Var(_))) {
                return None;
            }
            if !ahead.contains(&at) {
                ahead.push(at);
                wanted.extend(args);
            }
        }
        ahead.sort_unstable();
        Some(ahead)
    }

    /// Returns the block with stores of constants over the copied part of the array moved behind the last use of the
    /// window; `None` if any other statement touches this part of the array before the last use.
    fn filled_later(
        &self,
        kernel: &Kernel,
        body: &[Stmt],
        (first, last): (usize, usize),
    ) -> Option<Vec<Stmt>> {
        let array = self.array.buffer;
        let (mut later, mut fills) = (body.to_vec(), Vec::new());
        for k in (first + 1..=last).rev() {
            let meets = named(&body[k], |b| !disjoint(kernel, array, b)) > 0;
            let alone = writes_constants(&body[k]) && named(&body[k], |b| b != array) == 0;
            match (meets, alone) {
                (true, true) => fills.push(later.remove(k)),
                (true, false) => return None,
                (false, _) => {}
            }
        }
        let behind = last + 1 - fills.len();
        fills.into_iter().for_each(|fill| later.insert(behind, fill));
        Some(later)
    }

    /// Returns whether a loop writes the window element by element, and reads no element of this part of the array
    /// except the one that it is about to overwrite.
    fn fills(&self, stmt: &Stmt) -> bool {
        let Stmt::For { index, body, .. } = stmt else { return false };
        let (mut stored, mut fits) = (false, true);
        for stmt in body {
            fits &= stmt.shape().is_scalar() && stmt.assigned().is_none();
            stmt.accesses(&mut |a| {
                let here = a.address.dynamic.is_none() && a.address.offset == 0;
                let here = here && a.address.terms[..] == [(*index, 1)];
                if a.held.buffer == self.window {
                    fits &= a.write && here && a.guard.is_none();
                    stored = true;
                }
                fits &= !(self.is_next(*index, a.held.buffer, a.address) && (stored || a.write));
            });
        }
        fits && stored
    }

    /// Returns whether an address is the array element of which the element `index` of the window (the buffer with the
    /// copied part) is a copy.
    fn is_next(&self, index: IndexId, buffer: BufferId, address: &Address) -> bool {
        let mut start = address.clone();
        start.terms.retain(|(i, _)| *i != index);
        buffer == self.array.buffer
            && address.stride(index) == 1
            && start.behind(&self.start) == Some(0)
    }
}

/// Returns whether a statement consists of loops that only store constants.
fn writes_constants(stmt: &Stmt) -> bool {
    let shape = stmt.shape();
    match shape.flow {
        Flow::Straight => {
            let fixed = |a: &Access<'_>| a.guard.is_none() && a.address.dynamic.is_none();
            matches!(shape.operands, [Arg::Literal(_)]) && shape.element.as_ref().is_some_and(fixed)
        }
        Flow::For { extent: Extent::Constant(_), .. } | Flow::Nest => {
            shape.carries.is_empty() && shape.blocks.into_iter().flatten().all(writes_constants)
        }
        Flow::For { extent: Extent::Scalar(_), .. } | Flow::While | Flow::If => false,
    }
}

/// An access to the window or to the array's memory, between the copy of the window out of the array and the copy back.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Touch {
    Window {
        write: bool,
    },
    /// An access to the copied part of the array, to an element that may be in this part, or to memory that aliases it.
    Array {
        write: bool,
    },
    /// An access to the window as a whole (as an operand or a carry), or one that cannot be redirected into the
    /// array.
    Opaque,
}

struct Survey<'a> {
    kernel: &'a Kernel,
    copied: &'a Copied,
    /// The loops around the current statement, within the examined block, with their trip counts if these are constant.
    inside: Vec<(IndexId, Option<usize>)>,
    touched: Vec<Touch>,
}

impl Survey<'_> {
    /// Surveys a loop for which `Copied::fills` holds. Such a loop reads, in each iteration, the array element that it
    /// overwrites next, and this read is not counted as an access.
    fn filled(&mut self, stmt: &Stmt) {
        let Stmt::For { index, body, .. } = stmt else { return self.stmt(stmt) };
        let Copied { array, .. } = self.copied;
        self.inside.push((*index, stmt.counted().map(|l| l.extent)));
        for stmt in body {
            let mut next = false;
            stmt.accesses(&mut |a| {
                let meant = a.held.version == array.version;
                next |= meant && !a.write && self.copied.is_next(*index, a.held.buffer, a.address);
            });
            if !next {
                self.stmt(stmt);
            }
        }
        self.inside.pop();
    }

    fn stmt(&mut self, stmt: &Stmt) {
        let Copied { window, array, .. } = self.copied;
        let plain = stmt.shape().element.is_some();
        let mut touched = Vec::new();
        stmt.accesses(&mut |a| {
            if a.held.buffer == *window {
                let twice = a.address.dynamic.is_some() && self.copied.start.dynamic.is_some();
                touched.push(match plain && !twice {
                    true => Touch::Window { write: a.write },
                    false => Touch::Opaque,
                });
            } else if a.held.buffer == array.buffer {
                let apart = plain && a.held.version == array.version && self.is_apart(a.address);
                touched.extend((!apart).then_some(Touch::Array { write: a.write }));
            } else if !disjoint(self.kernel, array.buffer, a.held.buffer) {
                touched.push(Touch::Array { write: a.write });
            }
        });
        let carried = stmt.carries();
        for Carry { input, output } in carried {
            // A carried buffer has two names inside the loop, so it cannot be redirected.
            let met = |b: BufferId| !disjoint(self.kernel, array.buffer, b);
            touched.extend((met(input.buffer) || met(output.buffer)).then_some(Touch::Opaque));
            touched.extend(
                [input, output].iter().any(|h| h.buffer == *window).then_some(Touch::Opaque),
            );
        }
        self.touched.extend(touched);
        let index = if let Stmt::For { index, .. } = stmt { Some(*index) } else { None };
        self.inside.extend(index.map(|index| (index, stmt.counted().map(|l| l.extent))));
        for inside in stmt.blocks() {
            inside.iter().for_each(|s| self.stmt(s));
        }
        if index.is_some() {
            self.inside.pop();
        }
    }

    /// Returns whether the address of an array element is certainly outside of the copied part, in all iterations of
    /// the surrounding loops.
    fn is_apart(&self, address: &Address) -> bool {
        let of = |i: IndexId| self.inside.iter().find(|(index, _)| *index == i);
        let mut outer = address.clone();
        outer.terms.retain(|(i, _)| of(*i).is_none());
        let mut reach = Interval::number(address.offset);
        for (i, stride) in &address.terms {
            let Some((_, extent)) = of(*i) else { continue };
            let Some(extent) = extent else { return false };
            reach = reach.plus(Interval::below(*extent).times(*stride));
        }
        let start = i128::from(self.copied.start.offset);
        let meets = reach.least < start + self.copied.elements as i128 && start <= reach.most;
        outer.behind(&self.copied.start).is_some() && !meets
    }
}

/// A rewriter that redirects accesses to the window (the buffer with the copied part of an array) into the array.
struct InPlace<'a> {
    copied: &'a Copied,
}

impl Rewriter for InPlace<'_> {
    fn arg(&mut self, arg: Arg) -> Arg {
        arg
    }

    fn element(&mut self, held: BufferVersion, address: &Address) -> (BufferVersion, Address) {
        if held.buffer != self.copied.window {
            return (held, address.clone());
        }
        let start = &self.copied.start;
        let mut address = address.clone();
        address.offset = address.offset.wrapping_add(start.offset);
        address.dynamic = address.dynamic.or(start.dynamic);
        address.terms.extend(start.terms.iter().copied());
        address.terms.sort_unstable();
        (self.copied.array, address)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::copy_elimination;
    use crate::loop_ir::{eval, parse, shadow, verify};
    use tapeloom_ir::Tensor;

    /// Runs the pass, checks that results stay equal, and expects `loops` loops in the program.
    #[track_caller]
    fn check(body: &str, loops: usize) -> String {
        let text = format!(
            "program @x {{ workspace 256 buffer b0: f64[4] input 0 buffer b1: f64[16] output 0
               buffer b2: f64[4] workspace 0 buffer b3: f64[4] workspace 64
               buffer b4: f64[16] workspace 128 buffer b5: f64[16] workspace 128
               for i9 in 16 {{ store b1[i9], 0.5 }} {body} }}"
        );
        let mut program = parse(&text, &|_| None).unwrap();
        assert_eq!(verify(&program), []);
        let x = [Tensor::from([1.0, 2.0, 4.0, 8.0])];
        let want = shadow(&program, &x).unwrap();
        program.kernels_mut().for_each(|kernel| _ = copy_elimination(kernel));
        assert_eq!(verify(&program), [], "{program}");
        assert_eq!(eval(&program, &x).unwrap(), want, "{program}");
        assert_eq!(shadow(&program, &x).unwrap(), want, "{program}");
        let text = program.to_string();
        assert_eq!(text.matches(" in ").count() - 1, loops, "{text}");
        text
    }

    const OUT: &str = "for i1 in 4 { %0: f64 = load b1[i0*4 + i1] store b2[i1], %0 }";
    const BACK: &str = "for i2 in 4 { %1: f64 = load b2[i2] store b1[i0*4 + i2], %1 }";

    #[test]
    fn copies_that_are_only_read_are_removed() {
        let read = "for i3 in 4 { %2: f64 = load b2[i3*-1 + 3] %3: f64 = add %2, 1.0";
        // If `read` is stored to the next row of `b1`, the copy is removed. The copy stays if `read` is stored to the
        // row that is still read, or to elements of all rows.
        check(&format!("serial i0 in 3 {{ {OUT} {read} store b1[i0*4 + i3 + 4], %3 }} }}"), 2);
        check(&format!("serial i0 in 3 {{ {OUT} {read} store b1[i0*4 + i3], %3 }} }}"), 3);
        check(&format!("serial i0 in 3 {{ {OUT} {read} store b1[i3*5], %3 }} }}"), 3);
    }

    #[test]
    fn copies_that_are_written_back_are_removed() {
        let turn = "serial i3 in 4 { %2: f64 = load b2[i3] %3: f64 = load b2[i3*-1 + 3]
                      %4: f64 = add %2, %3 store b2[i3], %4 }";
        check(&format!("serial i0 in 4 {{ {OUT} {turn} {BACK} }}"), 2);
        // The copies stay: `reads` sees the old row after the window is written, and `later` overwrites the
        // row that was copied back.
        let reads = "for i4 in 4 { %5: f64 = load b1[i0*4 + i4] store b3[i4], %5 }";
        let later = "for i5 in 4 { %6: f64 = load b3[i5] store b1[i0*4 + i5], %6 }";
        check(&format!("serial i0 in 4 {{ {OUT} {turn} {reads} {BACK} {later} }}"), 6);
        let other = "for i2 in 4 { %1: f64 = load b2[i2] store b1[i2], %1 }";
        check(&format!("serial i0 in 4 {{ {OUT} {turn} {other} }}"), 4);
        check(&format!("serial i0 in 4 {{ {OUT} {turn} }}"), 3);
    }

    #[test]
    fn results_are_computed_in_their_destination() {
        let fill = |from: &str| {
            format!(
                "for i3 in 4 {{ %2: f64 = load b1[{from}] %3: f64 = add %2, 1.0 store b2[i3], %3 }}"
            )
        };
        check(&format!("serial i0 in 4 {{ {} {BACK} }}", fill("i0*4 + i3")), 2);
        check(&format!("serial i0 in 4 {{ {} {BACK} }}", fill("i0*4 + i3*-1 + 3")), 3);
        check(&format!("serial i0 in 3 {{ {} {BACK} }}", fill("i0*4 + i3 + 4")), 2);
    }

    #[test]
    fn reads_move_before_a_zero_fill() {
        let empty = "for i2 in 4 { store b1[i0*4 + i2], 0.0 }";
        let work = "for i3 in 4 { %2: f64 = load b2[i3*-1 + 3] store b3[i3], %2 }
            for i4 in 4 { %3: f64 = load b3[i4] store b1[i0*4 + i4 + 4], %3 }";
        let text = check(&format!("serial i0 in 3 {{ {OUT} {empty} {work} }}"), 3);
        assert!(text.contains("load b1[i0*4 + i3*-1 + 3]"), "{text}");
        // The copy of the row of `b1` to `b2` must stay if the row is read after it was filled with zeros, or if it is
        // filled with values that are not constants.
        let reads = "for i6 in 4 { %6: f64 = load b1[i0*4 + i6] store b3[i6], %6 }";
        check(&format!("serial i0 in 3 {{ {OUT} {empty} {reads} {work} }}"), 5);
        let other = "for i2 in 4 { %5: f64 = load b0[i2] store b1[i0*4 + i2], %5 }";
        check(&format!("serial i0 in 3 {{ {OUT} {other} {work} }}"), 4);
    }

    /// The copy is removed only if the address of the copied part can be computed before the first use of the copy.
    #[test]
    fn copies_to_late_addresses_stay() {
        let fill = "for i3 in 4 { %2: f64 = load b0[i3] %3: f64 = add %2, 1.0 store b2[i3], %3 }";
        let start = "%4: i64 = min i0, 3 %5: i64 = mul %4, 2";
        let back = "for i2 in 4 { %1: f64 = load b2[i2] store b1[i2 + (%5)], %1 }";
        check(&format!("serial i0 in 6 {{ {start} {fill} {back} }}"), 2);
        // Arithmetic moves ahead of the first use. A load does not, because it may read another value there.
        let text = check(&format!("serial i0 in 6 {{ {fill} {start} {back} }}"), 2);
        assert!(text.find("%5: i64").unwrap() < text.find("%2: f64").unwrap(), "{text}");
        let load = "%6: f64 = load b1[3] %7: bool = lt %6, 1.5 %4: i64 = select %7, i0, 2
          %5: i64 = min %4, 7";
        check(&format!("serial i0 in 6 {{ {load} {fill} {back} }}"), 2);
        check(&format!("serial i0 in 6 {{ {fill} {load} {back} }}"), 3);
    }

    #[test]
    fn memory_in_the_same_place_counts() {
        // `b5` is stored over the memory of `b4` while the copy of a part of `b4` is still read, so the copy
        // stays.
        let body = "for i1 in 16 { store b4[i1], 2.0 }
            for i2 in 4 { %0: f64 = load b4[i2 + 4] store b2[i2], %0 }
            for i3 in 16 { store b5[i3], 3.0 }
            for i4 in 4 { %1: f64 = load b2[i4] %2: f64 = load b5[i4] %3: f64 = add %1, %2
              store b1[i4], %3 }";
        check(body, 4);
    }
}

//! Index-set splitting (Griebl, Feautrier, Lengauer, 2000): loops are cut where a guard changes its value.
//!
//! If a concatenation or a padding is fused into the loop that reads it, the loop gets guards: `i < 64` selects the
//! operand of an element. Such a guard changes at one index. The loop is cut there into ranges, so that in each
//! range the guard is constant and the load is unconditional:
//!
//! ```text
//! for i0 in 100 {                          for i1 in 64 {
//!   %0: bool = lt i0, 64                     %4: f64 = load b0[i1]
//!   %1: f64 = load b0[i0] if %0              store b2[i1], %4
//!   %2: f64 = load b1[i0 - 64] if not %0   }
//!   %3: f64 = select %0, %1, %2            for i2 in 36 {
//!   store b2[i0], %3                         %5: f64 = load b1[i2]
//! }                                          store b2[i2 + 64], %5
//!                                          }
//! ```

use super::pass::{Choice, Invariant, Pass, Run};
use crate::loop_ir::analysis::constants::fold;
use crate::loop_ir::dead_code::drop_unread;
use crate::loop_ir::shape::Loop;
use crate::loop_ir::{
    Address, Arg, Buffer, BufferVersion, Carry, Expr, Extent, IndexId, Kernel, Parallelism, Place,
    Program, Rewriter, ScalarId, Stmt, VarId, visit,
};
use crate::machine::MachineModel;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{Code, Dtype, Literal, Problem};

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "index_set_split",
    about: "loops are split where their guards change; tiny loops are unrolled on request",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Program(|program, context| {
        let tiny = (context.choice == Choice::WriteOut).then_some(context.machine);
        index_set_split(program, tiny)
    }),
};

/// The largest number of ranges that a loop is cut into.
const MOST_RANGES: usize = 16;
/// The largest number of statements of all ranges of a loop together.
const MOST_STATEMENTS: usize = 4_000;

/// Splits every loop of a program at the constants that its guards compare its index with. If `tiny` holds a machine
/// model, tiny loops inside loops are also unrolled fully: then elements of small arrays have constant addresses, and
/// can be promoted to registers. Returns whether the program changed.
///
/// # Errors
/// In a debug build [`Kind::Internal`](tapeloom_ir::Kind::Internal), if a guard is not constant in one of the
/// ranges: the loop was cut in the wrong place.
fn index_set_split(program: &mut Program, tiny: Option<MachineModel>) -> Result<bool, Problem> {
    let mut changed = false;
    for kernel in program.kernels_mut() {
        for step in std::mem::take(&mut kernel.body) {
            // Reports refer to top-level statements by position, so the replacement must be one statement (a nest).
            changed |= !step.is_nested();
            let origins = step.own_origins();
            let parts = block(kernel, vec![step], tiny, false, &mut changed)?;
            kernel.body.push(Stmt::nest(parts, origins));
        }
    }
    Ok(changed)
}

/// Returns the statements with their loops split, inner loops first. Sets `changed` if a loop was split.
fn block(
    program: &mut Kernel,
    body: Vec<Stmt>,
    tiny: Option<MachineModel>,
    within: bool,
    changed: &mut bool,
) -> Result<Vec<Stmt>, Problem> {
    let mut out = Vec::with_capacity(body.len());
    for mut stmt in body {
        let looped = within || stmt.shape().flow.is_loop();
        for inside in stmt.blocks_mut() {
            *inside = block(program, std::mem::take(inside), tiny, looped, changed)?;
        }
        // Three kinds of loops are not split. Two loops with the carries of one would exchange the carried buffers once
        // too often. Two vectorized loops would combine partial sums in another order. A tape cursor (a position on a
        // dynamic tape) may move only inside a loop and once in a block, while a range of one iteration becomes code
        // without a loop.
        let one = |l: &Loop<'_>| l.lanes == 1 && l.carries.is_empty() && !moves_cursor(l.body);
        let Some(found) = stmt.counted().filter(one) else {
            out.push(stmt);
            continue;
        };
        let Loop { index, extent, body, .. } = found;
        let machine = tiny.filter(|_| within);
        let cuts = match machine.is_some_and(|m| is_tiny(program, &m, found)) {
            true => (1..extent).collect(),
            false => breakpoints(body, index, extent),
        };
        let ranges = cuts.len() + 1;
        if cuts.is_empty()
            || ranges > MOST_RANGES
            || size(body).saturating_mul(ranges) > MOST_STATEMENTS
        {
            out.push(stmt);
            continue;
        }
        *changed = true;
        let ends = cuts.iter().copied().chain([extent]);
        let mut start = 0;
        for end in ends {
            let range = Range { start: start as i64, by: 1, iterations: (end - start) as i64 };
            let undecided = copies(program, found, None, &[range], &mut out);
            if cfg!(debug_assertions) && undecided {
                let message =
                    format!("kernel::split: a guard of {index} changes within {start}..{end}");
                return Err(Problem::internal(message));
            }
            start = end;
        }
    }
    Ok(out)
}

/// Returns whether to unroll a loop fully. It must have at most `written_out_iterations` iterations and, unrolled, at
/// most `written_out_statements` statements, and its index alone must address the elements of a small workspace array.
/// A loop is not tiny if it applies a library function to more than `unrolled_calls` elements.
fn is_tiny(k: &Kernel, machine: &MachineModel, found: Loop<'_>) -> bool {
    let Loop { index, extent, parallelism, body, .. } = found;
    let small = extent <= machine.written_out_iterations
        && size(body).saturating_mul(extent) <= machine.written_out_statements;
    // Leave folds alone: the pass `vectorize` decides how a fold is split into partial values.
    if !small || parallelism == Parallelism::Fold {
        return false;
    }
    let (mut found, mut in_vectors) = (false, false);
    visit(body, &mut |stmt| {
        let shape = stmt.shape();
        if let (Some(code), Some(value)) = (shape.code, shape.defines) {
            in_vectors |= machine.calls_in_vectors(&code, k.scalars[value], extent);
        }
        stmt.accesses(&mut |a| {
            let Buffer { ty, place, .. } = &k.buffers[a.held.buffer];
            let own = matches!(place, Place::Workspace(_))
                && ty.shape.elements() <= machine.written_out_elements;
            let alone = matches!(a.address.terms[..], [(i, _)] if i == index);
            found |= own && alone && a.address.dynamic.is_none();
        });
    });
    found && !in_vectors
}

/// Returns whether a block moves a tape cursor to another record (the residuals of one iteration).
pub(super) fn moves_cursor(body: &[Stmt]) -> bool {
    let mut found = false;
    visit(body, &mut |s| found |= s.moved_cursor().is_some());
    found
}

/// Returns the number of statements in a block, nested ones included.
pub(super) fn size(body: &[Stmt]) -> usize {
    let mut n = 0;
    visit(body, &mut |_| n += 1);
    n
}

/// Returns the indices at which a comparison of `index` with a constant changes its value: ascending, without 0 and
/// `extent`.
fn breakpoints(body: &[Stmt], index: IndexId, extent: usize) -> Vec<usize> {
    let mut cuts: Vec<i64> = Vec::new();
    visit(body, &mut |stmt| {
        let Stmt::Let { expr: Expr::Code(code, args), .. } = stmt else { return };
        let (Some(constant), true) = (compared(args, index), code.compares()) else { return };
        // A comparison can change its value at the constant and right after it.
        let changes = |at: &i64| {
            let before = at.saturating_sub(1);
            at_index(code, args, index, before) != at_index(code, args, index, *at)
        };
        let early = i64::from(planted(Fault::SplitPoint));
        let places = [constant, constant.saturating_add(1)];
        cuts.extend(places.iter().filter(|at| changes(at)).map(|at| at - early));
    });
    let mut cuts: Vec<usize> = cuts
        .into_iter()
        .filter_map(|c| usize::try_from(c).ok())
        .filter(|c| *c > 0 && *c < extent)
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Returns the constant that the index is compared with, if `args` are the index and a constant; otherwise `None`.
fn compared(args: &[Arg], index: IndexId) -> Option<i64> {
    match args {
        [Arg::Index(i), Arg::Literal(c)] | [Arg::Literal(c), Arg::Index(i)] if *i == index => {
            Some(c.bits as i64)
        }
        _ => None,
    }
}

/// Evaluates a code whose operands are constants and `index`, where `index` has the value `i`; `None` if it has other
/// operands.
fn at_index(code: &Code, args: &[Arg], index: IndexId, i: i64) -> Option<Literal> {
    let number = |a: &Arg| match a {
        Arg::Index(k) if *k == index => Some(Literal::i64(i)),
        Arg::Literal(l) => Some(*l),
        Arg::Scalar(_) | Arg::Var(_) | Arg::Index(_) => None,
    };
    let numbers: Option<Vec<Literal>> = args.iter().map(number).collect();
    Some(code.eval(&numbers?))
}

/// A range of iterations, in which the index of the original loop is `start`, `start + by`, ...
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) start: i64,
    pub(super) by: i64,
    pub(super) iterations: i64,
}

impl Range {
    fn last(self) -> i64 {
        self.start + self.by * (self.iterations - 1)
    }
}

/// Appends copies of the body of the loop `outer` to `out`, one for each range, with constants folded. All ranges have
/// the same number of iterations. The copies stand in one loop with this number of iterations, or in no loop if there
/// is one iteration and no carry. If `jammed` is the position of an inner loop, the iterations must be independent, and
/// the copies of the inner loop become one inner loop. Returns true if a comparison of the index with a constant has
/// different values within a range.
pub(super) fn copies(
    program: &mut Kernel,
    outer: Loop<'_>,
    jammed: Option<usize>,
    ranges: &[Range],
    out: &mut Vec<Stmt>,
) -> bool {
    let Some(iterations) = ranges.first().map(|range| range.iterations) else { return false };
    let inner = (iterations > 1 || !outer.carries.is_empty()).then(|| program.fresh_index());
    let (before, rest) = outer.body.split_at(jammed.unwrap_or(outer.body.len()));
    let jammed = rest.first().and_then(Stmt::counted).map(|own| (own, program.fresh_index()));
    let (mut all, mut together, mut behind) = (Vec::new(), Vec::new(), Vec::new());
    let mut undecided = false;
    for (n, range) in ranges.iter().enumerate() {
        let mut copy = Copy::of(program, outer.index, *range, inner.filter(|_| iterations > 1));
        // Each copy continues with the carried buffers of the copy before it.
        copy.handed = if n > 0 { outer.carries } else { &[] };
        copy.count(&mut all);
        copy.append(before, &mut all);
        if let Some((own, shared)) = jammed {
            copy.indices[own.index] = Some(shared);
            copy.append(own.body, &mut together);
            copy.append(&rest[1..], &mut behind);
        }
        undecided |= copy.undecided;
    }
    if let Some((own, shared)) = jammed {
        wrap_in_loop(
            Some(shared),
            &Loop { extent: own.extent, carries: &[], ..own },
            together,
            &mut all,
        );
    }
    all.append(&mut behind);
    drop_unread(&mut all, &|_| true);
    wrap_in_loop(inner, &Loop { extent: iterations as usize, ..outer }, all, out);
    undecided
}

/// Appends a loop like `like` around `body` to `out`, with index `index` and without lanes. If `index` is `None`,
/// appends `body` itself.
fn wrap_in_loop(index: Option<IndexId>, like: &Loop<'_>, body: Vec<Stmt>, out: &mut Vec<Stmt>) {
    let Some(index) = index else { return out.extend(body) };
    out.push(Stmt::For {
        index,
        extent: Extent::Constant(like.extent),
        parallelism: like.parallelism,
        lanes: 1,
        carries: like.carries.to_vec(),
        body,
        origins: like.origins.clone(),
    });
}

/// A rewriter that copies a loop's body for a range of iterations.
struct Copy<'a> {
    program: &'a mut Kernel,
    /// The index of the original loop.
    index: IndexId,
    range: Range,
    /// The index of the new loop; `None` if there is only one iteration.
    inner: Option<IndexId>,
    /// The value of the original index in the copy.
    number: Arg,
    /// The carries of the original loop, if an earlier copy has already exchanged their buffers in this iteration;
    /// otherwise empty.
    handed: &'a [Carry],
    scalars: SecondaryMap<ScalarId, Option<Arg>>,
    vars: SecondaryMap<VarId, Option<VarId>>,
    indices: SecondaryMap<IndexId, Option<IndexId>>,
    /// Whether a comparison of the index with a constant is not constant in this range.
    undecided: bool,
}

impl<'a> Copy<'a> {
    fn of(program: &'a mut Kernel, index: IndexId, range: Range, inner: Option<IndexId>) -> Self {
        Copy {
            program,
            index,
            range,
            inner,
            number: Arg::Literal(Literal::i64(range.start)),
            handed: &[],
            scalars: SecondaryMap::new(),
            vars: SecondaryMap::new(),
            indices: SecondaryMap::new(),
            undecided: false,
        }
    }

    /// Emits the computation of the original index from the new one, for uses outside of addresses. Dead-code
    /// elimination removes it if there are no such uses.
    fn count(&mut self, out: &mut Vec<Stmt>) {
        let Some(inner) = self.inner else { return };
        self.number = Arg::Index(inner);
        let Range { start, by, .. } = self.range;
        for (code, number, neutral) in [(Code::Mul, by, 1), (Code::Add, start, 0)] {
            if number != neutral {
                let value = self.program.scalars.push(Dtype::I64);
                let args = vec![self.number, Arg::Literal(Literal::i64(number))];
                out.push(Stmt::Let { value, expr: Expr::Code(code, args) });
                self.number = Arg::Scalar(value);
            }
        }
    }

    /// Returns the value of a code on the index and constants, if it is the same in the whole range; otherwise `None`.
    fn decide(&mut self, code: &Code, args: &[Arg]) -> Option<Literal> {
        let at = |i: i64| at_index(code, args, self.index, i);
        let (first, last) = (at(self.range.start)?, at(self.range.last())?);
        // A comparison with a constant changes only at that constant, so it is enough to test the ends and the
        // constant.
        let comparison = code.compares();
        let between = compared(args, self.index)
            .filter(|at| (self.range.start..=self.range.last()).contains(at));
        let same = first == last
            && (comparison || self.range.iterations == 1)
            && between.is_none_or(|constant| at(constant) == Some(first));
        self.undecided |= comparison && !same;
        same.then_some(first)
    }

    fn append(&mut self, body: &[Stmt], out: &mut Vec<Stmt>) {
        for stmt in body {
            if let Stmt::Let { value, expr } = stmt
                && let Some(known) = self.known(*value, expr)
            {
                self.scalars[*value] = Some(known);
                continue;
            }
            if let Stmt::If { condition, then, otherwise, .. } = stmt
                && let Arg::Literal(known) = self.arg(*condition)
            {
                self.append(if known.bits != 0 { then } else { otherwise }, out);
                continue;
            }
            let mut stmt = self.stmt(stmt);
            if let Some(element) = stmt.shape_mut().element
                && let Some(Arg::Literal(known)) = *element.guard
            {
                if known.bits == 0 {
                    // A store whose guard is false never happens. (A load with a false guard was replaced by 0 above.)
                    continue;
                }
                *element.guard = None;
            }
            out.push(stmt);
        }
    }

    /// Returns the operand or constant that a value equals in this range, if no statement is needed to compute it.
    fn known(&mut self, value: ScalarId, expr: &Expr) -> Option<Arg> {
        match expr {
            Expr::Code(code, args) => {
                let decided = self.decide(code, args).map(Arg::Literal);
                decided.or_else(|| {
                    let args: Vec<Arg> = args.iter().map(|a| self.arg(*a)).collect();
                    fold(*code, &args)
                })
            }
            Expr::Load { guard, .. } => match self.arg((*guard)?) {
                Arg::Literal(no) if no.bits == 0 => {
                    Some(Arg::Literal(Literal::zero(self.program.scalars[value])))
                }
                Arg::Literal(_) | Arg::Scalar(_) | Arg::Var(_) | Arg::Index(_) => None,
            },
        }
    }
}

impl Rewriter for Copy<'_> {
    fn arg(&mut self, a: Arg) -> Arg {
        match a {
            Arg::Scalar(s) => self.scalars[s].unwrap_or(a),
            Arg::Var(v) => Arg::Var(self.vars[v].unwrap_or(v)),
            Arg::Index(i) if i == self.index => self.number,
            Arg::Index(i) => Arg::Index(self.indices[i].unwrap_or(i)),
            Arg::Literal(_) => a,
        }
    }

    fn element(&mut self, held: BufferVersion, address: &Address) -> (BufferVersion, Address) {
        let mut out = Address {
            offset: address.offset,
            terms: Vec::new(),
            dynamic: address.dynamic.map(|a| self.arg(a)),
        };
        for (i, stride) in &address.terms {
            if *i == self.index {
                out.offset = out.offset.wrapping_add(self.range.start.wrapping_mul(*stride));
                let by = stride.wrapping_mul(self.range.by);
                out.terms.extend(self.inner.map(|inner| (inner, by)));
            } else {
                out.terms.push((self.indices[*i].unwrap_or(*i), *stride));
            }
        }
        let handed = self.handed.iter().find(|carry| carry.input == held);
        (handed.map_or(held, |carry| carry.output), out)
    }

    fn scalar(&mut self, value: ScalarId) -> ScalarId {
        let fresh = self.program.scalars.push(self.program.scalars[value]);
        self.scalars[value] = Some(Arg::Scalar(fresh));
        fresh
    }

    fn var(&mut self, var: VarId, fresh: bool) -> VarId {
        if fresh {
            self.vars[var] = Some(self.program.vars.push(self.program.vars[var]));
        }
        self.vars[var].unwrap_or(var)
    }

    fn index(&mut self, index: IndexId) -> IndexId {
        let fresh = self.program.fresh_index();
        self.indices[index] = Some(fresh);
        fresh
    }

    fn block(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(body.len());
        self.append(body, &mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::index_set_split;
    use crate::loop_ir::{eval, parse, verify};
    use tapeloom_ir::Tensor;

    fn same(text: &str, args: &[Tensor]) -> String {
        let program = parse(text, &|_| None).unwrap();
        let mut split = program.clone();
        index_set_split(&mut split, None).unwrap();
        assert_eq!(verify(&split), [], "{split}");
        assert_eq!(eval(&program, args).unwrap(), eval(&split, args).unwrap(), "{split}");
        split.to_string()
    }

    #[test]
    fn a_concatenation_is_read_piece_by_piece() {
        let text = same(
            "program @concat {
  buffer b0: f64[3] input 0
  buffer b1: f64[2] input 1
  buffer b2: f64[5] output 0
  for i0 in 5 {
    %0: bool = lt i0, 3
    %1: f64 = load b0[i0] if %0
    %2: bool = ge i0, 3
    %3: f64 = load b1[i0 + -3] if %2
    %4: f64 = select %0, %1, %3
    store b2[i0], %4
  }
}
",
            &[Tensor::from([1.0, 2.0, 3.0]), Tensor::from([4.0, 5.0])],
        );
        assert!(!text.contains("if"), "{text}");
    }

    /// The verifier must refuse addresses out of bounds, even if the computation of the address would overflow.
    #[test]
    fn addresses_at_the_end_of_the_range() {
        for stride in [i64::MAX, i64::MIN, i64::MIN + 1] {
            let text = format!(
                "program @x {{
  buffer b0: f64[3] input 0
  buffer b1: f64[5] output 0
  for i0 in 5 {{
    %0: bool = lt i0, 3
    %1: f64 = load b0[i0] if %0
    %2: bool = ge i0, 3
    %3: f64 = load b0[i0*{stride} + -3] if %2
    %4: f64 = select %0, %1, %3
    store b1[i0], %4
  }}
}}
"
            );
            let mut split = parse(&text, &|_| None).unwrap();
            index_set_split(&mut split, None).unwrap();
            assert_ne!(verify(&split), []);
        }
    }

    #[test]
    fn comparisons_of_every_kind_become_constants() {
        for (at, n) in [-1, 0, 1, 3, 5, 6, 9].into_iter().flat_map(|c| [(c, 6), (c, 1)]) {
            for code in ["lt", "le", "gt", "ge", "eq", "ne"] {
                for pair in [format!("i0, {at}"), format!("{at}, i0")] {
                    let text = same(
                        &format!(
                            "program @guard {{
  buffer b0: f64[{n}] output 0
  for i0 in {n} {{
    %0: bool = {code} {pair}
    %1: f64 = select %0, 1.0, 2.0
    store b0[i0], %1
  }}
}}
"
                        ),
                        &[],
                    );
                    // The program must not change if its guard does not depend on the loop index.
                    let constant = !text.contains(&format!("= {code}")) || !text.contains("i1");
                    assert!(constant, "{code} {pair}: {text}");
                }
            }
        }
    }

    #[test]
    fn the_index_as_a_number_stays_right() {
        same(
            "program @count {
  buffer b0: f64[6] output 0
  for i0 in 6 {
    %0: bool = lt i0, 4
    %1: i64 = mul i0, 10
    %2: f64 = convert{to=f64} %1
    %3: f64 = select %0, %2, -1.0
    var v0: f64 = %3
    fold i1 in 2 {
      %4: bool = gt i0, 2
      %5: f64 = select %4, 1.0, 0.5
      v0 = add v0, %5
    }
    store b0[i0], v0
  }
}
",
            &[],
        );
    }
}

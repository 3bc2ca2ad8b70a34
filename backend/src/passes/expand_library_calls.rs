//! Expansion of library calls: contractions and sorts become loops, for code that is linked without a library of
//! kernels.
//!
//! Object files ([`crate::object`]) contain all functions that they call. A contraction whose sums have a fixed number
//! of lanes becomes the loops that define it, with the same bits:
//!
//! ```text
//! contract f64 4 x 1 x 32 lanes 8:               for i0 in 4 {
//!   b2[0; 1, 1] = b0[0; 32, 1] * b1[0; 1, 1]       var v0: f64 = 0.0
//!                                                  fold i1 in 32 lanes 8 {
//!                                                    %0: f64 = load b0[i0*32 + i1]
//!                                          ->        %1: f64 = load b1[i1]
//!                                                    %2: f64 = mul %0, %1
//!                                                    v0 = add v0, %2
//!                                                  }
//!                                                  store b2[i0], v0
//!                                                }
//! ```
//!
//! If the matrix library chooses the order of the terms of a contraction, the loops add the terms one after the other,
//! so results differ by rounding. A kernel that sorts calls a function of the runtime instead of running its body; the
//! pass removes this call, so that the body runs.
//!
//! The pass runs last, when memory is planned and all accesses are proved in bounds. So all other passes see the same
//! program as for machine code in memory. The loops need no additional memory.

use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::legal_lanes::refused;
use crate::loop_ir::{
    Address, Arg, Contract, Expr, Extent, IndexId, Kernel, Matrix, Parallelism, Stmt, Sums,
};
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{Code, Literal};

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "expand_library_calls",
    about: "contractions and sorts become loops, for objects",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Reassociates,
    run: Run::Kernels(|kernel, _| expand_library_calls(kernel)),
};

/// The bytes of the columns (or rows) of a result that are computed in lanes together: a vector of 512 bits.
const SIDE_BY_SIDE: usize = 64;

/// Replaces the library calls of a kernel by loops. Returns whether there were any.
fn expand_library_calls(kernel: &mut Kernel) -> bool {
    let sorts = kernel.argsort.take().is_some();
    kernel.rewrite(block) || sorts
}

fn block(k: &mut Kernel, body: &mut Vec<Stmt>) -> bool {
    let mut changed = false;
    for mut stmt in std::mem::take(body) {
        if let Stmt::Contract(c) = stmt {
            let firsts = [&c.lhs, &c.rhs, &c.out].map(|m| m.at.clone());
            let batch = c.batch.clone();
            let loops = product(k, &c, &batch, firsts, c.accumulate);
            body.push(Stmt::nest(loops, c.origins.clone()));
            changed = true;
            continue;
        }
        stmt.blocks_mut().into_iter().for_each(|inside| changed |= block(k, inside));
        body.push(stmt);
    }
    changed
}

/// Returns the loops of a contraction: its remaining batch loops, with the loops of one matrix product inside. `at`
/// holds the addresses of the first elements of the left operand, the right operand and the result.
fn product(
    k: &mut Kernel,
    c: &Contract,
    batch: &[(usize, i64, i64, i64)],
    at: [Address; 3],
    accumulate: bool,
) -> Vec<Stmt> {
    let Some(((extent, lhs, rhs, out), inner)) = batch.split_first() else {
        return rows(k, c, at, accumulate);
    };
    let steps = [*lhs, *rhs, *out];
    // All iterations add to the same result: the first one overwrites it, and the others accumulate.
    let first = usize::from(*out == 0 && !accumulate);
    let mut body = Vec::new();
    if first == 1 && *extent > 0 {
        body = product(k, c, inner, at.clone(), false);
    }
    let rest = extent.saturating_sub(first);
    if rest > 0 {
        let index = k.fresh_index();
        let mut at = at;
        for (at, step) in at.iter_mut().zip(steps) {
            at.offset += step * first as i64;
            add(at, index, step);
        }
        let inside = product(k, c, inner, at, accumulate || *out == 0);
        body.push(counted(c, index, rest, Parallelism::Serial, 1, inside));
    }
    body
}

/// Returns the loops over the rows and columns of one matrix product.
fn rows(k: &mut Kernel, c: &Contract, at: [Address; 3], accumulate: bool) -> Vec<Stmt> {
    if accumulate && c.k == 0 {
        return Vec::new();
    }
    // If neighbouring elements of the result are adjacent in memory, compute them in lanes, unless the terms of each
    // sum are added in lanes.
    let in_rows = c.out.row == 1 && c.out.column != 1;
    let (outer, inner) = if in_rows { (c.n, c.m) } else { (c.m, c.n) };
    let (i, j) = (k.fresh_index(), k.fresh_index());
    let (row, column) = if in_rows { (j, i) } else { (i, j) };
    let element = element(k, c, at, [row, column], accumulate);
    let side_by_side = (SIDE_BY_SIDE / c.dtype.bytes()).min(previous_power(inner));
    let lanes = if terms_in_lanes(c) > 1 { 1 } else { side_by_side };
    let loop_of = |lanes| counted(c, j, inner, Parallelism::Parallel, lanes, element.clone());
    let mut inner = loop_of(lanes);
    if lanes > 1 && refused(k, &inner, lanes).is_some() {
        inner = loop_of(1);
    }
    vec![counted(c, i, outer, Parallelism::Parallel, 1, vec![inner])]
}

/// Returns the statements that compute one element of the result.
fn element(
    k: &mut Kernel,
    c: &Contract,
    at: [Address; 3],
    [row, column]: [IndexId; 2],
    accumulate: bool,
) -> Vec<Stmt> {
    let [mut lhs, mut rhs, mut out] = at;
    let term = k.fresh_index();
    add(&mut lhs, row, c.lhs.row);
    add(&mut lhs, term, c.lhs.column);
    add(&mut rhs, term, c.rhs.row);
    add(&mut rhs, column, c.rhs.column);
    add(&mut out, row, c.out.row);
    add(&mut out, column, c.out.column);
    let mut scalar = || k.scalars.push(c.dtype);
    let [x, y, product, old, sum] = [(); 5].map(|()| scalar());
    let total = k.vars.push(c.dtype);
    let load = |value, of: &Matrix, address: &Address| {
        let (held, address) = (of.held, address.clone());
        Stmt::Let { value, expr: Expr::Load { held, address, guard: None } }
    };
    let code = |value, code, x, y| Stmt::Let { value, expr: Expr::Code(code, vec![x, y]) };
    let terms = vec![
        load(x, &c.lhs, &lhs),
        load(y, &c.rhs, &rhs),
        code(product, Code::Mul, Arg::Scalar(x), Arg::Scalar(y)),
        Stmt::Fold { var: total, code: Code::Add, value: Arg::Scalar(product) },
    ];
    let lanes = terms_in_lanes(c);
    let sums = counted(c, term, c.k, Parallelism::Fold, lanes, terms);
    let zero = Arg::Literal(Literal::zero(c.dtype));
    let mut body = vec![Stmt::Var { var: total, init: zero }, sums];
    let mut value = Arg::Var(total);
    if accumulate {
        body.push(load(old, &c.out, &out));
        body.push(code(sum, Code::Add, Arg::Scalar(old), Arg::Var(total)));
        value = Arg::Scalar(sum);
    }
    body.push(Stmt::Store { held: c.out.held, address: out, value, guard: None });
    body
}

/// Returns the number of lanes in which the terms of a sum are added. With fewer terms than lanes, the accumulators
/// without a term are zero, and fewer lanes give the same bits.
fn terms_in_lanes(c: &Contract) -> usize {
    match c.sums {
        Sums::Library => 1,
        Sums::Lanes(lanes) => lanes.min(previous_power(c.k)),
    }
}

/// Returns the largest power of two that is at most `n`; 1 for 0.
fn previous_power(n: usize) -> usize {
    1 << n.max(1).ilog2()
}

/// Adds `stride` times the value of a loop index to an address.
fn add(at: &mut Address, index: IndexId, stride: i64) {
    if stride != 0 {
        at.terms.push((index, stride));
    }
}

fn counted(
    c: &Contract,
    index: IndexId,
    extent: usize,
    parallelism: Parallelism,
    lanes: usize,
    body: Vec<Stmt>,
) -> Stmt {
    let (extent, carries) = (Extent::Constant(extent), Vec::new());
    let origins = c.origins.clone();
    Stmt::For { index, extent, parallelism, lanes, carries, body, origins }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::{Context, Pass};
    use super::PASS;
    use crate::loop_ir::{check, eval, parse};
    use tapeloom_ir::Tensor;

    fn floats(n: usize) -> Tensor {
        (0..n).map(|i| ((i * 37 % 101) as f64 - 50.0) / 7.0).collect()
    }

    /// Checks in the interpreter that a contraction and the loops that replace it compute the same bits.
    #[track_caller]
    fn check_equal(contract: &str, inputs: [usize; 3], out: usize) {
        let pass: Pass = PASS;
        let text = format!(
            "program @f {{
  buffer b0: f64[{}] input 0
  buffer b1: f64[{}] input 1
  buffer b2: f64[{}] input 2
  buffer b3: f64[{out}] output 0
  for i0 in {out} {{
    %0: f64 = load b2[i0]
    store b3[i0], %0
  }}
  {contract}
}}",
            inputs[0], inputs[1], inputs[2]
        );
        let program = parse(&text, &|_| None).unwrap();
        check(&program).unwrap();
        let args = inputs.map(floats);
        let want = eval(&program, &args).unwrap();
        let mut expanded = program.clone();
        assert!(pass.apply(&mut expanded, &mut Context::default()).unwrap());
        check(&expanded).unwrap();
        assert!(!expanded.to_string().contains("contract"));
        assert_eq!(eval(&expanded, &args).unwrap(), want, "{expanded}");
        let code = crate::Executable::new(&expanded).unwrap();
        assert_eq!(code.call(&args.each_ref()).unwrap(), want, "{expanded}");
    }

    #[test]
    fn loops_have_the_bits_of_contractions() {
        let plain = "contract f64 3 x 5 x 4: b3[0; 5, 1] = b0[0; 4, 1] * b1[0; 5, 1]";
        check_equal(plain, [12, 20, 15], 15);
        let lanes = "contract f64 3 x 2 x 21 lanes 8: b3[0; 2, 1] = b0[0; 21, 1] * b1[0; 1, 21]";
        check_equal(lanes, [63, 42, 6], 6);
        let few = "contract f64 3 x 2 x 5 lanes 8: b3[0; 2, 1] += b0[0; 5, 1] * b1[0; 1, 5]";
        check_equal(few, [15, 10, 6], 6);
        let columns = "contract f64 20 x 3 x 2 lanes 1: b3[0; 1, 20] += b0[0; 1, 20] * b1[0; 3, 1]";
        check_equal(columns, [40, 6, 60], 60);
    }
}

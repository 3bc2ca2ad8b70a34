//! Cuts contractions into pieces, which run on several threads, along a batch loop, the rows, the columns or the terms.

use super::division::{Division, divide};
use super::parts::{Axis, Start};
use super::{Cutter, Refused, looped};
use crate::loop_ir::{
    Address, Arg, BufferVersion, Contract, Expr, Matrix, Parallelism, Stmt, concurrency,
};
use tapeloom_ir::{ArrayType, Code, Shape};

/// The smallest number of rows or columns in a piece of a large contraction. The matrix library copies the other
/// operand for each piece. On one thread (measured on a transformer block), this costs 2 per cent of the time for
/// pieces of 256 rows, 5 (f64) to 9 (f32) per cent for 128 rows, and 25 to 50 per cent for 32 rows. A contraction with
/// less than twice this number of rows is cut into pieces of at least half this number.
const LEAST_ROWS: usize = 256;
/// The smallest number of terms in a piece of a contraction. It is large because the results of the pieces are added
/// one by one.
const LEAST_TERMS: usize = 256;
/// The smallest number of batch members in a piece that multiplies matrices whose rows are members. Smaller pieces pay
/// for a copy of the other operand in each piece. For a recurrent network, 16 members would be enough, since their
/// state stays in the cache. But 64 chains of Hamiltonian Monte Carlo in pieces of 16 take 1.4 times as long on one
/// thread (500 x 50 numbers are copied for each piece).
pub(super) const LEAST_MEMBERS: usize = 32;

impl Cutter<'_> {
    /// Returns the statements that replace a contraction, or the reason why it cannot be cut.
    pub(super) fn contract(&mut self, c: &Contract, most: usize) -> Result<Vec<Stmt>, Refused> {
        let batches = c.batch.iter().enumerate().filter(|(_, (n, .., out))| *n > 1 && *out != 0);
        let axes = batches.map(|(at, (n, ..))| (Axis::Batch(at), *n, 1));
        let side = |axis, extent: usize| (axis, extent, least_rows(extent));
        let sides = [side(Axis::Rows, c.m), side(Axis::Columns, c.n)];
        let axes = axes.chain(sides).chain([(Axis::Terms, c.k, LEAST_TERMS)]);
        let mut best: Option<(Axis, Division)> = None;
        for (axis, extent, least) in axes {
            let Some(division) = divide(extent / least, most.min(extent / least)) else { continue };
            let each = if least == 1 { division.each } else { extent / division.pieces };
            let rest = extent - division.pieces * each;
            let division = Division { pieces: division.pieces, each, rest };
            if best.is_none_or(|(_, best)| best.pieces < division.pieces.min(8)) {
                best = Some((axis, division));
            }
        }
        let (axis, Division { pieces, each, rest }) =
            best.ok_or("it has too few rows, columns and terms")?;
        if axis == Axis::Terms {
            let parts = self.terms(c, pieces, each, rest);
            return parts.ok_or_else(|| "its partial results would be too large".to_owned());
        }
        let piece = self.kernel.fresh_index();
        let part =
            Stmt::Contract(
                axis.range(c, Start::Piece { piece, each: each as i64 }, each, |_| false),
            );
        let all = looped(piece, pieces, Parallelism::Concurrent, vec![part], &c.origins);
        if let Some(why) = concurrency::refused(self.kernel, &all) {
            return Err(why);
        }
        let start = Start::Constant((pieces * each) as i64);
        let left = (rest > 0).then(|| Stmt::Contract(axis.range(c, start, rest, |_| false)));
        Ok([all].into_iter().chain(left).collect())
    }

    /// Returns the statements that replace a contraction, cut along its terms: each piece computes a partial result
    /// from some of the terms, and the partial results are added in order.
    fn terms(
        &mut self,
        c: &Contract,
        pieces: usize,
        each: usize,
        rest: usize,
    ) -> Option<Vec<Stmt>> {
        let (kernel, size) = (&mut *self.kernel, c.m.checked_mul(c.n)?);
        if !c.batch.is_empty() {
            return None;
        }
        let ty = ArrayType::new(c.dtype, Shape::from([pieces, c.m, c.n]));
        ty.checked_bytes()?;
        let held = BufferVersion::first(kernel.scratch(ty));
        let piece = kernel.fresh_index();
        let part = Axis::Terms.range(c, Start::Piece { piece, each: each as i64 }, each, |_| false);
        let at = Address { terms: vec![(piece, size as i64)], ..Address::default() };
        let out = Matrix { held, at, row: c.n as i64, column: 1 };
        let part = Stmt::Contract(Contract { out, accumulate: false, ..part });
        let all = looped(piece, pieces, Parallelism::Concurrent, vec![part], &c.origins);
        if concurrency::refused(kernel, &all).is_some() {
            return None;
        }
        let [row, column, number] = [(); 3].map(|()| kernel.fresh_index());
        let sum = kernel.vars.push(c.dtype);
        let [old, term, new] = [(); 3].map(|()| kernel.scalars.push(c.dtype));
        let target = Address {
            terms: [&[(row, c.out.row), (column, c.out.column)], c.out.at.terms.as_slice()]
                .concat(),
            ..c.out.at.clone()
        };
        let size = size as i64;
        let address = Address {
            terms: vec![(number, size), (row, c.n as i64), (column, 1)],
            ..Address::default()
        };
        let fold = vec![
            Stmt::Let { value: term, expr: Expr::Load { held, address, guard: None } },
            Stmt::Fold { var: sum, code: Code::Add, value: Arg::Scalar(term) },
        ];
        let looped =
            |index, extent, parallelism, body| looped(index, extent, parallelism, body, &c.origins);
        let neutral = Arg::Literal(Code::Add.neutral(c.dtype)?);
        let mut element = vec![Stmt::Var { var: sum, init: neutral }];
        element.push(looped(number, pieces, Parallelism::Fold, fold));
        let mut value = Arg::Var(sum);
        if c.accumulate {
            let expr = Expr::Load { held: c.out.held, address: target.clone(), guard: None };
            element.push(Stmt::Let { value: old, expr });
            let expr = Expr::Code(Code::Add, vec![Arg::Scalar(old), Arg::Var(sum)]);
            element.push(Stmt::Let { value: new, expr });
            value = Arg::Scalar(new);
        }
        element.push(Stmt::Store { held: c.out.held, address: target, value, guard: None });
        let columns = looped(column, c.n, Parallelism::Parallel, element);
        let add = looped(row, c.m, Parallelism::Parallel, vec![columns]);
        let left = (rest > 0).then(|| {
            let start = Start::Constant((pieces * each) as i64);
            let left = Axis::Terms.range(c, start, rest, |_| false);
            Stmt::Contract(Contract { accumulate: true, ..left })
        });
        Some([all, add].into_iter().chain(left).collect())
    }
}

/// Returns the smallest number of rows (or columns) that a piece of a contraction may have; `extent` is the number of
/// rows (or columns) of the whole contraction.
fn least_rows(extent: usize) -> usize {
    if extent < 2 * LEAST_ROWS { LEAST_ROWS / 2 } else { LEAST_ROWS }
}

//! Products of arrays: `dot`, `matmul`, `outer`, `einsum`.

use super::contraction_order::{cheapest, left_to_right};
use super::shape::permute;
use super::{broadcast_shapes, broadcast_var, emit, wrong};
use crate::Var;
use crate::var::{IntoVar, caller};
use std::fmt;
use tapeloom_ir::prim::{Diagonal, Dot, Reduce, Reducer};
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Loc, Problem, Shape};

/// Products of arrays, and sums over a diagonal.
impl Var {
    /// Returns the product of numpy's `dot`: the sum over the last axis of `self` and over the only axis of a vector
    /// `y`, or the last axis but one of a `y` with more axes. It is the inner product of vectors and the matrix product
    /// of matrices.
    ///
    /// Errors: `shape` if the extents of these axes differ, or if an operand is a scalar.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|(a, x): (Var, Var)| (x.dot(x), a.dot(x)));
    /// let (square, image) = f.call(([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]))?;
    /// assert_eq!(square.item::<f64>()?, 101.0);
    /// assert_eq!(image.to_vec::<f64>()?, [21.0, 43.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn dot(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        let (tx, ty) = (self.ty(at), y.ty(at));
        if tx.shape.is_empty() || ty.shape.is_empty() {
            let message = format!("`dot` needs arrays with axes, got {tx} and {ty}");
            return wrong(Problem::new(Kind::Shape, message, "use `*`"), &[self, y], tx, at);
        }
        let (i, j) = (tx.shape.len() - 1, ty.shape.len().saturating_sub(2));
        contraction("dot", self, y, Vec::new(), vec![(i, j)], at)
    }

    /// Returns the matrix product over the last two axes; the other axes are broadcast together as batches (numpy's
    /// `matmul`). A vector is a row on the left and a column on the right. PyTorch's `addmm(c, a, b)` is
    /// `c + a.matmul(b)`.
    ///
    /// Errors: `shape` if inner extents differ or batches do not broadcast.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|a: Var| a.matmul(a), [[1.0, 1.0], [0.0, 1.0]])?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0, 0.0, 1.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "addmm", alias = "baddbmm", alias = "addmv")]
    #[doc(alias = "bmm")]
    #[doc(alias = "mm")]
    #[doc(alias = "mv")]
    #[track_caller]
    pub fn matmul(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        matmul(self, y, at)
    }

    /// Returns all products of an element of `self` and an element of `y`. The shape is that of `self`, followed by
    /// that of `y`.
    #[doc(alias = "ger")]
    #[track_caller]
    pub fn outer(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        contraction("outer", self, y, Vec::new(), Vec::new(), at)
    }

    /// Returns the product of two arrays, summed over the given pairs of axes (axis of `self`, axis of `y`).
    #[track_caller]
    pub fn tensordot(self, y: impl IntoVar, pairs: &[(usize, usize)]) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        contraction("tensordot", self, y, Vec::new(), pairs.to_vec(), at)
    }

    /// Returns the general contraction of two arrays. Axes are given in pairs (axis of `self`, axis of `y`). Pairs in
    /// `batch` are shared axes and come first in the result. Pairs in `contract` are summed over. Then follow the other
    /// axes of `self`, then those of `y`.
    #[track_caller]
    pub fn dot_general(
        self,
        y: impl IntoVar,
        contract: &[(usize, usize)],
        batch: &[(usize, usize)],
    ) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        contraction("dot_general", self, y, batch.to_vec(), contract.to_vec(), at)
    }

    /// Returns the sum of the diagonal of a matrix (of the last two axes).
    #[track_caller]
    pub fn trace(self) -> Var {
        let at = caller();
        let rank = self.ty(at).shape.len();
        if rank < 2 {
            let ty = self.ty(at);
            let message = format!("`trace` needs a matrix, got {ty}");
            return wrong(Problem::new(Kind::Shape, message, ""), &[self], ty, at);
        }
        let x = emit(Diagonal { axes: vec![rank - 2, rank - 1] }, &[self], at);
        emit(Reduce { reducer: Reducer::Sum, axes: vec![rank - 2] }, &[x], at)
    }

    /// Returns the diagonal of a matrix (of the last two axes): min(n, m) elements of an n by m matrix.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| (x.diagonal(), x.t().diagonal()), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    /// assert_eq!((y.0, y.1), (Tensor::from([1.0, 5.0]), Tensor::from([1.0, 5.0])));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal(self) -> Var {
        let at = caller();
        let ty = self.ty(at);
        let rank = ty.shape.len();
        if rank < 2 {
            let message = format!("`diagonal` needs a matrix, got {ty}");
            return wrong(Problem::new(Kind::Shape, message, ""), &[self], ty, at);
        }
        emit(Diagonal { axes: vec![rank - 2, rank - 1] }, &[self], at)
    }
}

/// Computes products and sums in Einstein's notation: axes with equal letters are multiplied together, and letters
/// that are not in the result are summed over. Without `->`, the result has the letters that occur once, in
/// alphabetical order. `...` stands for leading axes, which are broadcast.
///
/// Operands are multiplied in pairs, in the order with the fewest multiplications (the exact optimum for up to ten
/// operands; for more, the cheapest pair first). Among equally cheap orders, the written one is used.
/// [`einsum_left_to_right`] uses the written order, and [`Jit::explain`](crate::Jit::explain) shows the products.
///
/// Errors: `shape` if the specification does not fit the operands.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(a, x): (Var, Var)| einsum("ij,i,j->", &[a, x, x]));
/// let form = f.call(([[2.0, 0.0], [0.0, 3.0]], [1.0, 10.0]))?;
/// assert_eq!(form.item::<f64>()?, 302.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn einsum(spec: &str, operands: &[Var]) -> Var {
    einsum_of(spec, operands, caller())
}

/// As [`einsum`], for any factors.
pub(crate) fn einsum_of<X: Factor>(spec: &str, operands: &[X], at: Loc) -> X {
    einsum_by(spec, operands, cheapest_order, at)
}

/// Computes [`einsum`], multiplying the operands in their order from left to right.
///
/// Errors: `shape` if the specification does not fit the operands.
///
/// ```
/// use tapeloom::prelude::*;
/// let products = |x: &[Var]| einsum_left_to_right("ij,jk,k->i", x);
/// let f = jit(move |(a, b, x): (Var, Var, Var)| products(&[a, b, x]));
/// let y = f.call(([[1.0, 2.0]], [[3.0], [4.0]], [5.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [55.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn einsum_left_to_right(spec: &str, operands: &[Var]) -> Var {
    einsum_by(spec, operands, |terms, _, _| left_to_right(terms.len()), caller())
}

/// A factor of a product in Einstein's notation: a real array, or a complex one whose two parts have equal types.
pub(crate) trait Factor: Copy {
    /// Returns `x` as a factor. If factors are complex, its imaginary part is zero.
    fn real(x: Var) -> Self;
    /// Returns the array itself if it is real, else its real part.
    fn real_part(self) -> Var;
    /// Applies `f`, which moves elements or sums them, to a real array, or to the real and the imaginary part of a
    /// complex one.
    fn map(self, f: impl FnMut(Var) -> Var) -> Self;
    /// Returns the product with `y`, computed from products of the real parts and imaginary parts, which `product`
    /// returns.
    fn times(self, y: Self, product: impl Fn(Var, Var) -> Var) -> Self;
}

impl Factor for Var {
    fn real(x: Var) -> Var {
        x
    }

    fn real_part(self) -> Var {
        self
    }

    fn map(self, mut f: impl FnMut(Var) -> Var) -> Var {
        f(self)
    }

    fn times(self, y: Var, product: impl Fn(Var, Var) -> Var) -> Var {
        product(self, y)
    }
}

/// A function that returns the pairs of terms to multiply, in order; see [`super::contraction_order`].
type Order<X> = fn(&[Term<X>], &[Label], Loc) -> Vec<(usize, usize)>;

fn einsum_by<X: Factor>(spec: &str, operands: &[X], order: Order<X>, at: Loc) -> X {
    match plan(spec, operands, at) {
        Ok((terms, result)) => {
            let terms: Vec<Term<X>> = terms.into_iter().map(|t| diagonals(t, at)).collect();
            let order = order(&terms, &result, at);
            sum_products(terms, &order, &result, at)
        }
        Err(problem) => {
            let parts: Vec<Var> = operands.iter().map(|x| x.real_part()).collect();
            let ty = parts.first().map(|v| v.ty(at));
            let guess = ty.unwrap_or(ArrayType::new(Dtype::F64, []));
            X::real(wrong(problem, &parts, guess, at))
        }
    }
}

fn contraction(
    name: &str,
    x: Var,
    y: Var,
    batch: Vec<(usize, usize)>,
    contract: Vec<(usize, usize)>,
    at: Loc,
) -> Var {
    let (tx, ty) = (x.ty(at), y.ty(at));
    let fits = |(i, j): &(usize, usize)| matches!((tx.shape.get(*i), ty.shape.get(*j)), (Some(n), Some(m)) if n == m);
    let (kind, message, help) = if tx.dtype != ty.dtype {
        let help = crate::dtype::conversions(tx.dtype, ty.dtype);
        (Kind::Dtype, format!("`{name}` needs operands of one dtype, got {tx} and {ty}"), help)
    } else if !batch.iter().chain(&contract).all(fits) {
        let axes: Vec<String> =
            contract.iter().map(|(i, j)| format!("axis {i} with axis {j}")).collect();
        let message = format!("`{name}` of {tx} and {ty} sums over {}", axes.join(", "));
        let there = |(i, j): &(usize, usize)| *i < tx.shape.len() && *j < ty.shape.len();
        let help = if batch.iter().chain(&contract).all(there) {
            "the extents of axes summed over must be equal"
        } else {
            "name axes that both have: they are counted from 0"
        };
        (Kind::Shape, message, help.to_owned())
    } else {
        return emit(Dot { batch, contract }, &[x, y], at);
    };
    let kept = |t: &ArrayType, side: fn(&(usize, usize)) -> usize| -> Vec<usize> {
        let gone: Vec<usize> = contract.iter().map(side).collect();
        t.shape.without(&gone).to_vec()
    };
    let guess = [kept(&tx, |p| p.0), kept(&ty, |p| p.1)].concat();
    wrong(Problem::new(kind, message, help), &[x, y], ArrayType::new(tx.dtype, guess), at)
}

fn matmul(x: Var, y: Var, at: Loc) -> Var {
    let (tx, ty) = (x.ty(at), y.ty(at));
    let (p, q) = (tx.shape.len(), ty.shape.len());
    match (p, q) {
        (0, _) | (_, 0) => {
            let message = format!("`matmul` needs arrays with axes, got {tx} and {ty}");
            wrong(Problem::new(Kind::Shape, message, "use `*`"), &[x, y], tx, at)
        }
        (_, 1) => contraction("matmul", x, y, vec![], vec![(p - 1, 0)], at),
        // If the right operand is one matrix, the rows of all matrices on the left are treated as rows of one matrix.
        (_, 2) => contraction("matmul", x, y, vec![], vec![(p - 1, 0)], at),
        (1, _) => contraction("matmul", x, y, vec![], vec![(0, q - 2)], at),
        (2, _) => {
            let z = contraction("matmul", x, y, vec![], vec![(1, q - 2)], at);
            // The product has the axes [m, batch.., n]. Reorder them to [batch.., m, n].
            let order = (1..q - 1).chain([0, q - 1]).collect();
            if z.ty(at).shape.len() == q { permute(z, order, at) } else { z }
        }
        _ => {
            let (bx, by) = (&tx.shape[..p - 2], &ty.shape[..q - 2]);
            let Some(batch) = broadcast_shapes(bx, by) else {
                let message = format!("`matmul` cannot broadcast the batches of {tx} and {ty}");
                let help = "aligned before the last two axes, extents must be equal or 1";
                let problem = Problem::new(Kind::Shape, message, help);
                return wrong(problem, &[x, y], tx, at);
            };
            let lift = |v: Var, matrix: &[usize]| {
                let shape: Shape = batch.iter().chain(matrix).copied().collect();
                broadcast_var(v, &shape, at)
            };
            let (x, y) = (lift(x, &tx.shape[p - 2..]), lift(y, &ty.shape[q - 2..]));
            let n = batch.len();
            contraction("matmul", x, y, (0..n).map(|i| (i, i)).collect(), vec![(n + 1, n)], at)
        }
    }
}

/// A label of an axis: a letter, or an axis under the ellipsis, counted from its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Label {
    Ellipsis(usize),
    Letter(char),
}

/// Prints the label for messages.
impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Ellipsis(_) => f.write_str("an axis under `...`"),
            Label::Letter(c) => write!(f, "'{c}'"),
        }
    }
}

/// An operand with the labels of its axes.
struct Term<X> {
    x: X,
    labels: Vec<Label>,
}

impl<X: Factor> Term<X> {
    fn shape(&self, at: Loc) -> Shape {
        self.x.real_part().ty(at).shape
    }
}

/// Parses the specification and matches it with the operands.
fn plan<X: Factor>(
    spec: &str,
    operands: &[X],
    at: Loc,
) -> Result<(Vec<Term<X>>, Vec<Label>), Problem> {
    let misfit = |why: String| {
        let types: Vec<String> =
            operands.iter().map(|x| x.real_part().ty(at).to_string()).collect();
        Problem::new(
            Kind::Shape,
            format!("`einsum` with \"{spec}\" of {}: {why}", types.join(", ")),
            "give one letter per axis, operands separated by commas, as in \"ij,jk->ik\"",
        )
    };
    let compact: String = spec.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, output) = match compact.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (compact.as_str(), None),
    };
    let inputs: Vec<&str> = inputs.split(',').collect();
    if inputs.len() != operands.len() {
        return Err(misfit(format!(
            "it names {} operands, given are {}",
            inputs.len(),
            operands.len()
        )));
    }
    let mut terms = Vec::new();
    let mut extents: Vec<(Label, usize)> = Vec::new();
    for (text, x) in inputs.iter().zip(operands) {
        let shape = x.real_part().ty(at).shape;
        let labels = labels(text, Some(shape.len())).map_err(&misfit)?;
        for (label, extent) in labels.iter().zip(shape.iter()) {
            match extents.iter_mut().find(|(l, _)| l == label) {
                None => extents.push((*label, *extent)),
                Some((_, known)) if known == extent => {}
                Some((Label::Ellipsis(_), known)) if *known == 1 => *known = *extent,
                Some((Label::Ellipsis(_), _)) if *extent == 1 => {}
                Some((_, known)) => {
                    return Err(misfit(format!("{label} has extents {known} and {extent}")));
                }
            }
        }
        terms.push(Term { x: *x, labels });
    }
    let all = || terms.iter().flat_map(|t| t.labels.iter().copied());
    let mut ellipsis: Vec<Label> = all().filter(|l| matches!(l, Label::Ellipsis(_))).collect();
    ellipsis.sort_unstable_by(|a, b| b.cmp(a));
    ellipsis.dedup();
    let result = match output {
        Some(text) => {
            let dots = if text.contains("...") { ellipsis.len() } else { 0 };
            let rank = text.chars().filter(|c| *c != '.').count() + dots;
            labels(text, Some(rank)).map_err(&misfit)?
        }
        None => {
            let once = |l: &Label| all().filter(|m| m == l).count() == 1;
            let mut letters: Vec<Label> =
                all().filter(|l| matches!(l, Label::Letter(_)) && once(l)).collect();
            letters.sort_unstable();
            [ellipsis, letters].concat()
        }
    };
    for (i, label) in result.iter().enumerate() {
        if !all().any(|l| l == *label) || result[..i].contains(label) {
            return Err(misfit(format!(
                "{label} of the result is in no operand, or twice in the result"
            )));
        }
    }
    // Broadcast axes of extent 1 under an ellipsis.
    for term in &mut terms {
        let shape = term.shape(at);
        let want = term.labels.iter().zip(shape.iter()).map(|(l, own)| {
            extents.iter().find(|(m, _)| m == l).map_or(*own, |(_, extent)| *extent)
        });
        let want = want.collect();
        term.x = term.x.map(|x| broadcast_var(x, &want, at));
    }
    Ok((terms, result))
}

/// Parses one label per axis.
fn labels(text: &str, rank: Option<usize>) -> Result<Vec<Label>, String> {
    let letter = |c: char| {
        if c.is_alphabetic() { Ok(Label::Letter(c)) } else { Err(format!("'{c}' is no letter")) }
    };
    let (before, after) = match text.split_once("...") {
        None => (text, None),
        Some((before, after)) => (before, Some(after)),
    };
    let mut labels: Vec<Label> = before.chars().map(letter).collect::<Result<_, _>>()?;
    if let Some(after) = after {
        let after: Vec<Label> = after.chars().map(letter).collect::<Result<_, _>>()?;
        let named = labels.len() + after.len();
        let dots = rank.and_then(|r| r.checked_sub(named)).ok_or("too few axes for its letters")?;
        labels.extend((0..dots).rev().map(Label::Ellipsis));
        labels.extend(after);
    }
    match rank {
        Some(rank) if rank != labels.len() => {
            Err(format!("\"{text}\" has {} letters for {rank} axes", labels.len()))
        }
        _ => Ok(labels),
    }
}

/// Returns the order with the fewest multiplications.
fn cheapest_order<X: Factor>(terms: &[Term<X>], result: &[Label], at: Loc) -> Vec<(usize, usize)> {
    let mut labels: Vec<(Label, usize)> = Vec::new();
    for term in terms {
        for (label, extent) in term.labels.iter().zip(term.shape(at).iter()) {
            if !labels.iter().any(|(l, _)| l == label) {
                labels.push((*label, *extent));
            }
        }
    }
    let numbers = |of: &[Label]| -> Vec<usize> {
        of.iter().filter_map(|l| labels.iter().position(|(m, _)| m == l)).collect()
    };
    let operands: Vec<Vec<usize>> = terms.iter().map(|t| numbers(&t.labels)).collect();
    let extents: Vec<usize> = labels.iter().map(|(_, extent)| *extent).collect();
    cheapest(&operands, &extents, &numbers(result))
}

/// Multiplies pairs of terms in the given order. A label is summed over as soon as neither the result nor another term
/// has it.
fn sum_products<X: Factor>(
    terms: Vec<Term<X>>,
    order: &[(usize, usize)],
    result: &[Label],
    at: Loc,
) -> X {
    let mut terms: Vec<Option<Term<X>>> = terms.into_iter().map(Some).collect();
    for (first, second) in order {
        let (Some(x), Some(y)) = (terms[*first].take(), terms[*second].take()) else { continue };
        let later =
            |l: &Label| result.contains(l) || terms.iter().flatten().any(|t| t.labels.contains(l));
        let x = sum_out(x, |l| y.labels.contains(l) || later(l), at);
        let y = sum_out(y, |l| x.labels.contains(l) || later(l), at);
        let (mut batch, mut contract) = (Vec::new(), Vec::new());
        for (i, l) in x.labels.iter().enumerate() {
            if let Some(j) = y.labels.iter().position(|m| m == l) {
                if later(l) { batch.push((i, j)) } else { contract.push((i, j)) }
            }
        }
        let shared = |l: &&Label| x.labels.contains(l) && y.labels.contains(l);
        let labels = batch.iter().map(|(i, _)| x.labels[*i]);
        let free = x.labels.iter().chain(&y.labels).filter(|l| !shared(l)).copied();
        let labels = labels.chain(free).collect();
        let product = |x, y| contraction("einsum", x, y, batch.clone(), contract.clone(), at);
        terms.push(Some(Term { x: x.x.times(y.x, product), labels }));
    }
    let Some(total) = terms.into_iter().flatten().next() else {
        return X::real(Var::literal(Literal::f64(1.0), at));
    };
    let total = sum_out(total, |l| result.contains(l), at);
    let order: Vec<usize> =
        result.iter().filter_map(|l| total.labels.iter().position(|m| m == l)).collect();
    total.x.map(|x| permute(x, order.clone(), at))
}

/// Sums a term over the axes whose labels are not needed.
fn sum_out<X: Factor>(term: Term<X>, needed: impl Fn(&Label) -> bool, at: Loc) -> Term<X> {
    let gone: Vec<usize> = (0..term.labels.len()).filter(|i| !needed(&term.labels[*i])).collect();
    if gone.is_empty() {
        return term;
    }
    let labels = term.labels.iter().copied().filter(|l| needed(l)).collect();
    let sum = Reduce { reducer: Reducer::Sum, axes: gone };
    Term { x: term.x.map(|x| emit(sum.clone(), &[x], at)), labels }
}

/// Replaces two axes with the same label by their diagonal.
fn diagonals<X: Factor>(mut term: Term<X>, at: Loc) -> Term<X> {
    let mut i = 0;
    while i < term.labels.len() {
        let label = term.labels[i];
        match (i + 1..term.labels.len()).find(|j| term.labels[*j] == label) {
            None => i += 1,
            Some(j) => {
                term.x = term.x.map(|x| emit(Diagonal { axes: vec![i, j] }, &[x], at));
                term.labels.remove(j);
            }
        }
    }
    term
}

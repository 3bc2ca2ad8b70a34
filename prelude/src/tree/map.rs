//! Operations on all leaves of a tree: maps, sums, norms.
//!
//! An optimiser is written once and takes the parameters of every model. Adam (Kingma and Ba, *Adam: a
//! method for stochastic optimization*, 2015):
//!
//! ```
//! use tapeloom::prelude::*;
//!
//! fn adam<P: Tree<Var>>(p: &P, m: &P, v: &P, g: &P, t: Var) -> (P, P, P) {
//!     let m = tree_map2(|m, g| 0.9 * m + 0.1 * g, m, g);
//!     let v = tree_map2(|v, g| 0.999 * v + 0.001 * g * g, v, g);
//!     let rate = 0.1 * (1.0 - (0.999_f64.ln() * t).exp()).sqrt() / (1.0 - (0.9_f64.ln() * t).exp());
//!     (tree_map3(|p, m, v| p - rate * m / (v.sqrt() + 1e-8), p, &m, &v), m, v)
//! }
//!
//! #[derive(Tree, Clone)]
//! struct Line<T> { slope: T, offset: T }
//!
//! let loss = |l: Line<Var>, x: Var, y: Var| (l.slope * x + l.offset - y).square().mean();
//! let step = jit(|((p, m, v), t, x, y): ((Line<Var>, Line<Var>, Line<Var>), Var, Var, Var)| {
//!     adam(&p, &m, &v, &grad(|p| loss(p, x, y))(p.clone()), t)
//! });
//!
//! let p = Line { slope: Tensor::from(0.0), offset: Tensor::from(0.0) };
//! let mut state = (p.clone(), zeros_like(&p), zeros_like(&p));
//! for t in 1..=300 {
//!     state = step.call((&state, f64::from(t), [0.0, 1.0, 2.0], [1.0, 3.0, 5.0]))?;
//! }
//! assert!((state.0.slope.item::<f64>()? - 2.0).abs() < 1e-2);
//! assert!((state.0.offset.item::<f64>()? - 1.0).abs() < 1e-2);
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! Model: `jax.tree` and optax. Trees are passed by reference, because one gradient is used by several maps.

use super::{ArrayLeaf, Flat, Leaf, Tree, flatten, leaf_paths};
use crate::Var;
use crate::ops::{binary, emit, select, wrong, zeros_like_type};
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::prim::{Reduce, Reducer};
use tapeloom_ir::trace;
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Loc, Problem, Scalar};

/// Returns the tree with `f` applied to each leaf.
///
/// ```
/// use tapeloom::prelude::*;
/// let half = jit(|p: (Var, Vec<Var>)| tree_map(|x| 0.5 * x, &p));
/// let (x, y) = half.call((2.0, [[4.0, 6.0]]))?;
/// assert_eq!((x.item::<f64>()?, y[0].to_vec::<f64>()?), (1.0, vec![2.0, 3.0]));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "tree_multimap")]
pub fn tree_map<L: Leaf, A: Tree<L>>(mut f: impl FnMut(L) -> L, tree: &A) -> A {
    mapped(&mut f, tree)
}

fn mapped<L: Leaf, A: Tree<L>>(f: &mut dyn FnMut(L) -> L, tree: &A) -> A {
    let (structure, leaves) = flatten(tree);
    let mut leaves = leaves.into_iter();
    A::from_leaves(&structure, &mut || leaves.next().map_or_else(L::stand_in, &mut *f))
}

/// Returns the tree of `f` applied to corresponding leaves of two trees.
///
/// Errors: `shape` if the trees have different structures (lengths, options, keys, static fields). The message has the
/// path of the difference.
///
/// ```
/// use tapeloom::prelude::*;
/// let descend = jit(|(p, g): ([Var; 2], [Var; 2])| tree_map2(|p, g| p - 0.1 * g, &p, &g));
/// let [x, y] = descend.call(([1.0, 2.0], [10.0, 20.0]))?;
/// assert_eq!((x.item::<f64>()?, y.item::<f64>()?), (0.0, 0.0));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "tree_multimap")]
#[track_caller]
pub fn tree_map2<A: Tree<Var>>(mut f: impl FnMut(Var, Var) -> Var, x: &A, y: &A) -> A {
    zip("tree_map2", &[x, y], &mut |v| f(v[0], v[1]), caller())
}

/// Returns the tree of `f` applied to corresponding leaves of three trees.
///
/// Errors: as [`tree_map2`].
#[doc(alias = "tree_multimap")]
#[track_caller]
pub fn tree_map3<A: Tree<Var>>(mut f: impl FnMut(Var, Var, Var) -> Var, x: &A, y: &A, z: &A) -> A {
    zip("tree_map3", &[x, y, z], &mut |v| f(v[0], v[1], v[2]), caller())
}

/// Applies `f` to corresponding leaves of trees, which must have the structure of the first one.
fn zip<A: Tree<Var>>(name: &str, trees: &[&A], f: &mut dyn FnMut(&[Var]) -> Var, at: Loc) -> A {
    let columns: Vec<Vec<Var>> = trees.iter().map(|t| flatten(*t).1).collect();
    let structure = trees[0].structure();
    for tree in &trees[1..] {
        if !tree.has_structure(&structure) {
            let sides = ["the first", "another"];
            let differ = different::<Var, A>(&structure, &tree.structure(), "", sides);
            let mut poison = unlike(name, &differ, &columns[0], at).into_iter();
            return A::from_leaves(&structure, &mut || poison.next().unwrap_or_else(Var::stand_in));
        }
    }
    let mut rows = 0..;
    A::from_leaves(&structure, &mut || {
        let leaves = rows.next().and_then(|i| row(&columns, i));
        leaves.map_or_else(Var::stand_in, |leaves| f(&leaves))
    })
}

/// Returns leaf `i` of every tree, or `None` if a tree has fewer leaves.
fn row(columns: &[Vec<Var>], i: usize) -> Option<Vec<Var>> {
    columns.iter().map(|column| column.get(i).copied()).collect()
}

/// Reports that the structures of trees differ, and returns placeholders for the leaves of the result.
fn unlike(name: &str, differ: &str, like: &[Var], at: Loc) -> Vec<Var> {
    let problem = Problem::new(
        Kind::Shape,
        format!("`{name}` of trees of different structure: {differ}"),
        "give trees with the same lengths, options, keys and static fields",
    );
    trace::record(problem, &[], at);
    like.iter().map(|v| Var::poison(v.ty(at), at)).collect()
}

/// Returns a tree of zeros with the shapes and dtypes of the leaves of `tree`, which are `Var`s or `Tensor`s.
///
/// ```
/// use tapeloom::prelude::*;
/// let p = (Tensor::from(2.0), vec![Tensor::from([1i64, 2])]);
/// let m = zeros_like(&p);
/// assert_eq!(m.1[0].to_vec::<i64>()?, [0, 0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "tree_zeros_like")]
#[track_caller]
pub fn zeros_like<L: ArrayLeaf, A: Tree<L>>(tree: &A) -> A {
    let at = caller();
    tree_map(|x| on_behalf("zeros_like", at, || x.filled(false)), tree)
}

/// Returns a tree of ones with the shapes and dtypes of the leaves of `tree`, which are `Var`s or `Tensor`s.
#[doc(alias = "tree_ones_like")]
#[track_caller]
pub fn ones_like<L: ArrayLeaf, A: Tree<L>>(tree: &A) -> A {
    let at = caller();
    tree_map(|x| on_behalf("ones_like", at, || x.filled(true)), tree)
}

/// Returns the leaves of a tree, in order.
///
/// ```
/// use tapeloom::prelude::*;
/// let p = (Tensor::from(2.0), vec![Tensor::from([1i64, 2])]);
/// let elements: usize = tree_leaves(&p).iter().map(|t| t.elements()).sum();
/// assert_eq!(elements, 3);
/// ```
#[doc(alias = "tree_flatten", alias = "tree_unflatten")]
pub fn tree_leaves<L: Leaf, A: Tree<L>>(tree: &A) -> Vec<L> {
    flatten(tree).1
}

/// Returns the paths of the leaves, in order, in the notation of error messages: `0`, `layers[2].w`.
///
/// ```
/// use tapeloom::prelude::*;
/// let p = (Tensor::from(2.0), vec![Tensor::from([1i64, 2])]);
/// assert_eq!(tree_paths(&p), ["0", "1[0]"]);
/// ```
#[doc(alias = "tree_flatten_with_path", alias = "keystr")]
pub fn tree_paths<L: Leaf, A: Tree<L>>(tree: &A) -> Vec<String> {
    let paths = leaf_paths::<L, A>(&tree.structure(), "").into_iter();
    paths.map(|p| p.strip_prefix('.').map_or(p.clone(), str::to_owned)).collect()
}

/// Returns the sum of all elements of all leaves; `0.0` (f64) for a tree without leaves.
///
/// Errors: `dtype` if the leaves have different dtypes.
///
/// ```
/// use tapeloom::prelude::*;
/// let l2 = jit(|p: (Var, Var)| tree_sum(&tree_map(|x| x * x, &p)));
/// assert_eq!(l2.call((2.0, [1.0, 3.0]))?.item::<f64>()?, 14.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn tree_sum<A: Tree<Var>>(tree: &A) -> Var {
    let at = caller();
    match common_dtype("tree_sum", Flat::of(tree), at) {
        Ok((dtype, leaves)) => sum(dtype, leaves, at),
        Err(poison) => poison,
    }
}

/// Returns the sum of the products of corresponding elements of two trees.
///
/// Errors: as [`tree_map2`] and [`tree_sum`].
///
/// ```
/// use tapeloom::prelude::*;
/// let dot = jit(|(x, y): ((Var, Var), (Var, Var))| tree_dot(&x, &y));
/// assert_eq!(dot.call(((2.0, [1.0, 3.0]), (10.0, [1.0, 2.0])))?.item::<f64>()?, 27.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "tree_vdot", alias = "tree_vdot_real")]
#[track_caller]
pub fn tree_dot<A: Tree<Var>>(x: &A, y: &A) -> Var {
    let at = caller();
    let products = zip("tree_dot", &[x, y], &mut |v| binary(Scalar::Mul, v[0], v[1], at), at);
    on_behalf("tree_dot", at, || tree_sum(&products))
}

/// Returns the Euclidean norm of all elements of all leaves: √Σx².
///
/// Elements are scaled before they are squared if the squares would overflow or underflow. If all elements are zero,
/// the derivative is nan: √ has none at 0.
///
/// Errors: as [`tree_sum`].
///
/// ```
/// use tapeloom::prelude::*;
/// assert_eq!(run(|g: (Var, Var)| global_norm(&g), (3.0, [0.0, 4.0]))?.item::<f64>()?, 5.0);
/// let large = run(|g: (Var, Var)| global_norm(&g), (3e200, [0.0, 4e200]))?.item::<f64>()?;
/// assert!((large / 5e200 - 1.0).abs() < 1e-15);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "tree_l2_norm", alias = "tree_norm")]
#[track_caller]
pub fn global_norm<A: Tree<Var>>(tree: &A) -> Var {
    let at = caller();
    match common_dtype("global_norm", Flat::of(tree), at) {
        Ok((dtype, leaves)) => {
            on_behalf("global_norm", at, || Length::of(&leaves, dtype, at).norm())
        }
        Err(poison) => poison,
    }
}

/// The Euclidean norm of elements that are scaled first, so that their squares neither overflow nor underflow.
pub(crate) struct Length {
    /// The sum over all elements x of the square of `by · x`.
    pub(crate) squares: Var,
    /// The scale, a constant for derivatives; 1 if the elements are not scaled.
    pub(crate) by: Var,
}

impl Length {
    /// Computes the Euclidean norm of all elements of `leaves`, which are floats of dtype `dtype`.
    ///
    /// One pass over the elements computes three sums, one of which is used: of the elements as they are, of the
    /// elements scaled down, and of the elements scaled up (Blue's accumulators). Scaling by the largest element
    /// would need another pass.
    pub(crate) fn of(leaves: &[Var], dtype: Dtype, at: Loc) -> Length {
        // The scales are powers of two, so scaling is exact. `least` is the smallest unscaled sum whose last digits do
        // not underflow. If the unscaled sum is smaller than `least`, all absolute values of elements are below
        // `bound`.
        let (down, up, least, bound) = match dtype {
            Dtype::F32 => (-80, 100, 1e-30, 1e-12),
            _ => (-600, 600, 1e-290, 1e-130),
        };
        let squares = |power: i32| {
            let by = Var::literal(Literal::of(dtype, 2f64.powi(power)), at);
            let square = |x: &Var| {
                let x = match power {
                    0 => *x,
                    // If this sum is not selected, its derivative is 0 times its elements, so its elements must be
                    // finite.
                    1.. => select(x.abs().lt(bound), *x, x.zeros_like()) * by,
                    _ => *x * by,
                };
                emit(Scalar::Mul, &[x, x], at)
            };
            (sum(dtype, leaves.iter().map(square).collect(), at), by)
        };
        let [(small, down), (usual, one), (large, up)] = [down, 0, up].map(squares);
        // If the unscaled sum is nan, `over` and `under` are false, and the result is nan.
        let over = usual.is_infinite();
        let under = usual.lt(least);
        let pick = |usual, small, large| select(over, small, select(under, large, usual));
        Length { squares: pick(usual, small, large), by: pick(one, down, up) }
    }

    /// Returns the norm.
    fn norm(&self) -> Var {
        self.squares.sqrt() / self.by
    }
}

/// Scales a tree down to a [`global_norm`] of `max` if its norm is larger: a guard against steps that are too large.
///
/// Errors: as [`tree_sum`].
///
/// ```
/// use tapeloom::prelude::*;
/// let clip = jit(|g: (Var, Var)| clip_by_global_norm(&g, 1.0));
/// let (x, y) = clip.call((3.0, [0.0, 4.0]))?;
/// assert!((x.item::<f64>()? - 0.6).abs() < 1e-15 && (y.to_vec::<f64>()?[1] - 0.8).abs() < 1e-15);
/// assert_eq!(clip.call((0.0, [0.5, 0.0]))?.1.to_vec::<f64>()?, [0.5, 0.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn clip_by_global_norm<A: Tree<Var>>(tree: &A, max: impl IntoVar) -> A {
    let at = caller();
    let factors = on_behalf("clip_by_global_norm", at, || {
        let (dtype, leaves) = match common_dtype("clip_by_global_norm", Flat::of(tree), at) {
            Ok(all) => all,
            Err(poison) => return [poison; 3],
        };
        let Length { squares, by } = Length::of(&leaves, dtype, at);
        let max = max.beside(squares, at);
        // The square root has no derivative at 0. There the tree is not clipped, so take the root of 1 instead.
        let some = squares.gt(0.0);
        let root = select(some, squares, 1.0).sqrt();
        let clipped = some & (root / by).gt(max);
        // Multiply by the factors one by one: their product may underflow.
        [by, 1.0 / root, max].map(|factor| select(clipped, factor, 1.0))
    });
    let times = |x: Var, factor: Var| binary(Scalar::Mul, factor, x, at);
    tree_map(|x| factors.into_iter().fold(x, times), tree)
}

/// Returns the sum of all elements.
fn sum(dtype: Dtype, leaves: Vec<Var>, at: Loc) -> Var {
    let total = |x: Var| match x.ty(at).shape.len() {
        0 => x,
        rank => emit(Reduce { reducer: Reducer::Sum, axes: (0..rank).collect() }, &[x], at),
    };
    let sum = leaves.into_iter().map(total).reduce(|x, y| emit(Scalar::Add, &[x, y], at));
    sum.unwrap_or_else(|| Var::literal(Literal::zero(dtype), at))
}

/// Returns the leaves and their dtype (f64 if there are none). If the leaves have several dtypes, reports that and
/// returns a placeholder as the error value.
pub(super) fn common_dtype(name: &str, tree: Flat, at: Loc) -> Result<(Dtype, Vec<Var>), Var> {
    let Flat { form, leaves } = tree;
    let types: Vec<ArrayType> = leaves.iter().map(|v| v.ty(at)).collect();
    let dtype = types.first().map_or(Dtype::F64, |t| t.dtype);
    let Some(i) = types.iter().position(|t| t.dtype != dtype) else {
        return Ok((dtype, leaves));
    };
    let paths = form.paths("tree");
    let problem = Problem::new(
        Kind::Dtype,
        format!(
            "`{name}` needs leaves of one dtype: `{}` is {}, `{}` is {}",
            paths[0], types[0], paths[i], types[i]
        ),
        format!(
            "convert the leaves first, as in `tree_map(|x| x.convert(Dtype::{dtype:?}), &tree)`"
        ),
    );
    Err(wrong(problem, &[leaves[0], leaves[i]], ArrayType::new(dtype, []), at))
}

/// Returns a text that describes the differences between two structures of one type, such as "`act`: Relu in the first,
/// Tanh in another".
pub(crate) fn different<L, A: Tree<L>>(
    one: &A::Structure,
    other: &A::Structure,
    root: &str,
    sides: [&str; 2],
) -> String {
    let mut found = Vec::new();
    A::differences(one, other, &mut root.to_owned(), &mut |path, one, other| {
        let path = if path.is_empty() { "the tree" } else { path.trim_start_matches('.') };
        found.push(format!("`{path}`: {one} in {}, {other} in {}", sides[0], sides[1]));
    });
    found.join("; ")
}

/// Returns zeros of the given types.
pub(super) fn zeros_of(types: &[ArrayType], at: Loc) -> Vec<Var> {
    types.iter().map(|t| zeros_like_type(t, at)).collect()
}

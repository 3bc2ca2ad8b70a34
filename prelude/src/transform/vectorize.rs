//! `vmap`: applies a function of one example to a batch of examples.

use crate::Var;
use crate::function::{Function, one};
use crate::ops::{broadcast_var, insert_axis, move_axis, zeros_like_type};
use crate::prng::key_for_each;
use crate::staging::{Staged, rebuild, stage_in};
use crate::tree::{Form, Leaf, Tree, different, flatten};
use crate::var::caller;
use tapeloom_ir::trace::{self, Diagnostic, Note, Param};
use tapeloom_ir::{ArrayType, Kind, Loc, Problem, Shape};
use tapeloom_transforms as transforms;

/// Returns `f` over a batch: `(A -> B) -> (batch of A -> batch of B)`.
///
/// Axis 0 of every leaf is the batch axis, in arguments and results. All batch members share the values that the
/// closure captures. Every operation is replaced by its batched form, so no loop over the batch is added.
///
/// Errors: `shape` if a leaf of the argument is a scalar, or if leaves have different batch sizes.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(x, w): (Var, Var)| vmap(|row: Var| row.dot(w))(x));
/// let y = f.call(([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [21.0, 43.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn vmap<A: Tree<Var>, B: Tree<Var>, F: Function<A, B, M>, M>(f: F) -> impl Fn(A) -> B {
    let (f, at) = (one(f), caller());
    move |x| vectorize(&f, &0i32, &0i32, at, x)
}

/// Returns `f` over a batch, as [`vmap`] does, with a batch axis of its own for each leaf.
///
/// `in_axes` and `out_axes` ([`BatchAxes`]) are one axis for all leaves, a tuple with one entry for each entry of a
/// tuple, or the struct of arrays itself with an axis in place of each array. `None` marks a leaf without a batch
/// axis: an argument that all members share, or a result that is equal for all members.
///
/// Errors: `shape` as for [`vmap`], if no argument has a batch axis, if a result differs between members and
/// `out_axes` is `None` for it, or if axes and tree have different structures.
///
/// ```
/// use tapeloom::prelude::*;
/// // Multiplies each column of x by the same w; the results are columns.
/// let f = jit(vmap_axes((1, None), 1, |(x, w): (Var, Var)| x * w));
/// let y = f.call(([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0, 30.0, 40.0]);
///
/// // An ensemble of lines with different slopes and a common offset.
/// #[derive(Tree)]
/// struct Line<T> { slope: T, offset: T }
/// let axes = Line { slope: Some(0), offset: None };
/// let f = jit(vmap_axes((axes, None), 0, |(l, x): (Line<Var>, Var)| l.slope * x + l.offset));
/// let lines = Line { slope: Tensor::from([1.0, 2.0]), offset: Tensor::from(10.0) };
/// assert_eq!(f.call((&lines, 3.0))?.to_vec::<f64>()?, [13.0, 16.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "in_axes", alias = "out_axes", alias = "apply_along_axis")]
#[track_caller]
pub fn vmap_axes<A: Tree<Var>, B: Tree<Var>, F: Function<A, B, M>, M>(
    in_axes: impl BatchAxes<A>,
    out_axes: impl BatchAxes<B>,
    f: F,
) -> impl Fn(A) -> B {
    let (f, at) = (one(f), caller());
    move |x| vectorize(&f, &in_axes, &out_axes, at, x)
}

/// The batch axis of each leaf of a tree `A`: one axis or `None` for all leaves; a tuple, array or `Vec` with one
/// entry for each entry of a tuple, array or `Vec`; or a struct that derives `Tree` and holds an axis (`i32`) or
/// `Option<i32>` in place of each array.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not specify the batch axes of `{A}`",
    note = "give one axis or `None` for all leaves, a tuple with an entry for each part of a tuple, or the struct itself with an `Option<i32>` in place of each array"
)]
pub trait BatchAxes<A: Tree<Var>> {
    /// Appends the batch axis of each leaf to `out`. If the structure of the axes does not fit the tree, returns the
    /// path of the difference.
    #[doc(hidden)]
    fn each(&self, structure: &A::Structure, out: &mut Vec<Option<i32>>) -> Result<(), String>;
}

impl<A: Tree<Var>> BatchAxes<A> for i32 {
    fn each(&self, structure: &A::Structure, out: &mut Vec<Option<i32>>) -> Result<(), String> {
        BatchAxes::<A>::each(&Some(*self), structure, out)
    }
}

impl<A: Tree<Var>> BatchAxes<A> for Option<i32> {
    fn each(&self, structure: &A::Structure, out: &mut Vec<Option<i32>>) -> Result<(), String> {
        A::paths(structure, &mut String::new(), &mut |_| out.push(*self));
        Ok(())
    }
}

impl<A: Tree<Var>, X: BatchAxes<A>> BatchAxes<Vec<A>> for Vec<X> {
    fn each(
        &self,
        structure: &Vec<A::Structure>,
        out: &mut Vec<Option<i32>>,
    ) -> Result<(), String> {
        if self.len() != structure.len() {
            return Err(format!("{} axes for a `Vec` of {}", self.len(), structure.len()));
        }
        self.iter().zip(structure).try_for_each(|(x, s)| x.each(s, out))
    }
}

impl<A: Tree<Var>, X: BatchAxes<A>, const N: usize> BatchAxes<[A; N]> for [X; N] {
    fn each(
        &self,
        structure: &[A::Structure; N],
        out: &mut Vec<Option<i32>>,
    ) -> Result<(), String> {
        self.iter().zip(structure).try_for_each(|(x, s)| x.each(s, out))
    }
}

/// A leaf of a tree of batch axes: an axis, or `None`.
pub trait AxisLeaf: Leaf {
    /// Returns the axis, or `None` if the leaf has no batch axis.
    #[doc(hidden)]
    fn axis(&self) -> Option<i32>;
}

impl AxisLeaf for i32 {
    fn axis(&self) -> Option<i32> {
        Some(*self)
    }
}

impl AxisLeaf for Option<i32> {
    fn axis(&self) -> Option<i32> {
        *self
    }
}

/// Implements [`BatchAxes`] for structs that derive `Tree`: a struct of axes for a struct of arrays.
#[doc(hidden)]
pub fn axes_of_struct<L: AxisLeaf, X, A>(
    axes: &X,
    structure: &A::Structure,
    out: &mut Vec<Option<i32>>,
) -> Result<(), String>
where
    A: Tree<Var>,
    X: Tree<L, Structure = A::Structure>,
{
    if !axes.has_structure(structure) {
        let sides = ["the tree", "the axes"];
        return Err(different::<Var, A>(structure, &axes.structure(), "", sides));
    }
    axes.leaves(&mut |l| out.push(l.axis()));
    Ok(())
}

macro_rules! tuple {
    ($($A:ident $X:ident $i:tt),+) => {
        impl<$($A: Tree<Var>, $X: BatchAxes<$A>),+> BatchAxes<($($A,)+)> for ($($X,)+) {
            fn each(
                &self,
                structure: &<($($A,)+) as Tree<Var>>::Structure,
                out: &mut Vec<Option<i32>>,
            ) -> Result<(), String> {
                $(self.$i.each(&structure.$i, out)?;)+
                Ok(())
            }
        }
    };
}
tuple!(A0 X0 0);
tuple!(A0 X0 0, A1 X1 1);
tuple!(A0 X0 0, A1 X1 1, A2 X2 2);
tuple!(A0 X0 0, A1 X1 1, A2 X2 2, A3 X3 3);
tuple!(A0 X0 0, A1 X1 1, A2 X2 2, A3 X3 3, A4 X4 4);
tuple!(A0 X0 0, A1 X1 1, A2 X2 2, A3 X3 3, A4 X4 4, A5 X5 5);
tuple!(A0 X0 0, A1 X1 1, A2 X2 2, A3 X3 3, A4 X4 4, A5 X5 5, A6 X6 6);
tuple!(A0 X0 0, A1 X1 1, A2 X2 2, A3 X3 3, A4 X4 4, A5 X5 5, A6 X6 6, A7 X7 7);

/// Evaluates [`vmap_axes`] of `f` at `x`. `at` is the line of the user's call, for messages.
pub(crate) fn vectorize<A: Tree<Var>, B: Tree<Var>>(
    f: &dyn Fn(A) -> B,
    in_axes: &dyn BatchAxes<A>,
    out_axes: &dyn BatchAxes<B>,
    at: Loc,
    x: A,
) -> B {
    let (structure, args) = flatten(&x);
    let axes = Axes::of(in_axes, &structure);
    let (batch, moved, params) = Batch::of(args, axes, &Form::of::<A>(&structure), at);
    let opened = trace::frame("vmap", at, &params);
    let (staged, output) = stage_in(opened, f, &structure, moved);
    let results = batch.results(staged, Axes::of(out_axes, &output));
    rebuild(&output, results, at)
}

/// The batch axis of each leaf of a tree.
struct Axes {
    each: Vec<Option<i32>>,
    /// The path at which the structure of the axes does not fit the tree; `None` if it fits.
    misfit: Option<String>,
}

impl Axes {
    fn of<A: Tree<Var>>(axes: &dyn BatchAxes<A>, structure: &A::Structure) -> Axes {
        let mut each = Vec::new();
        let misfit = axes.each(structure, &mut each).err();
        Axes { each, misfit }
    }
}

/// The leaves of the arguments of a function over a batch, with their batch axes.
struct Batch {
    args: Vec<Var>,
    paths: Vec<String>,
    axes: Axes,
    /// The number of batch members, if any argument has a batch axis.
    size: Option<usize>,
    /// Errors of batch axes, each with the index of the leaf of the argument.
    wrong: Vec<(Problem, usize)>,
}

impl Batch {
    /// Moves the batch axes of the arguments to the front. Returns the moved arguments, and the parameters for tracing
    /// one member, which do not have this axis.
    fn of(args: Vec<Var>, mut axes: Axes, form: &Form, at: Loc) -> (Batch, Vec<Var>, Vec<Param>) {
        axes.each.resize(args.len(), None);
        let paths = form.paths("argument");
        let mut size: Option<(usize, &str)> = None;
        let mut wrong: Vec<(Problem, usize)> = Vec::new();
        let mut moved = Vec::with_capacity(args.len());
        let mut params = Vec::with_capacity(args.len());
        for (i, (v, axis)) in args.iter().zip(&axes.each).enumerate() {
            let mut param = Param::like(v.handle, at);
            let mut lifted = *v;
            if let Some(axis) = axis {
                let ty = v.ty(at);
                match resolve(*axis, ty.shape.len()) {
                    None => wrong.push((no_axis(&paths[i], *axis, &ty), i)),
                    Some(axis) => {
                        let n = ty.shape[axis];
                        match size {
                            None => size = Some((n, &paths[i])),
                            Some((m, _)) if m == n => {}
                            Some((m, first)) => wrong.push((unequal(first, m, &paths[i], n), i)),
                        }
                        lifted = move_axis(*v, axis, 0, at);
                        param.ty = ArrayType::new(ty.dtype, ty.shape.without(&[axis])).into();
                    }
                }
            }
            moved.push(lifted);
            params.push(param);
        }
        let size = size.map(|(size, _)| size);
        (Batch { args, paths, axes, size, wrong }, moved, params)
    }

    /// Emits the batched form of a function that was traced for one member, and returns its results with the batch axes
    /// `out`.
    fn results(self, mut staged: Staged, out: Axes) -> Vec<Var> {
        let Batch { args, paths, axes, size, wrong } = self;
        let at = staged.at;
        let poisoned = args.iter().any(|v| trace::is_poison(v.handle, at));
        for (problem, i) in &wrong {
            if !poisoned {
                let (role, ty) = (paths[*i].clone(), args[*i].ty(at));
                let note = Note { role, what: ty.to_string(), born: args[*i].handle.born() };
                let (problem, notes) = (problem.clone(), vec![note]);
                staged.report(Diagnostic { problem, at, notes, context: Vec::new() });
            }
        }
        if let Some(differ) = &axes.misfit {
            staged.report(Diagnostic::new(no_fit("in_axes", differ), at));
        }
        let Some(size) = size.filter(|_| axes.misfit.is_none()) else {
            if wrong.is_empty() && axes.misfit.is_none() && !poisoned {
                let problem = Problem::new(
                    Kind::Shape,
                    "`vmap` without a batched argument",
                    "give at least one leaf an axis other than `None`",
                );
                staged.report(Diagnostic::new(problem, at));
            }
            return staged.poison(&staged.result_types());
        };
        key_for_each(&mut staged, size);
        let types = staged.result_types();
        let batched = staged.mask(axes.each.iter().map(Option::is_some));
        let of = staged.derive(|module, f| transforms::batch(module, f, size, &batched));
        let Axes { each: mut out, misfit } = out;
        out.resize(types.len(), Some(0));
        if let Some(differ) = &misfit {
            staged.report(Diagnostic::new(no_fit("out_axes", differ), at));
        }
        let Some(of) = of.filter(|_| wrong.is_empty() && misfit.is_none()) else {
            let guess = |(ty, axis): (&ArrayType, &Option<i32>)| match axis {
                Some(_) => ArrayType { dtype: ty.dtype, shape: ty.shape.with_leading(size) },
                None => ty.clone(),
            };
            let types: Vec<ArrayType> = types.iter().zip(&out).map(guess).collect();
            return staged.poison(&types);
        };
        let y = staged.call(of.function, &staged.args, [], false);
        let results = y.into_iter().zip(&types).zip(of.batched_out.iter().zip(&out)).enumerate();
        let placed =
            results.map(|(i, ((y, ty), (on, axis)))| place(&staged, i, y, ty, size, *on, *axis));
        placed.collect()
    }
}

/// Moves the batch axis of result `i` from the front to `axis`. A result that is not batched is repeated, or returned
/// unchanged if `axis` is `None`.
fn place(
    staged: &Staged,
    i: usize,
    y: Var,
    ty: &ArrayType,
    size: usize,
    batched: bool,
    axis: Option<i32>,
) -> Var {
    let at = staged.at;
    let problem = match axis {
        None if !batched => return y,
        None => Problem::new(
            Kind::Shape,
            format!("result {i} of `vmap` differs over the batch, but `out_axes` says `None`"),
            "give it an axis, or reduce it over the batch outside",
        ),
        Some(axis) => match resolve(axis, ty.shape.len() + 1) {
            Some(axis) => {
                let front = if batched { y } else { spread(y, size, at) };
                return move_axis(front, 0, axis, at);
            }
            None => no_axis(&format!("result {i}"), axis, ty),
        },
    };
    staged.report(Diagnostic::new(problem, at));
    zeros_like_type(ty, at)
}

/// Adds a batch axis to a result that is equal for all members, by repeating the result along it.
fn spread(y: Var, size: usize, at: Loc) -> Var {
    let shape: Shape = y.ty(at).shape.with_leading(size);
    match y.handle.as_literal() {
        Some(l) => crate::ops::full_var(&shape, l, at),
        None => broadcast_var(insert_axis(y, 0, at), &shape, at),
    }
}

fn resolve(axis: i32, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let axis = i64::from(axis);
    let front = if axis < 0 { axis + rank } else { axis };
    usize::try_from(front).ok().filter(|_| front < rank)
}

fn no_axis(path: &str, axis: i32, ty: &ArrayType) -> Problem {
    Problem::new(
        Kind::Shape,
        format!("`vmap` over axis {axis} of `{path}`, which is {ty}"),
        "choose an axis that exists, or `None` for leaves without a batch axis",
    )
}

fn no_fit(which: &str, differ: &str) -> Problem {
    Problem::new(
        Kind::Shape,
        format!("`{which}` of `vmap_axes` does not fit its tree: {differ}"),
        "give it the structure of the tree, or one axis for all leaves",
    )
}

fn unequal(first: &str, m: usize, path: &str, n: usize) -> Problem {
    Problem::new(
        Kind::Shape,
        format!("`vmap` over batches of different size: `{first}` has {m}, `{path}` has {n}"),
        "give all batched leaves the same extent, or choose other axes",
    )
}

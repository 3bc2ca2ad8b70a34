//! Masks of batch members: computations in which only some members of a batch take part.
//!
//! A branch that some members take, or an iteration that some members still need, runs on the whole batch at
//! once. The values of a member that does not take part must not enter the computation: at these values the
//! function may have a pole, where a cotangent of zero times an infinite partial is NaN, or an inner loop may
//! not terminate. So such a member runs on the values of the first member that takes part, and its results are
//! dropped:
//!
//! ```text
//! y = where(alive, f(where(alive, x, x[first])), otherwise)
//! ```
//!
//! Every intermediate value, also in derivatives of any order, is then a value of a member that takes part.
//! `x[first]` has no derivative ([`Dropped`]), so for the other members the tangents of the operands are zero,
//! and so are their cotangents, including those of operands that all members share. A function that is linear
//! in `x` stays linear.
//!
//! Tapes (residuals of iterations) are not masked: their records were written by iterations that
//! already used the values of members that take part, and the cotangents of the records are zero for
//! the others.
//!
//! A user must not observe any effects of a member that does not take part. So if the function has
//! effects, or a rule that its derivatives would inline has, the members run one after the other
//! ([`one_by_one`]): in a loop over the members, in which a branch runs for a member or does not.
//!
//! Alternative: a primitive that runs `f` on all members and masks the results, as its own transpose. It would
//! need a copy of shared operands for each member, so that cotangents are masked before they are summed, and it
//! would not help with a loop that does not terminate.

use super::region_helpers::{function, instantiate};
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::problem::{Kind, Problem};
use crate::lang::types::{ArrayType, Type};
use crate::prim::control::loops::{Binding, Direction, Loop, LoopSpec, TripCount};
use crate::prim::elementwise::zeros;
use crate::prim::{
    ArgReduce, Broadcast, Dropped, DynamicSlice, Extremum, Op, Reduce, Reducer, Reshape, Scalar,
};
use smallvec::SmallVec;

/// The mask of a batch: which members take part in a computation.
pub(crate) struct Lanes<'b, 'm> {
    b: &'b Builder<'m>,
    /// Per batch member: whether it takes part, a `bool[size]`.
    alive: Atom,
    /// The index of the first member that takes part, an `i64[]`; 0 if there is none.
    first: Atom,
}

impl<'b, 'm> Lanes<'b, 'm> {
    /// Creates the mask from `alive`, a `bool[size]` with at least one member.
    pub(crate) fn new(b: &'b Builder<'m>, alive: Atom) -> Lanes<'b, 'm> {
        let first = b.emit1(ArgReduce { axis: 0, extremum: Extremum::Max }, &[alive]);
        Lanes { b, alive, first }
    }

    /// Emits whether any member takes part, a `bool[]`.
    pub(crate) fn any(&self) -> Atom {
        self.b.emit1(Reduce { reducer: Reducer::Or, axes: vec![0] }, &[self.alive])
    }

    /// Emits the batched array `x` with the rows of members that do not take part replaced by the row
    /// of the first member that does.
    pub(crate) fn safe(&self, x: Atom) -> Atom {
        let Type::Array(ArrayType { shape, .. }) = self.b.type_of(x) else { return x };
        let b = self.b;
        let mut sizes = shape.to_vec();
        sizes[0] = 1;
        let zero = Atom::from(Literal::i64(0));
        let starts = std::iter::once(self.first).chain((1..shape.len()).map(|_| zero));
        let read: SmallVec<[Atom; 4]> = std::iter::once(x).chain(starts).collect();
        let row = b.emit1(DynamicSlice { sizes }, &read);
        let row = b.emit1(Reshape { shape: shape[1..].into() }, &[row]);
        let row = b.emit1(Dropped, &[row]);
        let dims = (1..shape.len()).collect();
        self.choose(x, b.emit1(Broadcast { shape, dims }, &[row]))
    }

    /// Emits the batched array `x` with zeros for members that do not take part; for operands in which
    /// the computation is linear.
    pub(crate) fn zero(&self, x: Atom) -> Atom {
        let Type::Array(ty) = self.b.type_of(x) else { return x };
        self.choose(x, zeros(self.b, &ty))
    }

    /// Emits the rows of `x` for members that take part and the rows of `y` for the others.
    pub(crate) fn choose(&self, x: Atom, y: Atom) -> Atom {
        let b = self.b;
        let ty = b.type_of(x);
        let Type::Array(ArrayType { shape, .. }) = ty else {
            let message =
                format!("the members of a batch have different trip counts, and {ty} is carried");
            b.fail(Problem::new(Kind::Target, message, "carry arrays, or map over the members"));
            return x;
        };
        let mask = Broadcast { shape, dims: vec![0] };
        b.emit1(Scalar::Select, &[b.emit1(mask, &[self.alive]), x, y])
    }
}

/// Returns a function of the type of `f` that returns zeros, to be called for batch members that do not
/// take part. If `through[i]` is a parameter of the type of result `i`, result `i` is that parameter
/// instead.
pub(crate) fn skipped(
    m: &mut Module,
    f: FuncId,
    through: &[Option<usize>],
) -> Result<FuncId, Problem> {
    let f = m.get(f);
    let mut known = f.param_types();
    let linear = known.split_off(f.params.len());
    function(m, &format!("{}.skipped", f.name), [&known, &linear], |b, p, linear| {
        let params = [p, linear].concat();
        let given = |i: usize| through.get(i).copied().flatten().map(|p| params[p]);
        let result =
            |(i, ty): (usize, &Type)| instantiate(b, given(i).filter(|p| b.type_of(*p) == *ty), ty);
        f.result_types().iter().enumerate().map(result).collect()
    })
}

/// Emits a loop that runs `op` for one batch member after the other. The operands from `known` on are
/// linear; every result is batched.
pub(crate) fn one_by_one(
    b: &Builder<'_>,
    size: usize,
    op: &Op,
    args: &[Atom],
    batched: &[bool],
    known: usize,
) -> Result<Vec<Atom>, Problem> {
    let alone = |(x, on): (&Atom, &bool)| match (b.type_of(*x), on) {
        (ty, false) => Ok(ty),
        (Type::Array(ty), true) => Ok(Type::array(ty.dtype, &ty.shape[1..])),
        (ty @ Type::Tape(_), true) => Err(no_tapes(&ty)),
    };
    let types: Vec<Type> = args.iter().zip(batched).map(alone).collect::<Result<_, _>>()?;
    let body = b.with_module(|m| {
        let (known, linear) = types.split_at(known);
        let body = function(m, "member", [known, linear], |b, p, linear| {
            b.emit(op.clone(), &[p, linear].concat()).to_vec()
        })?;
        match m.function(body).result_types().iter().find(|ty| ty.as_array().is_none()) {
            Some(ty) => Err(no_tapes(ty)),
            None => Ok(body),
        }
    })?;
    let takes = batched.iter().map(|on| if *on { Binding::Xs } else { Binding::Const }).collect();
    let spec = LoopSpec { trip: TripCount::Static(size), direction: Direction::Up, takes };
    Ok(b.emit(Loop::new(body, spec), args).to_vec())
}

/// Returns the error for an `op` with a tape among its operands or results: tapes of members that run
/// one after the other may differ in length.
fn no_tapes(ty: &Type) -> Problem {
    let message = format!(
        "members of a batch that run one after the other save {ty}, each with another length"
    );
    let help =
        "give the inner loop the same trip count for each batch member, or `map` over members";
    Problem::new(Kind::Target, message, help)
}

//! Lanes: members of a batch, some of which take part in a computation and some of which do not.
//!
//! A branch that some members take, or an iteration that some still need, runs on the whole batch at once.
//! A member that takes no part must not be seen: its own values may lie where the function has poles,
//! and a cotangent of zero times an infinite partial is nan; an inner loop might never end on them. So
//! it runs on the values of the first member that does take part, and what comes out is dropped:
//!
//! ```text
//! y = where(alive, f(where(alive, x, x[first])), otherwise)
//! ```
//!
//! Every value on the way, in derivatives of any order too, is then one that a member which takes part
//! has anyway. `x[first]` carries no derivative ([`Dropped`]), so the tangents of the others are zeros on the way in
//! and their cotangents are zeros on the way out, also those that all members add up. A function that is linear in `x`
//! stays linear.
//!
//! Tapes stay as they are: their records were written by iterations that saw members that took part alone,
//! and hold zeros for the others where they hold cotangents.
//!
//! What a user can see of a function, its effects, must not be seen of such a member at all. So where there
//! are effects, in the function or in what its derivatives would open, members run one after the other
//! ([`one_by_one`]): a loop over them, in which a branch runs or does not.
//!
//! Alternative: a primitive that runs `f` on all and masks what comes out, as its own transpose. It
//! would need a copy for each member of whatever they share, so that cotangents are masked before they
//! are summed, and could not help a loop that does not end.

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

/// Which members of a batch take part.
pub(crate) struct Lanes<'b, 'm> {
    b: &'b Builder<'m>,
    /// `bool[size]`
    alive: Atom,
    /// The first that takes part, an `i64[]`; the first of all if none does.
    first: Atom,
}

impl<'b, 'm> Lanes<'b, 'm> {
    /// The members where `alive`, a `bool[size]` that is not empty, is true.
    pub(crate) fn new(b: &'b Builder<'m>, alive: Atom) -> Lanes<'b, 'm> {
        let first = b.emit1(ArgReduce { axis: 0, extremum: Extremum::Max }, &[alive]);
        Lanes { b, alive, first }
    }

    /// Whether any takes part.
    pub(crate) fn any(&self) -> Atom {
        self.b.emit1(Reduce { reducer: Reducer::Or, axes: vec![0] }, &[self.alive])
    }

    /// `x` with the value of the first that takes part in the place of those that do not.
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

    /// `x`, in which the computation is linear, with zeros in the place of those that do not.
    pub(crate) fn zero(&self, x: Atom) -> Atom {
        let Type::Array(ty) = self.b.type_of(x) else { return x };
        self.choose(x, zeros(self.b, &ty))
    }

    /// `x` where members take part, `y` where they do not.
    pub(crate) fn choose(&self, x: Atom, y: Atom) -> Atom {
        let b = self.b;
        let ty = b.type_of(x);
        let Type::Array(ArrayType { shape, .. }) = ty else {
            let message = format!("the members of a batch end by themselves, and {ty} is carried");
            b.fail(Problem::new(Kind::Target, message, "carry arrays, or map over the members"));
            return x;
        };
        let mask = Broadcast { shape, dims: vec![0] };
        b.emit1(Scalar::Select, &[b.emit1(mask, &[self.alive]), x, y])
    }
}

/// A function of the type of `f` that gives zeros: what a member does that takes no part. The results that `through`
/// has a parameter for are that parameter, if they are of its type.
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

/// `op` for one member of a batch after the other: a loop over them. The operands from `known` on are
/// linear; every result has the batch.
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
        (ty @ Type::Tape(_), true) => Err(kept(&ty)),
    };
    let types: Vec<Type> = args.iter().zip(batched).map(alone).collect::<Result<_, _>>()?;
    let body = b.with_module(|m| {
        let (known, linear) = types.split_at(known);
        let body = function(m, "member", [known, linear], |b, p, linear| {
            b.emit(op.clone(), &[p, linear].concat()).to_vec()
        })?;
        match m.function(body).result_types().iter().find(|ty| ty.as_array().is_none()) {
            Some(ty) => Err(kept(ty)),
            None => Ok(body),
        }
    })?;
    let takes = batched.iter().map(|on| if *on { Binding::Xs } else { Binding::Const }).collect();
    let spec = LoopSpec { trip: TripCount::Static(size), direction: Direction::Up, takes };
    Ok(b.emit(Loop::new(body, spec), args).to_vec())
}

/// Returns the refusal of members that run one after the other and save tapes of different lengths.
fn kept(ty: &Type) -> Problem {
    let message = format!(
        "members of a batch that run one after the other save {ty}, of another length each"
    );
    let help =
        "give the inner loop the same trip count for each batch member, or `map` over members";
    Problem::new(Kind::Target, message, help)
}

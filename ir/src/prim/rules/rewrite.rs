//! Rewrite rows: equalities that the e-graph and the peephole pass may use.
//!
//! A row stands with the primitive it is about, so that adding a primitive brings its algebra along,
//! and the passes name no primitive. Most rows are a pair of patterns; rows about attributes (axes,
//! shapes) are functions. Each is tested by evaluating both sides on samples, nan, infinities and
//! signed zeros included.
//!
//! ```
//! use tapeloom_ir::Op;
//! assert!(Op::rewrites().iter().any(|row| row.name == "add-zero"));
//! ```
//!
//! How a row helps: it has fewer or cheaper primitives on the right, or it brings both sides of a
//! later row together. Rows that swap operands are not needed (operands of commutative primitives
//! are matched in either order), and rows that only reassociate do harm: they multiply the forms of
//! every sum and have never made a program cheaper.

use crate::lang::literal::Literal;
use crate::lang::types::{Dtype, Shape, Type};
use crate::prim::facet::Facet;
use crate::prim::{Broadcast, Code, Lowering, Op, Scalar, Sign};

/// Whether both sides are equal bit by bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exactness {
    /// Equal in every bit of every number, signs of zeros included; any nan equals any nan.
    Exact,
    /// Equal in real arithmetic only; used in the relaxed mode.
    Reassociates,
}

/// A condition on the dtype of the matched value, which is what both sides are equal to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// None.
    Always,
    /// It is a float.
    Float,
    /// It is an integer.
    Integer,
    /// It is bool.
    Bool,
}

/// What is equal to what.
#[derive(Clone, Copy, Debug)]
pub enum Equality {
    /// Patterns in prefix form, over primitives without attributes: `(add ?x 0)` and `?x`. A bare
    /// number on the left matches a literal of that value in whatever dtype; on the right it takes
    /// the dtype that its place asks for. Commutative primitives match in either order. `?x!-0` and
    /// `?x!-` stand only for values of which that is known: never -0, never below zero or -0 (see
    /// [`Sign`]).
    Pattern {
        /// What is looked for.
        lhs: &'static str,
        /// What it equals.
        rhs: &'static str,
    },
    /// `outer(inner(x))` for two primitives of one operand: the primitives that, applied to `x` in
    /// order, give the same (an empty list is `x` itself), or `None` where the rule does not apply.
    /// The type is that of `x`.
    Compose(fn(outer: &Op, inner: &Op, x: &Type) -> Option<Vec<Op>>),
    /// `op(x)` for a primitive of one operand that is `x` itself, given the type of `x`.
    Identity(fn(op: &Op, x: &Type) -> bool),
    /// Anything else about an equation and the definitions of its operands.
    Site {
        /// The primitives at the root that the rule is about.
        outer: fn(&Op) -> bool,
        /// The primitives that the rule looks for among the definitions of operands. It is asked
        /// for every choice of such definitions, and for none.
        inner: fn(&Op) -> bool,
        /// What the equation equals.
        equal: fn(&Site<'_>) -> Option<Term>,
    },
}

/// An equation as an [`Equality::Site`] sees it.
#[derive(Clone, Debug)]
pub struct Site<'a> {
    /// The primitive.
    pub op: &'a Op,
    /// The type of its output.
    pub ty: &'a Type,
    /// Its operands.
    pub operands: &'a [SiteOperand<'a>],
}

/// An operand of a [`Site`].
#[derive(Clone, Debug)]
pub struct SiteOperand<'a> {
    /// Its type.
    pub ty: Type,
    /// Its value, if it is a literal.
    pub literal: Option<Literal>,
    /// What is known of the signs of its elements.
    pub sign: Sign,
    /// Its definition, if that is one the rule looks for.
    pub definition: Option<Definition<'a>>,
}

/// The definition of an operand of a [`Site`].
#[derive(Clone, Debug)]
pub struct Definition<'a> {
    /// The primitive.
    pub op: &'a Op,
    /// The types of its operands, and their values if they are literals.
    pub operands: Vec<(Type, Option<Literal>)>,
}

impl SiteOperand<'_> {
    /// The shape, if this is an array.
    pub fn shape(&self) -> Option<&Shape> {
        self.ty.as_array().map(|a| &a.shape)
    }
}

impl Definition<'_> {
    /// For a product or quotient with a literal: which operand is scaled, and the literal.
    pub fn scaled(&self) -> Option<(usize, Literal)> {
        match (self.op, self.operands.as_slice()) {
            (Op::Scalar(Scalar::Mul | Scalar::Div), [(_, None), (_, Some(c))]) => Some((0, *c)),
            (Op::Scalar(Scalar::Mul), [(_, Some(c)), (_, None)]) => Some((1, *c)),
            _ => None,
        }
    }
}

impl Rewrite {
    /// An equality that keeps every bit, whatever the dtype.
    pub(crate) fn exact(name: &'static str, rule: Equality, why: &'static str) -> Rewrite {
        Rewrite { name, rule, when: When::Always, exactness: Exactness::Exact, why }
    }
}

/// The right-hand side of an [`Equality::Site`].
#[derive(Clone, PartialEq, Debug)]
pub enum Term {
    /// An operand of the equation.
    Operand(usize),
    /// An operand of the definition of an operand: first which one of the equation, then which one
    /// of its definition.
    Inner(usize, usize),
    /// A constant.
    Literal(Literal),
    /// A primitive applied to terms.
    Apply(Op, Vec<Term>),
}

impl Term {
    /// A primitive of one operand.
    pub fn apply(op: impl Into<Op>, x: Term) -> Term {
        Term::Apply(op.into(), vec![x])
    }
}

impl Op {
    /// Whether the two operands may be exchanged.
    pub fn commutes(&self) -> bool {
        matches!(self.facet(), Facet::Elementwise { commutes: true })
    }

    /// Whether the primitive applies one function to corresponding elements, so that a literal may
    /// stand for an operand.
    pub fn is_elementwise(&self) -> bool {
        matches!(self.facet(), Facet::Elementwise { .. })
    }

    /// The primitive that makes an array of that shape from one scalar.
    pub fn fill(shape: &Shape) -> Op {
        Broadcast { shape: shape.clone(), dims: Vec::new() }.into()
    }

    /// The primitive whose result is a part of the result of this one, of that shape, if its operands are parts of the
    /// operands. Broadcasts state the shape of the result; of other primitives it follows from the operands.
    #[must_use]
    pub fn for_part(&self, shape: &[usize]) -> Op {
        match self {
            Op::Broadcast(b) => Broadcast { shape: shape.into(), dims: b.dims.clone() }.into(),
            other => other.clone(),
        }
    }

    /// The value of every element of the output, if it is one and the same, given those of the
    /// operands. Only what is true of arrays of any size is said here.
    pub fn uniform(
        &self,
        module: &crate::lang::module::Module,
        operands: &[crate::prim::Operand<'_>],
        values: &[Literal],
    ) -> Option<Literal> {
        match self.lower(module, operands) {
            Lowering::Elementwise(code) => Some(code.eval(values)),
            Lowering::Reshape | Lowering::Alias { .. } => values.first().copied(),
            Lowering::View { pieces, fill } => {
                let mut sources = pieces.iter().map(|p| p.operand).chain(fill);
                let first = values[sources.next()?];
                sources.all(|i| values[i] == first).then_some(first)
            }
            Lowering::Reduce { code, identity, axes } => {
                let x = *values.first()?;
                let shape = &operands.first()?.ty.as_array()?.shape;
                // Over no axes nothing is folded, not even with what a fold starts at.
                if axes.is_empty() {
                    return Some(x);
                }
                let count = axes.iter().fold(1usize, |n, a| n.saturating_mul(shape[*a]));
                let once = code.eval(&[identity, x]);
                match count {
                    0 => Some(identity),
                    1 => Some(once),
                    // One more of them changes nothing: zeros, extremes, bits, however many there are.
                    _ if code.eval(&[once, x]) == once => Some(once),
                    _ if matches!(code, Code::Add) => times(x, count),
                    _ => None,
                }
            }
            Lowering::Iota { .. }
            | Lowering::ArgReduce { .. }
            | Lowering::Cumulate { .. }
            | Lowering::ArgSort { .. }
            | Lowering::Contract { .. }
            | Lowering::DynamicSlice
            | Lowering::DynamicUpdateSlice
            | Lowering::Gather { .. }
            | Lowering::Scatter { .. }
            | Lowering::Host(_)
            | Lowering::Routine(_)
            | Lowering::Call(_)
            | Lowering::Branch { .. }
            | Lowering::Loop { .. }
            | Lowering::Missing(_) => None,
        }
    }
}

/// The sum of so many of a float, where no part of it is rounded, in whatever order.
fn times(x: Literal, count: usize) -> Option<Literal> {
    let digits = match x.dtype {
        Dtype::F64 => f64::MANTISSA_DIGITS,
        Dtype::F32 => f32::MANTISSA_DIGITS,
        Dtype::Bool | Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 => return None,
    };
    let number = Some(x.to_f64()).filter(|x| x.is_normal())?;
    // x is m 2ᵉ for an odd m, and a sum of k of them m k 2ᵉ.
    let fraction = number.to_bits() & ((1 << (f64::MANTISSA_DIGITS - 1)) - 1);
    let m = fraction | 1 << (f64::MANTISSA_DIGITS - 1);
    let largest = u128::from(m >> m.trailing_zeros()) * count as u128;
    let all = Literal::of(x.dtype, number * count as f64);
    (largest <= 1 << digits && all.to_f64().is_finite()).then_some(all)
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Rewrite {
    /// Unique name, shown by `explain`.
    pub name: &'static str,
    /// What equals what.
    pub rule: Equality,
    /// When it holds.
    pub when: When,
    /// How exactly.
    pub exactness: Exactness,
    /// Why it helps.
    pub why: &'static str,
}

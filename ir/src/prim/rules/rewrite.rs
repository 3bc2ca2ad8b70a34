//! Rewrite rules: equalities that the e-graph and the peephole pass may use.
//!
//! A rule is defined with its primitive, so that a new primitive brings its algebra along and passes name no primitive.
//! Most rules are a pair of patterns; rules about attributes (axes, shapes) are functions. Each rule is tested by
//! evaluating both sides on samples, including NaN, infinities and signed zeros.
//!
//! ```
//! use tapeloom_ir::Op;
//! assert!(Op::rewrites().iter().any(|row| row.name == "add-zero"));
//! ```
//!
//! A useful rule has fewer or cheaper primitives on the right, or brings both sides of a later rule together.
//! Rules that exchange operands are not needed (operands of commutative primitives are matched in either
//! order). Rules that only reassociate do harm: they multiply the forms of every sum and have never made a
//! program cheaper.

use crate::lang::literal::Literal;
use crate::lang::types::{Dtype, Shape, Type};
use crate::prim::facet::Facet;
use crate::prim::{Broadcast, Code, Lowering, Op, Scalar, Sign};

/// Whether the two sides of a rewrite rule are equal bit by bit or in real arithmetic only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exactness {
    /// The sides are equal in every bit of every number, including signs of zeros; all NaNs count as equal.
    Exact,
    /// The sides are equal in real arithmetic only; such rules are used in relaxed mode.
    Reassociates,
    /// The sides are equal, except that the right side may have 0 in place of a subnormal number and then computes with
    /// this 0. No rule is of this kind, only the pass `flush_subnormals`.
    Flushes,
}

/// A condition on the dtype of the value that both sides of a rule compute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// No condition.
    Always,
    /// The dtype is a float.
    Float,
    /// The dtype is an integer.
    Integer,
    /// The dtype is bool.
    Bool,
}

/// The two sides of a rewrite rule.
#[derive(Clone, Copy, Debug)]
pub enum Equality {
    /// A pair of patterns in prefix form, over primitives without attributes: `(add ?x 0)` and `?x`. A bare number on
    /// the left matches a literal of that value in any dtype. On the right it gets the dtype that its position
    /// requires. The operands of commutative primitives match in either order. `?x!-0` matches only values that are
    /// known to be never -0, and `?x!-` only values known to be never below zero or -0 (see [`Sign`]).
    Pattern {
        /// The pattern to match.
        lhs: &'static str,
        /// The term that replaces a match of `lhs`.
        rhs: &'static str,
    },
    /// `outer(inner(x))` for two primitives of one operand. Returns the primitives that, applied to `x` in
    /// order, give the same value (an empty list is `x` itself), or `None` if the rule does not apply. The type
    /// is the type of `x`.
    Compose(fn(outer: &Op, inner: &Op, x: &Type) -> Option<Vec<Op>>),
    /// Returns whether `op(x) = x`, for a primitive `op` of one operand, given the type of `x`.
    Identity(fn(op: &Op, x: &Type) -> bool),
    /// A rule by a function, which returns a term that equals the equation. The term may depend on the definitions of
    /// the equation's operands.
    Site {
        /// Whether the rule may apply to an equation with this primitive.
        outer: fn(&Op) -> bool,
        /// The primitives that the rule looks for in the definitions of operands. The rule is called for every
        /// combination of definitions by these primitives, and once without definitions.
        inner: fn(&Op) -> bool,
        /// Returns a term that the equation equals; `None` if the rule does not apply.
        equal: fn(&Site<'_>) -> Option<Term>,
    },
}

/// An equation as the function [`Equality::Site`]`::equal` sees it.
#[derive(Clone, Debug)]
pub struct Site<'a> {
    /// The primitive of the equation.
    pub op: &'a Op,
    /// The type of the equation's output.
    pub ty: &'a Type,
    /// The equation's operands.
    pub operands: &'a [SiteOperand<'a>],
    /// Whether all operands are the same value.
    pub same: bool,
}

/// An operand of a [`Site`].
#[derive(Clone, Debug)]
pub struct SiteOperand<'a> {
    /// The operand's type.
    pub ty: Type,
    /// The operand's value, if it is a literal.
    pub literal: Option<Literal>,
    /// The known signs of the operand's elements.
    pub sign: Sign,
    /// The equation that defines the operand; `None` if the rule does not need it.
    pub definition: Option<Definition<'a>>,
}

/// The definition of an operand of a [`Site`].
#[derive(Clone, Debug)]
pub struct Definition<'a> {
    /// The primitive that defines the operand.
    pub op: &'a Op,
    /// The types of the defining equation's operands, and their values if they are literals.
    pub operands: Vec<(Type, Option<Literal>)>,
    /// For each operand, whether it is known to be the result of a broadcast. A rule may use this to apply only where
    /// it saves work, but must be right for any operand.
    pub repeated: Vec<bool>,
}

impl SiteOperand<'_> {
    /// Returns the operand's shape, if the operand is an array.
    pub fn shape(&self) -> Option<&Shape> {
        self.ty.as_array().map(|a| &a.shape)
    }
}

impl Definition<'_> {
    /// If the definition is a product or quotient with a literal, returns the index of the other
    /// operand, and the literal.
    pub fn scaled(&self) -> Option<(usize, Literal)> {
        match (self.op, self.operands.as_slice()) {
            (Op::Scalar(Scalar::Mul | Scalar::Div), [(_, None), (_, Some(c))]) => Some((0, *c)),
            (Op::Scalar(Scalar::Mul), [(_, Some(c)), (_, None)]) => Some((1, *c)),
            _ => None,
        }
    }
}

impl Rewrite {
    /// Returns a rewrite rule whose sides are equal bit by bit, for all dtypes.
    pub(crate) fn exact(name: &'static str, rule: Equality, why: &'static str) -> Rewrite {
        Rewrite { name, rule, when: When::Always, exactness: Exactness::Exact, why }
    }
}

/// A term that equals an equation: the right-hand side of an [`Equality::Site`].
#[derive(Clone, PartialEq, Debug)]
pub enum Term {
    /// The operand of the equation with this index.
    Operand(usize),
    /// An operand of an operand's definition: the index of the equation's operand, then the index of
    /// the operand in that operand's definition.
    Inner(usize, usize),
    /// A literal.
    Literal(Literal),
    /// A primitive applied to terms.
    Apply(Op, Vec<Term>),
}

impl Term {
    /// Returns the term `op(x)`, for a primitive of one operand.
    pub fn apply(op: impl Into<Op>, x: Term) -> Term {
        Term::Apply(op.into(), vec![x])
    }
}

impl Op {
    /// Returns whether the primitive has two operands that may be exchanged.
    pub fn commutes(&self) -> bool {
        matches!(self.facet(), Facet::Elementwise { commutes: true })
    }

    /// Returns whether the primitive repeats the elements of its operand.
    pub fn repeats(&self) -> bool {
        matches!(self, Op::Broadcast(_))
    }

    /// Returns whether the primitive applies one function to corresponding elements, so that an operand may be
    /// a literal.
    pub fn is_elementwise(&self) -> bool {
        matches!(self.facet(), Facet::Elementwise { .. })
    }

    /// Returns the primitive that broadcasts a scalar to an array of this shape.
    pub fn fill(shape: &Shape) -> Op {
        Broadcast { shape: shape.clone(), dims: Vec::new() }.into()
    }

    /// Returns the primitive that computes a part of the result, of extents `shape`, from the
    /// corresponding parts of the operands. Only a broadcast changes: its attributes contain the shape
    /// of the result.
    #[must_use]
    pub fn for_part(&self, shape: &[usize]) -> Op {
        match self {
            Op::Broadcast(b) => Broadcast { shape: shape.into(), dims: b.dims.clone() }.into(),
            other => other.clone(),
        }
    }

    /// Returns the value of the output's elements if all of them are equal, given the values of
    /// operands whose elements are all equal.
    /// Uses only facts that hold for arrays of any size.
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
                // A fold over no axes returns its operand; it does not even apply the initial value.
                if axes.is_empty() {
                    return Some(x);
                }
                let count = axes.iter().fold(1usize, |n, a| n.saturating_mul(shape[*a]));
                let once = code.eval(&[identity, x]);
                match count {
                    0 => Some(identity),
                    1 => Some(once),
                    // If folding in one more `x` does not change the result (zeros, extrema, bits), the
                    // number of elements does not matter.
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

/// Returns the sum of `count` floats `x` if no partial sum is rounded, in any order of addition;
/// otherwise `None`.
fn times(x: Literal, count: usize) -> Option<Literal> {
    let digits = match x.dtype {
        Dtype::F64 => f64::MANTISSA_DIGITS,
        Dtype::F32 => f32::MANTISSA_DIGITS,
        Dtype::Bool | Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 => return None,
    };
    let number = Some(x.to_f64()).filter(|x| x.is_normal())?;
    // x is m·2ᵉ with m odd, so a sum of k copies of x is m·k·2ᵉ: it is exact if m·k fits into the
    // mantissa.
    let fraction = number.to_bits() & ((1 << (f64::MANTISSA_DIGITS - 1)) - 1);
    let m = fraction | 1 << (f64::MANTISSA_DIGITS - 1);
    let largest = u128::from(m >> m.trailing_zeros()) * count as u128;
    let all = Literal::of(x.dtype, number * count as f64);
    (largest <= 1 << digits && all.to_f64().is_finite()).then_some(all)
}

/// A rewrite rule.
#[derive(Clone, Copy, Debug)]
pub struct Rewrite {
    /// The unique name of the rule, shown by `explain`.
    pub name: &'static str,
    /// The two sides of the equality.
    pub rule: Equality,
    /// The dtypes for which the rule holds.
    pub when: When,
    /// Whether both sides are equal bit by bit.
    pub exactness: Exactness,
    /// The reason why the rule helps, as text: `one product instead of two`.
    pub why: &'static str,
}

//! The e-graph: programs as classes of equal terms.
//!
//! An e-node is one of the IR's own primitives with operands, so there is no second list of operators. A value from
//! outside the program is a leaf. A primitive with several outputs is one node (a *bundle*) and a projection for each
//! output. Operands of commutative primitives are sorted whenever a node is made or its operands are renamed, so
//! `a + b` and `b + a` are one node and rules need only one order.
//!
//! Every class has the type of its values and, if all elements equal one constant, that constant: such a class
//! gets the literal (or an array filled with it) as a node, which is constant folding.
//!
//! Model: Willsey et al., "egg: Fast and extensible equality saturation" (POPL 2021).

use super::rules::{Terms, fold};
use egg::{Analysis, DidMerge, EGraph, Id, Language};
use smallvec::{SmallVec, smallvec};
use tapeloom_ir::prim::{Given, Lowering, Operand, Sign};
use tapeloom_ir::{Literal, Module, Op, Type};

/// A node of the e-graph: a primitive applied to classes of equal terms, or a leaf.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum ENode {
    /// A value from outside the program (a parameter, say): an index into [`Facts::leaves`].
    Leaf(u32),
    /// A scalar constant.
    Literal(Literal),
    /// A primitive applied to operands; each operand is a class of equal terms.
    Apply(Op, SmallVec<[Id; 2]>),
    /// One output, by index, of a bundle (a primitive with several outputs).
    Output(u32, [Id; 1]),
}

/// The kind of a node: `ENode` without operands. A pattern matches nodes of one kind.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Head {
    Leaf,
    Literal,
    Apply(&'static str),
    Output,
}

impl Language for ENode {
    type Discriminant = Head;

    fn discriminant(&self) -> Head {
        match self {
            ENode::Leaf(_) => Head::Leaf,
            ENode::Literal(_) => Head::Literal,
            ENode::Apply(op, _) => Head::Apply(op.name()),
            ENode::Output(..) => Head::Output,
        }
    }

    fn matches(&self, other: &ENode) -> bool {
        match (self, other) {
            (ENode::Apply(f, x), ENode::Apply(g, y)) => f == g && x.len() == y.len(),
            (ENode::Output(i, _), ENode::Output(j, _)) => i == j,
            (ENode::Leaf(_) | ENode::Literal(_), _) => self == other,
            (ENode::Apply(..) | ENode::Output(..), _) => false,
        }
    }

    fn children(&self) -> &[Id] {
        match self {
            ENode::Leaf(_) | ENode::Literal(_) => &[],
            ENode::Apply(_, x) => x,
            ENode::Output(_, x) => x,
        }
    }

    fn children_mut(&mut self) -> &mut [Id] {
        match self {
            ENode::Leaf(_) | ENode::Literal(_) => &mut [],
            ENode::Apply(_, x) => x,
            ENode::Output(_, x) => x,
        }
    }

    /// Replaces each operand `x` by `f(x)`. Sorts the operands of a commutative primitive again.
    fn update_children<F: FnMut(Id) -> Id>(&mut self, mut f: F) {
        self.children_mut().iter_mut().for_each(|x| *x = f(*x));
        if let ENode::Apply(op, operands) = self
            && op.commutes()
        {
            operands.sort_unstable();
        }
    }
}

/// The facts about a class (a set of equal terms): types, sign, and value if constant.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Fact {
    /// The type of the class's value, or the types of a bundle's outputs.
    pub(crate) types: SmallVec<[Type; 1]>,
    /// Whether the class is a bundle: a primitive with no output or several outputs.
    pub(crate) bundle: bool,
    /// The number that every element of the value equals, if it is known.
    pub(crate) uniform: Option<Literal>,
    /// The possible signs of the value's elements.
    pub(crate) sign: Sign,
}

impl Fact {
    /// Returns the type of the class's value; `None` for a bundle (a primitive with several outputs).
    pub(crate) fn ty(&self) -> Option<&Type> {
        if self.bundle { None } else { self.types.first() }
    }

    /// Returns the value of the class, if it is a scalar whose value is known.
    pub(crate) fn literal(&self) -> Option<Literal> {
        let scalar = self.ty()?.as_array()?.shape.is_empty();
        self.uniform.filter(|_| scalar)
    }
}

/// The e-class analysis of `egg`: computes the facts about classes, and merges them when classes are merged.
pub(crate) struct Facts<'m> {
    module: &'m Module,
    /// The types of the values from outside the program, by index.
    leaves: Vec<Type>,
    /// The types of the node about to be added, if they are already known. Then `make` need not infer them.
    inferred: Option<SmallVec<[Type; 1]>>,
}

impl Analysis<ENode> for Facts<'_> {
    type Data = Fact;

    fn make(egraph: &mut EGraph<ENode, Self>, node: &ENode, _: Id) -> Fact {
        let one = |ty: Type| {
            let sign = Sign::of_type(&ty);
            Fact { types: smallvec![ty], bundle: false, uniform: None, sign }
        };
        match node {
            ENode::Leaf(i) => one(egraph.analysis.leaves[*i as usize].clone()),
            ENode::Literal(x) => {
                Fact { uniform: Some(*x), sign: Sign::of(*x), ..one(Type::scalar(x.dtype)) }
            }
            ENode::Output(i, [bundle]) => one(egraph[*bundle].data.types[*i as usize].clone()),
            ENode::Apply(op, operands) => {
                let types = egraph.analysis.inferred.take();
                let facts: SmallVec<[&Fact; 3]> =
                    operands.iter().map(|x| &egraph[*x].data).collect();
                let module = egraph.analysis.module;
                let types = types.unwrap_or_else(|| infer(module, op, &facts).unwrap_or_default());
                let bundle = types.len() != 1;
                let uniform = uniform(module, op, &facts, &types);
                let sign = match types.as_slice() {
                    [y] => sign(module, op, operands, &facts, y),
                    _ => Sign::Any,
                };
                Fact { types, bundle, uniform, sign }
            }
        }
    }

    fn merge(&mut self, a: &mut Fact, b: Fact) -> DidMerge {
        debug_assert_eq!(a.types, b.types, "only values of one type are equal");
        let (uniform, sign) = (a.uniform.or(b.uniform), a.sign.max(b.sign));
        let changed = DidMerge(
            a.uniform.is_some() != uniform.is_some() || a.sign != sign,
            b.uniform.is_some() != uniform.is_some() || b.sign != sign,
        );
        (a.uniform, a.sign) = (uniform, sign);
        changed
    }

    /// If the value of a class is a known constant, adds the constant as a node to the class: constant folding.
    fn modify(egraph: &mut EGraph<ENode, Self>, id: Id) {
        let data = &egraph[id].data;
        let (Some(x), Some(Type::Array(ty))) = (data.uniform, data.ty()) else { return };
        let (shape, scalar) = (ty.shape.clone(), ty.shape.is_empty());
        let literal = egraph.add(ENode::Literal(x));
        let constant = match scalar {
            true => literal,
            false => egraph.add(ENode::Apply(Op::fill(&shape), smallvec![literal])),
        };
        egraph.union(id, constant);
    }
}

/// Returns the types of operands, with their values if they are literals, for type inference; `None` if an operand is a
/// bundle (a primitive with several outputs).
pub(crate) fn describe<'t>(facts: &[&'t Fact]) -> Option<SmallVec<[Operand<'t>; 3]>> {
    facts.iter().map(|f| Some(Operand { ty: f.ty()?, literal: f.literal() })).collect()
}

fn infer(module: &Module, op: &Op, facts: &[&Fact]) -> Option<SmallVec<[Type; 1]>> {
    op.infer(module, &describe(facts)?).ok()
}

fn uniform(module: &Module, op: &Op, facts: &[&Fact], types: &[Type]) -> Option<Literal> {
    let [output] = types else { return None };
    let values: SmallVec<[Literal; 3]> = facts.iter().map(|f| f.uniform).collect::<Option<_>>()?;
    let types: SmallVec<[Type; 3]> =
        facts.iter().map(|f| f.ty().cloned()).collect::<Option<_>>()?;
    fold(module, op, &types, &values, output)
}

/// Returns the sign of the output, of type `y`. The sign may become more precise later: facts of classes only improve,
/// and egg then recomputes the facts of their users.
fn sign(module: &Module, op: &Op, operands: &[Id], facts: &[&Fact], y: &Type) -> Sign {
    let Some(described) = describe(facts) else { return Sign::Any };
    let given = described.iter().zip(facts).map(|(o, f)| Given::of(o.ty, f.sign, f.uniform));
    let given: SmallVec<[Given; 3]> = given.collect();
    op.sign(module, &described, &given, y, operands.windows(2).all(|w| w[0] == w[1]))
}

/// The e-graph of one function, over the primitives of a module.
pub(crate) struct Graph<'m> {
    pub(crate) egraph: EGraph<ENode, Facts<'m>>,
}

impl<'m> Graph<'m> {
    /// Makes an empty graph; `leaves` are the types of the values from outside the program.
    pub(crate) fn new(module: &'m Module, leaves: Vec<Type>) -> Graph<'m> {
        Graph { egraph: EGraph::new(Facts { module, leaves, inferred: None }) }
    }

    pub(crate) fn module(&self) -> &'m Module {
        self.egraph.analysis.module
    }

    /// Adds an equation whose output types are known; returns its class.
    pub(crate) fn insert(&mut self, op: &Op, operands: &[Id], types: &[Type]) -> Id {
        let operands = self.canonical(op, operands);
        self.egraph.analysis.inferred = Some(SmallVec::from(types));
        let id = self.egraph.add(ENode::Apply(op.clone(), operands));
        // If the node existed already, `make` was not called and has not consumed the types, so clear them here.
        self.egraph.analysis.inferred = None;
        id
    }

    /// Returns the operands; in an elementwise primitive, an array of one constant is replaced by the literal, if
    /// another operand determines the shape.
    pub(crate) fn canonical(&mut self, op: &Op, operands: &[Id]) -> SmallVec<[Id; 2]> {
        let mut operands: SmallVec<[Id; 2]> = SmallVec::from_slice(operands);
        if operands.len() < 2
            || !self.has_repeated(&operands)
            || !self.is_elementwise(op, &operands)
        {
            return operands;
        }
        for x in &mut operands {
            let data = &self.egraph[*x].data;
            if let (Some(value), None) = (data.uniform, data.literal()) {
                *x = self.egraph.add(ENode::Literal(value));
            }
        }
        operands
    }

    /// Returns whether an operand is an array of one constant while another operand is not constant.
    fn has_repeated(&self, operands: &[Id]) -> bool {
        let fact = |x: &Id| &self.egraph[*x].data;
        operands.iter().any(|x| fact(x).uniform.is_some() && fact(x).literal().is_none())
            && operands.iter().any(|x| fact(x).uniform.is_none())
    }

    fn is_elementwise(&self, op: &Op, operands: &[Id]) -> bool {
        let facts: SmallVec<[&Fact; 3]> = operands.iter().map(|x| &self.egraph[*x].data).collect();
        describe(&facts)
            .is_some_and(|x| matches!(op.lower(self.module(), &x), Lowering::Elementwise(_)))
    }

    /// Returns whether the primitive, applied to the operand `x`, is a view of `x`.
    pub(crate) fn is_view(&self, op: &Op, x: Id) -> bool {
        describe(&[&self.egraph[x].data]).is_some_and(|x| {
            matches!(op.lower(self.module(), &x), Lowering::View { .. } | Lowering::Reshape)
        })
    }

    fn infer(&self, op: &Op, operands: &[Id]) -> Option<SmallVec<[Type; 1]>> {
        let facts: SmallVec<[&Fact; 3]> = operands.iter().map(|x| &self.egraph[*x].data).collect();
        infer(self.module(), op, &facts)
    }
}

impl Terms for Graph<'_> {
    type Id = Id;

    fn ty(&self, id: Id) -> Option<Type> {
        self.egraph[id].data.ty().cloned()
    }

    fn literal(&self, id: Id) -> Option<Literal> {
        self.egraph[id].data.literal()
    }

    fn sign(&self, id: Id) -> Sign {
        self.egraph[id].data.sign
    }

    fn definitions(&self, id: Id, visit: &mut dyn FnMut(&Op, &[Id]) -> bool) {
        let class = &self.egraph[id];
        if class.data.bundle {
            return;
        }
        for node in &class.nodes {
            if let ENode::Apply(op, operands) = node
                && visit(op, operands)
            {
                return;
            }
        }
    }

    fn constant(&mut self, x: Literal) -> Id {
        self.egraph.add(ENode::Literal(x))
    }

    fn apply(&mut self, op: Op, operands: &[Id]) -> Option<Id> {
        let operands = self.canonical(&op, operands);
        let types = self.infer(&op, &operands)?;
        if types.len() != 1 {
            return None;
        }
        self.egraph.analysis.inferred = Some(types);
        let id = self.egraph.add(ENode::Apply(op, operands));
        self.egraph.analysis.inferred = None;
        Some(id)
    }
}

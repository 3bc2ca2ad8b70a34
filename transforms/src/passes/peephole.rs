//! Peephole: exact local rules, constant folding and hash-consing in one walk of linear time.
//!
//! Derivative rules emit equations as in mathematics, for example a product with a partial derivative that is 1, a sum
//! with a zero cotangent, or a negation of a negation. This pass removes such equations before more expensive passes
//! run; very long programs get no other simplification. One walk rebuilds the function through a *smart constructor*:
//! an equation about to be made is
//!
//! 1. put in canonical form (operands of commutative primitives sorted, literals last; operands that
//!    are arrays of one repeated constant replaced by the literal where another operand keeps the
//!    shape),
//! 2. folded, if every operand is constant,
//! 3. rewritten, if a row of [`Op::rewrites`] that is exact matches it and the definitions of its
//!    operands, which are simplified already,
//! 4. looked up among the equations made before.
//!
//! ```
//! use tapeloom_ir::{parse_module, print_module};
//! let mut module = parse_module("func @f(%x: f64[]) -> (f64[]) {
//!   %one: f64[] = add 0.5, 0.5
//!   %y: f64[] = mul %one, %x
//!   return %y
//! }").map_err(|e| e[0].clone())?;
//! let f = module.iter().next().map(|(id, _)| id).ok_or("no function")?;
//! let f = tapeloom_transforms::by_name("peephole")?.apply(&mut module, f)?;
//! assert!(module.function(f).equations.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Model: the simplifying constructors of Futhark's rewriter and Cranelift's mid-end.

use crate::passes::egraph::rules::{Found, Root, Rule, Rules, Terms, allowed, fold};
use crate::passes::live_equations::sweep;
use crate::passes::pass::{Pass, Run};
use cranelift_entity::SecondaryMap;
use smallvec::{SmallVec, smallvec};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{Effects, Exactness, Given, Lowering, Operand, Regions, Sign};
use tapeloom_ir::{
    Atom, Draft, FuncId, Function, Literal, Module, Op, Operands, OrderedMap, Origin, Outputs,
    Problem, Type, ValueId, ValueRemap,
};

/// The largest number of walks over one function. Another walk helps if a rule was not applied because other
/// equations read an inner term of its match: these equations may be gone by then.
const WALKS: usize = 3;

/// The largest number of rewrites that one original equation may cause: rewrites of the equation, of the results of
/// these rewrites, and of terms inside right-hand sides.
const FUEL: usize = 12;

/// The entry of the pass `peephole` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "peephole",
    about: "exact local rules are applied and constants folded",
    exactness: Exactness::Exact,
    run: Run::Function(peephole),
};

/// Returns function `id` simplified by exact local rules.
fn peephole(regions: &mut dyn Regions, module: &mut Module, id: FuncId) -> Result<FuncId, Problem> {
    let mut f = (*module.get(id)).clone();
    for _ in 0..WALKS {
        let (next, again) = walk(module, &f)?;
        f = sweep(regions, module, next)?;
        if !again {
            break;
        }
    }
    module.add(f)
}

/// Walks over `f` once. Returns the new function, which may have dead equations, and whether another walk may
/// simplify more.
fn walk(module: &Module, f: &Function) -> Result<(Function, bool), Problem> {
    let (draft, mut map) = ValueRemap::same_signature(f);
    let mut p = Peephole {
        module,
        rules: Rules::get(),
        draft,
        facts: SecondaryMap::with_capacity(f.types.len()),
        seen: OrderedMap::with_capacity_and_hasher(f.equations.len(), Default::default()),
        origin: Origin::default(),
        fuel: FUEL,
        changed: false,
        held_back: false,
    };
    let uses = f.use_counts();
    for (i, e) in f.equations.iter().enumerate() {
        let operands = map.all(&e.operands);
        p.origin = f.origin(i);
        p.fuel = FUEL;
        match e.outputs.as_slice() {
            [y] if planted(Fault::Mark)
                && e.op.effects(module) == Effects::Fixed
                && p.draft.type_of(operands[0]) == f.types[*y] =>
            {
                map.bind(*y, operands[0]);
            }
            [y] if e.op.effects(module) == Effects::Pure => {
                let made = p.make(&e.op, operands, &f.types[*y]);
                if let Atom::Value(v) = made {
                    p.facts[v].uses += uses[*y];
                }
                map.bind(*y, made);
            }
            outputs => {
                let types: Vec<Type> = outputs.iter().map(|o| f.types[*o].clone()).collect();
                let made = p.copy(e.op.clone(), operands, &types);
                map.define(e, made.into_iter().map(Atom::Value));
            }
        }
    }
    let again = p.changed && p.held_back;
    Ok((p.draft.close(map.results(f))?, again))
}

/// The facts about a value of the new function.
#[derive(Clone, Debug, Default)]
struct Fact {
    /// The index of the equation that defines the value; `None` for a parameter.
    equation: Option<u32>,
    /// The number that every element of the value equals, if it is known.
    uniform: Option<Literal>,
    /// The possible signs of the value's elements.
    sign: Sign,
    /// The number of reads, in the original function, of values that this value replaces.
    uses: u32,
}

struct Peephole<'m> {
    module: &'m Module,
    rules: &'static Rules,
    draft: Draft,
    facts: SecondaryMap<ValueId, Fact>,
    seen: OrderedMap<(Op, Operands), Outputs>,
    origin: Origin,
    fuel: usize,
    /// Whether this walk has rewritten, folded or merged an equation.
    changed: bool,
    /// Whether a rule matched and was not applied, because of other readers of its terms or of the limit `FUEL` on
    /// rewrites.
    held_back: bool,
}

impl Peephole<'_> {
    /// Returns an atom of type `ty` that equals `op` applied to `operands`: an existing value, a constant, or the
    /// output of a new equation.
    fn make(&mut self, op: &Op, mut operands: Operands, ty: &Type) -> Atom {
        self.literals(op, &mut operands);
        if op.commutes() {
            operands.sort_unstable();
        }
        if let Some(x) = self.fold(op, &operands, ty)
            && let Type::Array(array) = ty
        {
            self.changed |= *op != Op::fill(&array.shape);
            if array.shape.is_empty() {
                return x.into();
            }
            let filled = self.find_or_push(Op::fill(&array.shape), smallvec![x.into()], ty);
            self.facts[filled].uniform = Some(x);
            return filled.into();
        }
        let key = (self.module.unphased(op), operands);
        if let Some(outputs) = self.seen.get(&key) {
            self.changed = true;
            return outputs[0].into();
        }
        self.held_back |= self.fuel == 0;
        if self.fuel > 0 {
            self.fuel -= 1;
            if let Some(better) = self.rewrite(op, &key.1, ty) {
                self.changed = true;
                return better;
            }
        }
        self.find_or_push(op.clone(), key.1, ty).into()
    }

    /// Applies the first exact shrinking rule that matches the equation and does not enlarge the program; returns
    /// the result.
    fn rewrite(&mut self, op: &Op, operands: &[Atom], ty: &Type) -> Option<Atom> {
        let rules = self.rules;
        let mut found: SmallVec<[Found<Atom>; 1]> = SmallVec::new();
        let root = Root { op, operands, ty };
        let usable = |r: &Rule| allowed(&r.row, false) && r.shrinks;
        let mut held_back = false;
        rules.search(&*self, root, usable, &mut |f| {
            // If other equations read an inner term, the term stays; then the right-hand side may have at most one
            // equation.
            let shared = f.inner.iter().any(|a| a.value().is_some_and(|v| self.facts[v].uses > 1));
            if f.size(rules) <= 1 || !shared {
                found.push(f);
            } else {
                held_back = true;
            }
            false
        });
        self.held_back |= held_back;
        found.iter().find_map(|f| rules.build(self, f, ty))
    }

    /// In an elementwise primitive, replaces operands that are arrays of one repeated constant by literals, if
    /// another operand determines the shape.
    fn literals(&self, op: &Op, operands: &mut [Atom]) {
        let repeated = |a: &Atom| a.value().and_then(|v| self.facts[v].uniform);
        let constant = |a: &Atom| a.literal().is_some() || repeated(a).is_some();
        if operands.len() > 1
            && operands.iter().any(|a| repeated(a).is_some())
            && !operands.iter().all(constant)
            && self.is_elementwise(op, operands)
        {
            for a in operands {
                *a = repeated(a).map_or(*a, Atom::Literal);
            }
        }
    }

    fn is_elementwise(&self, op: &Op, operands: &[Atom]) -> bool {
        let types = self.types(operands);
        let operands: SmallVec<[Operand<'_>; 3]> = describe(operands, &types).collect();
        matches!(op.lower(self.module, &operands), Lowering::Elementwise(_))
    }

    /// Returns the number that every element of the output equals, if all operands are constant.
    fn fold(&self, op: &Op, operands: &[Atom], ty: &Type) -> Option<Literal> {
        let value = |a: &Atom| match a {
            Atom::Literal(l) => Some(*l),
            Atom::Value(v) => self.facts[*v].uniform,
        };
        let values: SmallVec<[Literal; 3]> = operands.iter().map(value).collect::<Option<_>>()?;
        fold(self.module, op, &self.types(operands), &values, ty)
    }

    /// Returns the possible signs of the elements of the output of `op` applied to `operands`.
    fn sign_of(&self, op: &Op, operands: &[Atom], ty: &Type) -> Sign {
        let types = self.types(operands);
        let described: SmallVec<[Operand<'_>; 3]> = describe(operands, &types).collect();
        let given = operands.iter().zip(&types).map(|(a, ty)| match a {
            Atom::Literal(x) => Given::literal(*x),
            Atom::Value(v) => {
                let fact = &self.facts[*v];
                Given::of(ty, fact.sign, fact.uniform)
            }
        });
        let given: SmallVec<[Given; 3]> = given.collect();
        op.sign(self.module, &described, &given, ty, operands.windows(2).all(|w| w[0] == w[1]))
    }

    fn types(&self, atoms: &[Atom]) -> SmallVec<[Type; 3]> {
        atoms.iter().map(|a| self.draft.type_of(*a)).collect()
    }

    /// Returns the output of an equal earlier equation, or emits the equation, which must have one output.
    fn find_or_push(&mut self, op: Op, operands: Operands, ty: &Type) -> ValueId {
        self.copy(op, operands, std::slice::from_ref(ty))[0]
    }

    /// Returns the outputs of an equal earlier equation, or emits the equation as it is, without simplifying it.
    fn copy(&mut self, op: Op, operands: Operands, types: &[Type]) -> Outputs {
        if op.effects(self.module) != Effects::Pure {
            return self.draft.push(op, operands, types, self.origin);
        }
        let key = (self.module.unphased(&op), operands);
        if let Some(outputs) = self.seen.get(&key) {
            return outputs.clone();
        }
        let equation = self.draft.equations().len() as u32;
        let outputs = self.draft.push(op, key.1.clone(), types, self.origin);
        for v in &outputs {
            self.facts[*v].equation = Some(equation);
        }
        if let ([y], [ty]) = (outputs.as_slice(), types) {
            self.facts[*y].sign = self.sign_of(&key.0, &key.1, ty);
        }
        self.seen.insert(key, outputs.clone());
        outputs
    }
}

impl Terms for Peephole<'_> {
    type Id = Atom;

    fn ty(&self, a: Atom) -> Option<Type> {
        Some(self.draft.type_of(a))
    }

    fn literal(&self, a: Atom) -> Option<Literal> {
        a.literal()
    }

    fn sign(&self, a: Atom) -> Sign {
        match a {
            Atom::Literal(x) => Sign::of(x),
            Atom::Value(v) => self.facts[v].sign.max(Sign::of_type(&self.draft.type_of(a))),
        }
    }

    fn definitions(&self, a: Atom, visit: &mut dyn FnMut(&Op, &[Atom]) -> bool) {
        let equation = a.value().and_then(|v| self.facts[v].equation);
        if let Some(e) = equation.and_then(|i| self.draft.equations().get(i as usize))
            && e.outputs.len() == 1
        {
            visit(&e.op, &e.operands);
        }
    }

    fn constant(&mut self, x: Literal) -> Atom {
        x.into()
    }

    fn apply(&mut self, op: Op, operands: &[Atom]) -> Option<Atom> {
        let types = self.types(operands);
        let described: SmallVec<[Operand<'_>; 3]> = describe(operands, &types).collect();
        let inferred = op.infer(self.module, &described).ok()?;
        let [ty] = inferred.as_slice() else { return None };
        Some(self.make(&op, SmallVec::from_slice(operands), ty))
    }
}

/// Iterates over operands as types, with their values if they are literals, for type inference.
fn describe<'t>(atoms: &'t [Atom], types: &'t [Type]) -> impl Iterator<Item = Operand<'t>> {
    atoms.iter().zip(types).map(|(a, ty)| Operand { ty, literal: a.literal() })
}

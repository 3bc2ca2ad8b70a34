//! Every rewrite row, tested by evaluating both sides.
//!
//! Pattern rows run on every dtype they apply to, at all combinations of a list of values with
//! nan, infinities and signed zeros in it. Rows that are functions run on instances made from the
//! samples of all primitives, chained where types fit. Exact rows must agree in every bit (zeros may
//! differ in sign, nans in payload), the others to rounding.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::rules::{Form, Pattern, Rules, Terms, build_pattern, build_term, holds};
use std::collections::BTreeSet;
use tapeloom_ir::prim::{Exactness, Operand, Sample, Site, SiteOperand};
use tapeloom_ir::{
    ArrayType, Atom, Builder, Draft, Dtype, Literal, Module, Op, Tensor, Type, eval,
};

/// Terms that are equations as they come: nothing is simplified on the way.
struct Plain<'a, 'm>(&'a Builder<'m>);

impl Terms for Plain<'_, '_> {
    type Id = Atom;
    fn ty(&self, a: Atom) -> Option<Type> {
        Some(self.0.type_of(a))
    }
    fn literal(&self, a: Atom) -> Option<Literal> {
        a.literal()
    }
    fn definitions(&self, _: Atom, _: &mut dyn FnMut(&Op, &[Atom]) -> bool) {}
    fn constant(&mut self, x: Literal) -> Atom {
        x.into()
    }
    fn apply(&mut self, op: Op, operands: &[Atom]) -> Option<Atom> {
        self.0.try_emit(op, operands).ok().filter(|ys| ys.len() == 1).map(|ys| ys[0])
    }
}

/// Runs both sides, built by `build` on parameters for `args`. `None`: the sides do not type.
fn sides(
    module: &mut Module,
    args: &[Tensor],
    build: impl FnOnce(&mut Plain<'_, '_>, &[Atom]) -> Option<(Atom, Atom)>,
) -> Option<[Tensor; 2]> {
    let mut draft = Draft::new("sides");
    let params: Vec<Atom> = args.iter().map(|t| draft.param(Type::Array(t.ty().clone()))).collect();
    let (lhs, mut rhs) = {
        let b = Builder::new(module, &mut draft);
        let (lhs, rhs) = build(&mut Plain(&b), &params)?;
        (lhs, rhs)
    };
    let (want, got) = (draft.type_of(lhs), draft.type_of(rhs));
    if want != got && rhs.literal().is_some() {
        let Type::Array(a) = &want else { return None };
        rhs = Builder::new(module, &mut draft).emit1(Op::fill(&a.shape), &[rhs]);
    }
    assert_eq!(draft.type_of(rhs), want, "the sides have different types");
    let f = draft.finish(module, vec![lhs, rhs]).unwrap();
    eval(module, f, args).unwrap().try_into().ok()
}

/// Whether two elements agree as the row promises.
fn agree(exactness: Exactness, x: Literal, y: Literal) -> bool {
    let (a, b) = (x.to_f64(), y.to_f64());
    if x == y || (x.is_zero() && y.is_zero()) || (a.is_nan() && b.is_nan()) {
        return true;
    }
    let epsilon = if x.dtype == Dtype::F32 { 1e-4 } else { 1e-9 };
    exactness == Exactness::Reassociates
        && x.dtype.is_float()
        && (!a.is_finite() || !b.is_finite() || (a - b).abs() <= epsilon * (1.0 + a.abs()))
}

fn check(name: &str, exactness: Exactness, what: &str, [x, y]: &[Tensor; 2]) {
    for i in 0..x.elements() {
        let (x, y) = (x.get(i), y.get(i));
        assert!(agree(exactness, x, y), "{name}: {what}, element {i}: {x} is not {y}");
    }
}

/// The values that variables take.
fn values(dtype: Dtype, exactness: Exactness) -> Vec<Literal> {
    let numbers: &[f64] = match (dtype, exactness) {
        (Dtype::Bool, _) => &[0.0, 1.0],
        (_, Exactness::Exact) if dtype.is_float() => &[
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.3,
            -2.7,
            1e-310,
            1e300,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ],
        (_, Exactness::Reassociates) if dtype.is_float() => &[0.4, 1.0, -0.7, 2.6, -1.3],
        _ => &[0.0, 1.0, -1.0, 2.0, 7.0, -5.0, 31.0, 64.0, 2147483647.0, -2147483648.0],
    };
    let mut all: Vec<Literal> = numbers.iter().map(|x| Literal::of(dtype, *x)).collect();
    all.dedup();
    all
}

/// One tensor per variable; together they run through all combinations of values.
fn combinations(dtypes: &[Dtype], exactness: Exactness) -> Vec<Tensor> {
    let lists: Vec<Vec<Literal>> = dtypes.iter().map(|d| values(*d, exactness)).collect();
    let total: usize = lists.iter().map(Vec::len).product();
    let mut period = 1;
    let column = |(dtype, list): (&Dtype, &Vec<Literal>)| {
        let mut t = Tensor::zeros(&ArrayType::new(*dtype, [total]));
        for i in 0..total {
            t.set(i, list[i / period % list.len()]);
        }
        period *= list.len();
        t
    };
    dtypes.iter().zip(&lists).map(column).collect()
}

/// Which variables stand where another dtype than that of the whole is wanted is found by trying.
fn pattern_row(rule: &super::rules::Rule) {
    let Form::Pattern { lhs, rhs, variables, at_hand } = &rule.form else { return };
    let row = &rule.row;
    let mut applied = 0;
    for dtype in Dtype::ALL {
        let mut tried = BTreeSet::new();
        for mask in 0..1u32 << variables {
            let dtypes: Vec<Dtype> = (0..*variables)
                .map(|v| if mask >> v & 1 == 1 { Dtype::Bool } else { dtype })
                .collect();
            if !tried.insert(dtypes.clone()) {
                continue;
            }
            let args = combinations(&dtypes, row.exactness);
            // A number on the left may have any dtype; the whole's may be bool (a comparison).
            for whole in [dtype, Dtype::Bool] {
                let results = sides(&mut Module::new(), &args, |terms, params| {
                    let left = build_pattern(terms, lhs, params, whole)?;
                    let ty = terms.ty(left)?;
                    let hand = at_hand.map_or(Some(ty.clone()), |v| terms.ty(params[v]));
                    if !holds(row.when, hand.as_ref()) {
                        return None;
                    }
                    let right = build_pattern(terms, rhs, params, ty.as_array()?.dtype);
                    let right = right.unwrap_or_else(|| panic!("{}: no right side", row.name));
                    Some((left, right))
                });
                if let Some(results) = results {
                    check(row.name, row.exactness, &format!("{dtypes:?}"), &results);
                    applied += 1;
                    break;
                }
            }
        }
    }
    assert!(applied > 0, "{} applies to no dtype", row.name);
}

#[test]
fn patterns_hold() {
    for rule in &Rules::get().all {
        pattern_row(rule);
    }
}

#[test]
fn every_row_compiles_and_names_are_unique() {
    let rows = Op::rewrites();
    assert_eq!(Rules::get().all.len(), rows.len(), "a pattern does not parse");
    let names: BTreeSet<&str> = rows.iter().map(|r| r.name).collect();
    assert_eq!(names.len(), rows.len(), "two rows of one name");
    assert!(rows.iter().all(|r| !r.why.is_empty()));
    for rule in &Rules::get().all {
        if let Form::Pattern { lhs, .. } = &rule.form {
            assert!(matches!(lhs, Pattern::Apply(..)));
        }
    }
}

/// The samples whose primitive has one output, with the type of it, and their primitives.
fn instances(module: &mut Module) -> (Vec<(Sample, Type)>, Vec<Op>) {
    let mut samples = Vec::new();
    let mut ops = BTreeSet::new();
    for s in Op::samples(module) {
        let types: Vec<Type> = s.operands.iter().map(|t| Type::Array(t.ty().clone())).collect();
        let operands: Vec<Operand<'_>> =
            types.iter().map(|ty| Operand { ty, literal: None }).collect();
        let Ok(inferred) = s.op.infer(module, &operands) else { continue };
        if let [ty] = inferred.as_slice() {
            ops.insert(s.op.clone());
            samples.push((s, ty.clone()));
        }
    }
    (samples, ops.into_iter().collect())
}

#[test]
fn functions_hold() {
    let mut module = Module::new();
    let (samples, ops) = instances(&mut module);
    let mut operands: Vec<Tensor> = Vec::new();
    for x in samples.iter().flat_map(|(s, _)| &s.operands) {
        // One tensor per type is enough for rows about attributes and shapes.
        if operands.iter().all(|y| y.ty() != x.ty()) {
            operands.push(x.clone());
        }
    }
    for rule in &Rules::get().all {
        let (name, exactness) = (rule.row.name, rule.row.exactness);
        let mut applied = 0;
        let mut run = |args: &[Tensor],
                       what: String,
                       build: &mut dyn FnMut(
            &mut Plain<'_, '_>,
            &[Atom],
        ) -> Option<(Atom, Atom)>| {
            if let Some(results) = sides(&mut module, args, build) {
                check(name, exactness, &what, &results);
                applied += 1;
            }
        };
        match &rule.form {
            Form::Pattern { .. } => continue,
            Form::Identity(is) => {
                for x in &operands {
                    let ty = Type::Array(x.ty().clone());
                    for op in ops.iter().filter(|op| is(op, &ty)) {
                        run(std::slice::from_ref(x), format!("{op:?} of {ty}"), &mut |terms, x| {
                            let left = terms.apply(op.clone(), x)?;
                            holds(rule.row.when, terms.ty(left).as_ref()).then_some((left, x[0]))
                        });
                    }
                }
            }
            Form::Compose(equal) => {
                for (s, _) in &samples {
                    let [x] = s.operands.as_slice() else { continue };
                    let ty = Type::Array(x.ty().clone());
                    for op in &ops {
                        let mut build = |terms: &mut Plain<'_, '_>, x: &[Atom]| {
                            let inner = terms.apply(s.op.clone(), x)?;
                            let left = terms.apply(op.clone(), &[inner])?;
                            if !holds(rule.row.when, terms.ty(left).as_ref()) {
                                return None;
                            }
                            let chain = equal(op, &s.op, &ty)?;
                            let right =
                                chain.iter().try_fold(x[0], |x, op| terms.apply(op.clone(), &[x]));
                            let right = right.unwrap_or_else(|| {
                                panic!("{name}: {op:?} of {:?} has no right side", s.op)
                            });
                            Some((left, right))
                        };
                        // Most pairs are not what the rule is about: ask before building.
                        if fits(op, &s.op) {
                            run(&s.operands, format!("{op:?} of {:?}", s.op), &mut build);
                        }
                    }
                }
            }
            Form::Site { outer, inner, equal } => {
                let roots: Vec<&Op> = ops.iter().filter(|op| outer(op)).collect();
                for (s, y) in samples.iter().filter(|(s, _)| inner(&s.op)) {
                    let Type::Array(y) = y else { continue };
                    for op in &roots {
                        site_instances(op, s, y, &mut |args, picks, what| {
                            run(args, what, &mut |terms, params| {
                                site_sides(terms, op, s, picks, params, *equal, rule)
                            });
                        });
                    }
                }
                for (s, _) in samples.iter().filter(|(s, _)| outer(&s.op)) {
                    run(&s.operands, format!("{:?}", s.op), &mut |terms, params| {
                        let picks: Vec<Pick> = params.iter().map(|_| Pick::Plain).collect();
                        site_sides(terms, &s.op, s, &picks, params, *equal, rule)
                    });
                }
            }
        }
        assert!(applied > 0, "{name} applies to no chain of samples");
    }
}

/// Chains of two scalar functions are covered by patterns; building them all would take long.
fn fits(outer: &Op, inner: &Op) -> bool {
    let scalar = |op: &Op| op.attributes().is_empty();
    !(scalar(outer) && scalar(inner))
}

/// What an operand of a generated equation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pick {
    /// The sample's primitive applied to its operands.
    Inner,
    /// A parameter of the same type as the sample's output.
    Plain,
    /// A literal.
    Number,
}

/// Calls `f` with every way to give `op` operands out of a sample.
fn site_instances(
    op: &Op,
    s: &Sample,
    y: &ArrayType,
    f: &mut dyn FnMut(&[Tensor], &[Pick], String),
) {
    let mut plain = Tensor::zeros(y);
    for i in 0..plain.elements() {
        plain.set(i, Literal::of(y.dtype, (i as f64 + 1.0) * 0.75));
    }
    for arity in 1..=3u32 {
        for n in 0..3usize.pow(arity) {
            let pick = |k: u32| [Pick::Inner, Pick::Plain, Pick::Number][n / 3usize.pow(k) % 3];
            let picks: Vec<Pick> = (0..arity).map(pick).collect();
            if picks.contains(&Pick::Inner) {
                let mut args = s.operands.clone();
                args.push(plain.clone());
                f(&args, &picks, format!("{op:?} of {picks:?} with {:?}", s.op));
            }
        }
    }
}

fn site_sides(
    terms: &mut Plain<'_, '_>,
    op: &Op,
    s: &Sample,
    picks: &[Pick],
    params: &[Atom],
    equal: fn(&Site<'_>) -> Option<tapeloom_ir::prim::Term>,
    rule: &super::rules::Rule,
) -> Option<(Atom, Atom)> {
    let name = rule.row.name;
    let own = &params[..s.operands.len()];
    let mut operands = Vec::new();
    for (i, pick) in picks.iter().enumerate() {
        operands.push(match pick {
            Pick::Inner => terms.apply(s.op.clone(), own)?,
            // In a sample of the root itself every operand is a parameter of its own.
            Pick::Plain => *params.get(own.len()).unwrap_or(&params[i]),
            Pick::Number => {
                let dtype = terms.ty(*params.last()?)?.as_array()?.dtype;
                Literal::of(dtype, 4.0).into()
            }
        });
    }
    let left = terms.apply(op.clone(), &operands)?;
    let ty = terms.ty(left)?;
    let described: Vec<SiteOperand<'_>> = operands
        .iter()
        .zip(picks)
        .map(|(x, pick)| SiteOperand {
            ty: terms.0.type_of(*x),
            literal: x.literal(),
            definition: (*pick == Pick::Inner)
                .then(|| (&s.op, own.iter().map(|a| (terms.0.type_of(*a), a.literal())).collect())),
        })
        .collect();
    if !holds(rule.row.when, Some(&ty)) {
        return None;
    }
    let term = equal(&Site { op, ty: &ty, operands: &described })?;
    let inner: Vec<_> = picks
        .iter()
        .map(|p| if *p == Pick::Inner { own.iter().copied().collect() } else { [].into() })
        .map(|v: Vec<Atom>| v.into())
        .collect();
    let right = build_term(terms, &term, &operands, &inner);
    Some((
        left,
        right.unwrap_or_else(|| panic!("{name}: {op:?} with {:?} has no right side", s.op)),
    ))
}

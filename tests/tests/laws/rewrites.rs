//! Rewrite rules of primitives: both sides of every rule are evaluated and compared.
//!
//! Patterns are evaluated on every combination of interesting numbers, in every dtype in which they type-check.
//! Compositions are tried on every pair of unary primitives among the samples, at the numbers of the samples and at
//! edges. The sides of exact rules must agree in every bit, signs of zeros included. A rule that no case exercises
//! fails too, because it is untested.

use std::collections::{BTreeMap, HashMap};
use std::iter::Peekable;
use std::str::SplitWhitespace;
use tapeloom_ir::prim::{
    Attributes, Definition, Equality, Exactness, Operand, Rewrite, Sign, Site, SiteOperand, Term,
    When,
};
use tapeloom_ir::{
    ArrayType, Atom, Builder, Draft, Dtype, Literal, Module, Op, Tensor, Type, eval,
};
use tapeloom_tests::{Agreement, Elements, Rng, Sweep, cases, edge_tensors, tensor_of};

#[test]
fn both_sides_are_equal() {
    let mut module = Module::new();
    let unary = unary(&mut module);
    let mut by_operand: HashMap<&Type, Vec<&Unary>> = HashMap::new();
    for u in &unary {
        by_operand.entry(&u.x).or_default().push(u);
    }
    let mut failures = Vec::new();
    let rows = Sweep::Rewrites.all(Op::rewrites());
    for row in &rows {
        let outcome = match row.rule {
            Equality::Pattern { lhs, rhs } => pattern(&module, row, lhs, rhs),
            Equality::Compose(rule) => {
                let outer = |inner: &Unary| by_operand.get(&inner.y).into_iter().flatten();
                let pairs = unary.iter().flat_map(|inner| outer(inner).map(move |o| (o, inner)));
                exercise(pairs, |(outer, inner)| {
                    let applies = holds(row.when, &inner.y);
                    let replacement = rule(&outer.op, &inner.op, &inner.x).filter(|_| applies)?;
                    let before = [&inner.op, &outer.op];
                    let operands = variants(row, &inner.operand);
                    let each = |x: &Tensor| compare(&module, row, x, &before, &replacement);
                    Some(operands.iter().try_for_each(each))
                })
            }
            Equality::Identity(rule) => exercise(unary.iter(), |u| {
                let applies = holds(row.when, &u.x) && rule(&u.op, &u.x);
                let each = |x: &Tensor| compare(&module, row, x, &[&u.op], &[]);
                applies.then(|| variants(row, &u.operand).iter().try_for_each(each))
            }),
            Equality::Site { outer, inner, equal } => {
                site(&mut module, row, outer, inner, &|at| equal(at))
            }
        };
        if let Err(message) = outcome {
            failures.push(format!("{}: {message}", row.name));
        }
    }
    assert!(failures.is_empty(), "{} rows fail:\n{}", failures.len(), failures.join("\n"));
    let mut names: Vec<&str> = rows.iter().map(|r| r.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "rows have unique names");
}

/// Returns whether a value of type `ty` satisfies a rewrite's condition on the dtype.
fn holds(when: When, ty: &Type) -> bool {
    let Type::Array(ty) = ty else { return when == When::Always };
    match when {
        When::Always => true,
        When::Float => ty.dtype.is_float(),
        When::Integer => ty.dtype.is_integer(),
        When::Bool => ty.dtype == Dtype::Bool,
    }
}

/// Checks a rewrite at all candidate equations to which it applies (`check` returns `None` for the others). All checks
/// must pass, and the rewrite must apply to at least one equation.
fn exercise<T>(
    candidates: impl Iterator<Item = T>,
    mut check: impl FnMut(T) -> Option<Result<(), String>>,
) -> Result<(), String> {
    let mut applied = false;
    for candidate in candidates {
        if let Some(outcome) = check(candidate) {
            outcome?;
            applied = true;
        }
    }
    if applied { Ok(()) } else { Err("no sample exercises it".into()) }
}

fn agreement(row: &Rewrite) -> Agreement {
    match row.exactness {
        Exactness::Exact => Agreement::Exact,
        Exactness::Reassociates | Exactness::Flushes => Agreement::relative(1e-5),
    }
}

// -- Compositions -----------------------------------------------------------------------------------

/// A unary primitive, with an operand from its samples.
struct Unary {
    op: Op,
    operand: Tensor,
    x: Type,
    y: Type,
}

/// Returns the distinct unary primitives of the samples, at the types of all operands and results.
fn unary(module: &mut Module) -> Vec<Unary> {
    let mut points: BTreeMap<Type, Tensor> = BTreeMap::new();
    let mut ops: Vec<Op> = Vec::new();
    for case in cases(module) {
        let f = module.function(case.f);
        let values = case.args.iter().cloned().chain(eval(module, case.f, &case.args).unwrap());
        // Limit operands to 64 elements. Results are included as operands, so that chains of primitives can be formed.
        for t in values.filter(|t| t.elements() <= 64) {
            points.entry(t.ty().clone().into()).or_insert(t);
        }
        if f.equations[0].operands.len() == 1 && f.results.len() == 1 {
            ops.push(f.equations[0].op.clone());
        }
    }
    ops.sort();
    ops.dedup();
    let mut all = Vec::new();
    for op in ops {
        for (x, operand) in &points {
            if let Some(y) = infer(module, &op, std::slice::from_ref(x)) {
                all.push(Unary { op: op.clone(), operand: operand.clone(), x: x.clone(), y });
            }
        }
    }
    all
}

fn infer(module: &Module, op: &Op, types: &[Type]) -> Option<Type> {
    let operands: Vec<Operand<'_>> = types.iter().map(|ty| Operand { ty, literal: None }).collect();
    op.infer(module, &operands).ok().map(|mut types| types.swap_remove(0))
}

/// Returns the sample's operand and, for rewrites that are exact, tensors of edge cases (zeros, infinities, nan) of the
/// same type.
fn variants(row: &Rewrite, operand: &Tensor) -> Vec<Tensor> {
    let mut all = vec![operand.clone()];
    if row.exactness == Exactness::Exact {
        all.extend(edge_tensors(operand.ty()));
    }
    all
}

/// Compares the two sides of a rewrite of a chain of unary primitives, on one operand.
fn compare(
    module: &Module,
    row: &Rewrite,
    at: &Tensor,
    before: &[&Op],
    after: &[Op],
) -> Result<(), String> {
    let run = |chain: &[&Op]| {
        let mut x = at.clone();
        for op in chain {
            infer(module, op, &[x.ty().clone().into()]).ok_or("does not type-check")?;
            x = op.eval(module, &[x]).map_err(|p| p.to_string())?.swap_remove(0);
        }
        Ok::<Tensor, String>(x)
    };
    let after: Vec<&Op> = after.iter().collect();
    let outcome = run(&after).and_then(|y| agreement(row).check(&y, &run(before)?));
    outcome.map_err(|e| format!("{before:?} against {after:?} on {at}: {e}"))
}

// -- Site rules: rewrites of one equation that may look at the equations of its operands -------------

/// The kind of an operand in an equation on which a site rule (a rewrite that may look at the operands' equations) is
/// tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pick {
    /// The operand is the result of the sample's primitive.
    Inner,
    /// The operand is a parameter of the type of the sample's output.
    Plain,
    /// A literal.
    Number,
}

/// Tries a site rule (a rewrite of one equation that may look at the equations of its operands) on every primitive that
/// it matches, with operands that are results of samples, parameters of the same type, or literals; and on the samples
/// of these primitives themselves.
fn site(
    module: &mut Module,
    row: &Rewrite,
    outer: fn(&Op) -> bool,
    inner: fn(&Op) -> bool,
    equal: &dyn Fn(&Site<'_>) -> Option<Term>,
) -> Result<(), String> {
    let samples = Op::samples(module);
    let mut roots: Vec<Op> = samples.iter().map(|s| s.op.clone()).filter(outer).collect();
    roots.sort();
    roots.dedup();
    let mut outcomes = Vec::new();
    for s in samples.iter().filter(|s| inner(&s.op)) {
        let types: Vec<Type> = s.operands.iter().map(|t| t.ty().clone().into()).collect();
        let Some(Type::Array(y)) = infer(module, &s.op, &types) else { continue };
        let mut args = s.operands.clone();
        args.push(Rng::new(7).tensor(&y));
        for op in &roots {
            for arity in 1..=3u32 {
                for n in 0..3usize.pow(arity) {
                    let pick = |k| [Pick::Inner, Pick::Plain, Pick::Number][n / 3usize.pow(k) % 3];
                    let picks: Vec<Pick> = (0..arity).map(pick).collect();
                    if !picks.contains(&Pick::Inner) {
                        continue;
                    }
                    let number = s.operands[s.operands.len() - 1].clone();
                    let literal = (s.op.is_elementwise() && s.operands.len() > 1)
                        .then(|| number.at(number.elements() - 1));
                    for last in [None, literal] {
                        let inner = (&s.op, last);
                        outcomes.extend(at_site(module, row, op, inner, &picks, &args, equal));
                    }
                }
            }
        }
    }
    for s in samples.iter().filter(|s| outer(&s.op)) {
        let picks = vec![Pick::Plain; s.operands.len()];
        outcomes.extend(at_site(module, row, &s.op, (&s.op, None), &picks, &s.operands, equal));
    }
    exercise(outcomes.into_iter(), Some)
}

/// Compares an equation with its rewritten form under a site rule (a rewrite that may look at the operands' equations):
/// at the numbers of the sample and, if the rule is exact, at edge cases such as infinities. Returns `None` if the
/// equation does not type-check or the rule does not apply.
fn at_site(
    module: &mut Module,
    row: &Rewrite,
    op: &Op,
    inner: (&Op, Option<Literal>),
    picks: &[Pick],
    args: &[Tensor],
    equal: &dyn Fn(&Site<'_>) -> Option<Term>,
) -> Option<Result<(), String>> {
    let mut outcome = None;
    let operands: Vec<Vec<Tensor>> = args.iter().map(|t| variants(row, t)).collect();
    let most = operands.iter().map(Vec::len).max().unwrap_or(1);
    for n in 0..most {
        // Each operand takes the edge cases (zeros, infinities, nan) in a different order, so that different edge cases
        // meet.
        let pick = |(k, all): (usize, &Vec<Tensor>)| match n {
            0 => all[0].clone(),
            _ if all.len() == 1 => all[0].clone(),
            _ => all[1 + (n - 1 + k * 3) % (all.len() - 1)].clone(),
        };
        let args: Vec<Tensor> = operands.iter().enumerate().map(pick).collect();
        // If the signs of the operands are known, more rules apply. At the sample's numbers, also try the rule with
        // unknown signs.
        for known in if n == 0 { &[false, true][..] } else { &[true] } {
            let at = site_with(module, row, op, inner, picks, (&args, *known), equal);
            if let Some(Err(e)) = at {
                return Some(Err(e));
            }
            outcome = outcome.or(at);
        }
    }
    outcome
}

/// Returns the strongest claim about signs that holds for every element of a tensor.
fn sign_of(t: &Tensor) -> Sign {
    (0..t.elements()).map(|i| Sign::of(t.at(i))).min().unwrap_or(Sign::Plus)
}

/// Builds one equation with operands of the picked kinds, and compares both sides of the rule. `inner` is the primitive
/// that computes an operand, with a literal in place of its last operand if given. The rule is given the signs of all
/// operands that are not literals, or of none.
fn site_with(
    module: &mut Module,
    row: &Rewrite,
    op: &Op,
    (inner, number): (&Op, Option<Literal>),
    picks: &[Pick],
    (args, known): (&[Tensor], bool),
    equal: &dyn Fn(&Site<'_>) -> Option<Term>,
) -> Option<Result<(), String>> {
    let mut draft = Draft::new("site");
    let params: Vec<Atom> = args.iter().map(|t| draft.param(t.ty().clone().into())).collect();
    let b = Builder::new(module, &mut draft);
    let apply = |op: &Op, x: &[Atom]| b.try_emit(op.clone(), x).ok().map(|y| y[0]);
    let (mut own, last) = match picks.contains(&Pick::Inner) {
        true => (params[..params.len() - 1].to_vec(), params.last()),
        false => (Vec::new(), None),
    };
    if let (Some(slot), Some(x)) = (own.last_mut(), number) {
        *slot = x.into();
    }
    let own = own.as_slice();
    let value = |a: &Atom| match a.literal() {
        Some(x) => Some(Tensor::from(x)),
        None => params.iter().position(|p| p == a).map(|i| args[i].clone()),
    };
    let own_values: Option<Vec<Tensor>> = own.iter().map(value).collect();
    let sign = |pick: &Pick, a: &Atom| match a.literal() {
        Some(x) => Sign::of(x),
        None if !known => Sign::of_type(&b.type_of(*a)),
        None if *pick == Pick::Inner => own_values
            .as_ref()
            .and_then(|x| b.with_module(|m| inner.eval(m, x)).ok())
            .map_or(Sign::Any, |y| sign_of(&y[0])),
        None => value(a).map_or(Sign::Any, |t| sign_of(&t)),
    };
    let mut operands = Vec::new();
    for (i, pick) in picks.iter().enumerate() {
        operands.push(match pick {
            Pick::Inner => apply(inner, own)?,
            Pick::Plain => *last.or_else(|| params.get(i))?,
            Pick::Number => Literal::of(b.dtype_of(*last?), 4.0).into(),
        });
    }
    let left = apply(op, &operands)?;
    let ty = b.type_of(left);
    let of = |a: &Atom| (b.type_of(*a), a.literal());
    let described: Vec<SiteOperand<'_>> = operands
        .iter()
        .zip(picks)
        .map(|(a, pick)| SiteOperand {
            ty: b.type_of(*a),
            literal: a.literal(),
            sign: sign(pick, a),
            definition: (*pick == Pick::Inner).then(|| Definition {
                op: inner,
                operands: own.iter().map(of).collect(),
                repeated: vec![true; own.len()],
            }),
        })
        .collect();
    if !holds(row.when, &ty) {
        return None;
    }
    let same = operands.windows(2).all(|w| w[0] == w[1]);
    let term = equal(&Site { op, ty: &ty, operands: &described, same })?;
    let what = format!("{op:?} on {picks:?} with {inner:?}");
    let right = build(&b, &term, &operands, own);
    let Some(mut right) = right else {
        return Some(Err(format!("the right side does not type-check: {what}")));
    };
    if right.literal().is_some()
        && let Type::Array(a) = &ty
        && !a.shape.is_empty()
    {
        right = Builder::new(module, &mut draft).emit1(Op::fill(&a.shape), &[right]);
    }
    if draft.type_of(right) != ty {
        return Some(Err(format!("the sides have different types: {what}")));
    }
    let values = draft
        .finish(module, vec![left, right])
        .and_then(|f| eval(module, f, args))
        .map_err(|p| p.to_string());
    Some(values.and_then(|y| sides(row, &y[1], &y[0])).map_err(|e| format!("{what}: {e}")))
}

fn build(b: &Builder<'_>, term: &Term, operands: &[Atom], own: &[Atom]) -> Option<Atom> {
    match term {
        Term::Operand(i) => operands.get(*i).copied(),
        Term::Inner(_, j) => own.get(*j).copied(),
        Term::Literal(x) => Some((*x).into()),
        Term::Apply(op, xs) => {
            let xs: Option<Vec<Atom>> = xs.iter().map(|x| build(b, x, operands, own)).collect();
            b.try_emit(op.clone(), &xs?).ok().map(|y| y[0])
        }
    }
}

// -- Patterns ---------------------------------------------------------------------------------------

/// A parsed pattern of a rewrite row, such as `(add ?x 0)`.
enum Pattern {
    Var(String, Sign),
    Number(f64),
    Apply(Op, Vec<Pattern>),
}

fn pattern(module: &Module, row: &Rewrite, lhs: &str, rhs: &str) -> Result<(), String> {
    let (lhs, rhs) = (read(lhs)?, read(rhs)?);
    let mut vars = Vec::new();
    collect(&lhs, &mut vars);
    let (vars, signs): (Vec<String>, Vec<Sign>) = vars.into_iter().unzip();
    // Try each variable of the pattern as this dtype and as a bool.
    let choices = Dtype::ALL.iter().flat_map(|d| (0..1 << vars.len()).map(move |mask| (*d, mask)));
    let mut seen = Vec::new();
    exercise(choices, |(dtype, mask)| {
        let of = |i: usize| if mask >> i & 1 == 1 { Dtype::Bool } else { dtype };
        let dtypes: Vec<Dtype> = (0..vars.len()).map(of).collect();
        if seen.contains(&dtypes) {
            return None;
        }
        seen.push(dtypes.clone());
        let values = grid(&dtypes, &signs, row.exactness);
        let env: BTreeMap<&str, &Tensor> = vars.iter().map(String::as_str).zip(&values).collect();
        let root = Dtype::ALL.into_iter().find_map(|d| evaluate(module, &lhs, &env, d));
        let want = root.filter(|t| holds(row.when, &t.ty().clone().into()))?;
        let Some(got) = evaluate(module, &rhs, &env, want.dtype()) else {
            return Some(Err(format!("the right side does not type-check with {dtypes:?}")));
        };
        let got = if got.shape().is_empty() {
            Tensor::full(want.shape(), got.at(0)).unwrap()
        } else {
            got
        };
        Some(sides(row, &got, &want).map_err(|e| format!("{dtypes:?}: {e}, at {values:?}")))
    })
}

/// Compares the results of both sides of a rewrite: bit for bit if it is exact, otherwise up to rounding, and only
/// where the left side is finite.
fn sides(row: &Rewrite, got: &Tensor, want: &Tensor) -> Result<(), String> {
    if row.exactness == Exactness::Exact || !want.dtype().is_float() {
        return agreement(row).check(got, want);
    }
    for i in (0..want.elements()).filter(|i| want.at(*i).to_f64().is_finite()) {
        agreement(row)
            .check(&Tensor::from(got.at(i)), &Tensor::from(want.at(i)))
            .map_err(|e| format!("element {i}, {e}"))?;
    }
    Ok(())
}

/// Returns every combination of the numbers at which rewrites tend to fail, one tensor per variable of the pattern. A
/// variable with a sign condition takes only numbers that satisfy it.
fn grid(dtypes: &[Dtype], signs: &[Sign], exactness: Exactness) -> Vec<Tensor> {
    let numbers = |(dtype, sign): (Dtype, Sign)| -> Vec<Literal> {
        let wide = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.25, 7.0, 1e-300, -1e300];
        let special =
            [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MIN_POSITIVE, 5e-324, -5e-324];
        let whole = [0.0, 1.0, -1.0, 2.0, 3.0, 64.0, f64::MIN, f64::MAX];
        let tame = [1.0, -1.0, 0.5, 2.5, -1.25, 0.75];
        let numbers: Vec<f64> = match (dtype, exactness) {
            (Dtype::Bool, _) => vec![0.0, 1.0],
            (d, _) if d.is_integer() => whole.to_vec(),
            (_, Exactness::Exact) => wide.into_iter().chain(special).collect(),
            (_, Exactness::Reassociates | Exactness::Flushes) => tame.to_vec(),
        };
        let of = |x| Literal::of(dtype, x);
        numbers.into_iter().map(of).filter(|x| Sign::of(*x) >= sign).collect()
    };
    let each = dtypes.iter().copied().zip(signs.iter().copied());
    let columns: Vec<Vec<Literal>> = each.map(numbers).collect();
    let count: usize = columns.iter().map(Vec::len).product();
    let mut stride = 1;
    let tensor = |column: &Vec<Literal>| {
        let ty = ArrayType::new(column[0].dtype, [count]);
        let t = tensor_of(&ty, |i| column[i / stride % column.len()]);
        stride *= column.len();
        t
    };
    columns.iter().map(tensor).collect()
}

/// Evaluates a pattern at these tensors; returns `None` if it does not type-check. A number in the pattern takes the
/// dtype of another operand of its primitive, or of the whole pattern.
fn evaluate(
    module: &Module,
    pattern: &Pattern,
    env: &BTreeMap<&str, &Tensor>,
    root: Dtype,
) -> Option<Tensor> {
    match pattern {
        Pattern::Var(name, _) => env.get(name.as_str()).map(|t| (*t).clone()),
        Pattern::Number(x) => Some(Tensor::from(Literal::of(root, *x))),
        Pattern::Apply(op, operands) => {
            let known: Vec<Option<Tensor>> = operands
                .iter()
                .map(|p| match p {
                    Pattern::Number(_) => Some(None),
                    Pattern::Var(..) | Pattern::Apply(..) => {
                        evaluate(module, p, env, root).map(Some)
                    }
                })
                .collect::<Option<_>>()?;
            let siblings = known.iter().flatten().map(Tensor::dtype).chain([root]);
            siblings.into_iter().find_map(|dtype| {
                let number = |p: &Pattern| match p {
                    Pattern::Number(x) => Tensor::from(Literal::of(dtype, *x)),
                    Pattern::Var(..) | Pattern::Apply(..) => Tensor::from(Literal::zero(dtype)),
                };
                let x: Vec<Tensor> = known
                    .iter()
                    .zip(operands)
                    .map(|(t, p)| t.clone().unwrap_or_else(|| number(p)))
                    .collect();
                let types: Vec<Type> = x.iter().map(|t| t.ty().clone().into()).collect();
                let operands: Vec<Operand<'_>> = types
                    .iter()
                    .zip(&x)
                    .map(|(ty, t)| {
                        let literal = t.shape().is_empty().then(|| t.at(0));
                        Operand { ty, literal }
                    })
                    .collect();
                op.infer(module, &operands).ok()?;
                op.eval(module, &x).ok().map(|mut y| y.swap_remove(0))
            })
        }
    }
}

/// Collects the variables of a pattern, each with its strongest condition on signs.
fn collect(pattern: &Pattern, vars: &mut Vec<(String, Sign)>) {
    match pattern {
        Pattern::Var(name, sign) => match vars.iter_mut().find(|(n, _)| n == name) {
            Some((_, most)) => *most = (*most).max(*sign),
            None => vars.push((name.clone(), *sign)),
        },
        Pattern::Number(_) => {}
        Pattern::Apply(_, operands) => operands.iter().for_each(|p| collect(p, vars)),
    }
}

fn read(text: &str) -> Result<Pattern, String> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let mut tokens = spaced.split_whitespace().peekable();
    let pattern = read_from(&mut tokens)?;
    tokens.next().map_or(Ok(pattern), |t| Err(format!("`{t}` after the end of `{text}`")))
}

fn read_from(tokens: &mut Peekable<SplitWhitespace<'_>>) -> Result<Pattern, String> {
    let end = || "a pattern ends early".to_owned();
    match tokens.next().ok_or_else(end)? {
        "(" => {
            let name = tokens.next().ok_or_else(end)?;
            let op = Op::parse(name, &mut Attributes::default());
            let op = op.ok_or(format!("no primitive `{name}`"))?.map_err(|p| p.to_string())?;
            let mut operands = Vec::new();
            while *tokens.peek().ok_or_else(end)? != ")" {
                operands.push(read_from(tokens)?);
            }
            tokens.next();
            Ok(Pattern::Apply(op, operands))
        }
        token => match token.strip_prefix('?') {
            Some(name) => {
                let (name, sign) = Sign::of_variable(name);
                Ok(Pattern::Var(name.to_owned(), sign))
            }
            None => token.parse().map(Pattern::Number).map_err(|_| format!("`{token}`")),
        },
    }
}

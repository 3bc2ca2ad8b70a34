//! Laws that a primitive's own tests check, through the interpreter.
//!
//! [`check_laws`] takes a primitive and operands at which the primitive is smooth. For every set of float operands, it
//! checks that the tangents of `jvp` are those of central differences and that the tangent program verifies as linear.
//! If the primitive is linear in such a set, it checks that `<ct, f dx> = <fᵀ ct, dx>`, with and without existing
//! totals. For every set of batched operands, it checks that `batch` gives the primitive's results for each element of
//! the batch.

use crate::elements::Elements;
use tapeloom_ir::lang::query::{
    AccumulateInto, BatchOf, BatchRequest, JvpOf, LinearizeOf, PruneOf, TransposeOf, UnzipOf,
};
use tapeloom_ir::prim::{
    Arg, Cotangents, Equality, Linearity, Operand, Regions, RuleCx, Sample, elementwise,
};
use tapeloom_ir::{
    Amortization, Atom, Builder, Draft, FuncId, Literal, Module, Op, PlanRequest, Policy, Problem,
    Tensor, Type,
};

/// Runs a primitive, and checks that its output has the inferred type.
pub(crate) fn eval1(op: impl Into<Op>, x: &[Tensor]) -> Tensor {
    let op = op.into();
    let y = run(&types(x), &[], x, |cx, x, _| Ok(cx.b.emit(op, x).to_vec())).unwrap();
    y.into_iter().next().unwrap()
}

/// Runs a primitive and returns all its outputs.
fn eval_all(op: &Op, x: &[Tensor]) -> Vec<Tensor> {
    run(&types(x), &[], x, |cx, x, _| Ok(cx.b.emit(op.clone(), x).to_vec())).unwrap()
}

/// Returns the error of type inference for operands of the types `operands`.
pub(crate) fn problem(op: impl Into<Op>, operands: &[Type]) -> Problem {
    let op = op.into();
    match build(operands, &[], |cx, x, _| Ok(cx.b.emit(op, x).to_vec())) {
        Err(problem) => problem,
        Ok(_) => panic!("the operands are fine"),
    }
}

/// Checks, on each sample of a primitive, the properties that must hold for every primitive.
pub(crate) fn check_samples(samples: Vec<Sample>) {
    for sample in samples {
        eval_all(&sample.op, &sample.operands);
        match sample.smooth {
            true => check_laws(sample.op, &sample.operands),
            false => check_batch(&sample.op, &sample.operands),
        }
    }
}

/// Returns the tangents of the outputs for tangents of every operand; `None` if an output has no tangent.
pub(crate) fn tangents(op: impl Into<Op>, x: &[Tensor]) -> Vec<Option<Tensor>> {
    let (op, mut some) = (op.into(), Vec::new());
    let args: Vec<Tensor> = x.iter().chain(x).cloned().collect();
    let dy = run(&types(x), &types(x), &args, |cx, x, dx| {
        let dx: Vec<Option<Atom>> = dx.iter().copied().map(Some).collect();
        let dy = op.jvp(cx, x, &dx)?.dy;
        some = dy.iter().map(Option::is_some).collect();
        Ok(dy.into_iter().flatten().collect())
    });
    let mut dy = dy.unwrap().into_iter();
    some.into_iter().map(|some| if some { dy.next() } else { None }).collect()
}

/// Returns the names of the equations that the transposes of `ops` emit, if each of `ops` reads one operand of
/// type `x`.
pub(crate) fn transposed(ops: Vec<Op>, x: &Type) -> Vec<&'static str> {
    let infer = |op: &Op| op.infer(&Module::new(), &[Operand { ty: x, literal: None }]);
    let seeds: Vec<Type> = ops.iter().map(|op| infer(op).unwrap()[0].clone()).collect();
    let (module, f) = build(&[], &seeds, |cx, _, seeds| {
        let mut into = Cotangents { total: smallvec::smallvec![None], negated: false };
        for (op, ct) in ops.iter().zip(seeds) {
            op.transpose(cx, &[Arg::Linear(x.clone())], &[Some(*ct)], &mut into)?;
        }
        Ok(into.total.into_iter().flatten().map(|t| t.apply_sign(cx.b)).collect())
    })
    .unwrap();
    assert_eq!(tapeloom_ir::verify(&module, f), []);
    module.function(f).equations.iter().map(|e| e.op.name()).collect()
}

/// Returns the tangent of the output along the given tangents.
pub(crate) fn tangent(op: impl Into<Op>, x: &[Tensor], dx: &[Option<Tensor>]) -> Tensor {
    let op = op.into();
    let active: Vec<Tensor> = dx.iter().flatten().cloned().collect();
    let args: Vec<Tensor> = x.iter().chain(&active).cloned().collect();
    let dy = run(&types(x), &types(&active), &args, |cx, x, given| {
        let mut given = given.iter().copied();
        let dx: Vec<Option<Atom>> =
            dx.iter().map(|dx| dx.as_ref().and_then(|_| given.next())).collect();
        Ok(op.jvp(cx, x, &dx)?.dy.into_iter().flatten().collect())
    });
    dy.unwrap().into_iter().next().unwrap()
}

/// Returns the cotangents of the operands marked linear, for a cotangent of the output.
pub(crate) fn cotangents(
    op: impl Into<Op>,
    x: &[Tensor],
    linear: &[bool],
    ct: &Tensor,
) -> Vec<Tensor> {
    let op = op.into();
    let args: Vec<Tensor> = x.iter().chain([ct]).cloned().collect();
    let back = run(&types(x), &types(std::slice::from_ref(ct)), &args, |cx, params, ct| {
        let arg = |((param, x), on): ((&Atom, &Tensor), &bool)| match on {
            true => Arg::Linear(Type::Array(x.ty().clone())),
            false => Arg::Known(*param),
        };
        let operands: Vec<Arg> = params.iter().zip(x).zip(linear).map(arg).collect();
        let mut into = Cotangents { total: linear.iter().map(|_| None).collect(), negated: false };
        op.transpose(cx, &operands, &[Some(ct[0])], &mut into)?;
        Ok(into.total.into_iter().flatten().map(|t| t.apply_sign(cx.b)).collect())
    });
    back.unwrap()
}

/// Checks the rules of a primitive for jvp, transposition and batching against their definitions, at operands `x` where
/// the primitive is smooth.
pub(crate) fn check_laws(op: impl Into<Op>, x: &[Tensor]) {
    let op = op.into();
    for on in subsets(x.len()) {
        if on.iter().zip(x).all(|(on, x)| !*on || x.dtype().is_float()) {
            check_jvp(&op, x, &on);
            check_transpose(&op, x, &on);
        }
    }
    check_batch(&op, x);
}

/// Checks the tangent that the rule for jvp gives against central differences, and the tangent program by the verifier.
fn check_jvp(op: &Op, x: &[Tensor], on: &[bool]) {
    let dx: Vec<Tensor> =
        x.iter().zip(on).enumerate().map(|(i, (x, _))| noise(x, i as u64 + 1)).collect();
    let active: Vec<Tensor> =
        dx.iter().zip(on).filter(|(_, on)| **on).map(|(dx, _)| dx.clone()).collect();
    let args: Vec<Tensor> = x.iter().chain(&active).cloned().collect();
    let mut some = Vec::new();
    let dy = run(&types(x), &types(&active), &args, |cx, x, dx| {
        let mut dx = dx.iter();
        let dx: Vec<Option<Atom>> =
            on.iter().map(|on| if *on { dx.next().copied() } else { None }).collect();
        let dy = op.jvp(cx, x, &dx)?.dy;
        some = dy.iter().map(Option::is_some).collect();
        Ok(dy.into_iter().flatten().collect())
    });
    let step = if x.iter().any(|x| x.dtype() == tapeloom_ir::Dtype::F32) { 1e-2 } else { 1e-5 };
    let at = |t: f64| {
        let moved: Vec<Tensor> = (x.iter().zip(&dx).zip(on))
            .map(|((x, dx), on)| if *on { zip(x, dx, |x, dx| x + t * dx) } else { x.clone() })
            .collect();
        eval_all(op, &moved)
    };
    let mut dy = dy.unwrap().into_iter();
    for ((plus, minus), some) in at(step).iter().zip(&at(-step)).zip(some) {
        if !plus.dtype().is_float() {
            assert!(!some && plus == minus, "{op:?} moves integers");
            continue;
        }
        let want = zip(plus, minus, |p, m| (p - m) / (2.0 * step));
        match some.then(|| dy.next()).flatten() {
            Some(dy) => close(&dy, &want, step),
            None => close(&zip(&want, &want, |_, _| 0.0), &want, step),
        }
    }
}

/// Checks that `<ct, dy>` of the jvp equals `<ct of x, dx>` of the transpose for the marked operands; skipped if the
/// primitive is not linear in them. If the primitive is linear with the other operands held constant, these keep their
/// values. If it is linear only with the other operands at zero, they are zero.
fn check_transpose(op: &Op, x: &[Tensor], on: &[bool]) {
    let linear = |other: Linearity| -> bool {
        let sort = |(x, on): (&Tensor, &bool)| match (on, x.dtype().is_float()) {
            (true, _) => Linearity::Linear,
            (false, true) => other,
            (false, false) => Linearity::Constant,
        };
        let operands: Vec<Linearity> = x.iter().zip(on).map(sort).collect();
        op.is_linear(&Module::new(), &operands)
    };
    let constant = linear(Linearity::Constant);
    if !constant && !linear(Linearity::Zero) {
        return;
    }
    let dx: Vec<Tensor> = (x.iter().zip(on).enumerate())
        .map(|(i, (x, on))| match (on, x.dtype().is_float()) {
            (true, _) => noise(x, i as u64 + 1),
            (false, true) if !constant => x.zeros_like(),
            (false, _) => x.clone(),
        })
        .collect();
    let y = eval1(op.clone(), &dx);
    let ct = noise(&y, 7);
    for seeded in [false, true] {
        let seeds: Vec<Tensor> = (x.iter().zip(on).enumerate())
            .filter(|(_, (_, on))| seeded && **on)
            .map(|(i, (x, _))| noise(x, i as u64 + 11))
            .collect();
        let linear: Vec<Tensor> = [ct.clone()].into_iter().chain(seeds.iter().cloned()).collect();
        let args: Vec<Tensor> = x.iter().chain(&linear).cloned().collect();
        let back = run(&types(x), &types(&linear), &args, |cx, params, linear| {
            let arg = |((param, x), on): ((&Atom, &Tensor), &bool)| match on {
                true => Arg::Linear(Type::Array(x.ty().clone())),
                false if x.dtype().is_float() && !constant => {
                    Arg::Known(elementwise::zeros(cx.b, x.ty()))
                }
                false => Arg::Known(*param),
            };
            let operands: Vec<Arg> = params.iter().zip(x).zip(on).map(arg).collect();
            let mut totals = linear[1..].iter();
            let total = |on: &bool| if *on { totals.next().map(|t| (*t).into()) } else { None };
            let mut into = Cotangents { total: on.iter().map(total).collect(), negated: false };
            op.transpose(cx, &operands, &[Some(linear[0])], &mut into)?;
            let totals = into.total.iter().zip(&operands);
            Ok(totals
                .filter(|(_, a)| matches!(a, Arg::Linear(_)))
                .filter_map(|(t, _)| t.map(|t| t.apply_sign(cx.b)))
                .collect())
        })
        .unwrap();
        let active = dx.iter().zip(on).filter(|(_, on)| **on).map(|(dx, _)| dx);
        let right: f64 = back.iter().zip(active.clone()).map(|(b, dx)| dot(b, dx)).sum();
        let earlier: f64 = seeds.iter().zip(active).map(|(s, dx)| dot(s, dx)).sum();
        let left = dot(&ct, &y) + earlier;
        let tolerance = if ct.dtype() == tapeloom_ir::Dtype::F32 { 1e-5 } else { 1e-12 };
        assert!((left - right).abs() <= tolerance * (1.0 + left.abs()), "{op:?} {on:?}");
    }
}

/// Checks `batch` against the primitive at each element of the batch, for every set of batched operands.
pub(crate) fn check_batch(op: &Op, x: &[Tensor]) {
    const SIZE: usize = 3;
    for on in subsets(x.len()) {
        let elements: Vec<Vec<Tensor>> = (0..SIZE)
            .map(|e| {
                let vary = |(x, on): (&Tensor, &bool)| if *on { varied(x, e) } else { x.clone() };
                x.iter().zip(&on).map(vary).collect()
            })
            .collect();
        let batch: Vec<Tensor> = (0..x.len())
            .map(|i| match on[i] {
                true => stack(&elements.iter().map(|e| e[i].clone()).collect::<Vec<_>>()),
                false => x[i].clone(),
            })
            .collect();
        let y = run(&types(&batch), &[], &batch, |cx, x, _| {
            let answer = op.batch(cx, SIZE, x, &on)?;
            assert!(answer.batched.iter().all(|on| *on));
            Ok(answer.y.to_vec())
        });
        let want: Vec<Vec<Tensor>> = elements.iter().map(|e| eval_all(op, e)).collect();
        let all = |n: usize| want.iter().map(|y| y[n].clone()).collect::<Vec<Tensor>>();
        let want: Vec<Tensor> = (0..want[0].len()).map(|n| stack(&all(n))).collect();
        assert_eq!(y.unwrap(), want, "{op:?} {on:?}");
    }
}

/// Returns the result of applying the rewrite row `name` to `outer(inner(x))`, if the row applies.
pub(crate) fn compose(
    name: &str,
    outer: impl Into<Op>,
    inner: impl Into<Op>,
    x: &Type,
) -> Option<Vec<Op>> {
    let Equality::Compose(rule) = row(name) else { panic!("{name} composes nothing") };
    rule(&outer.into(), &inner.into(), x)
}

/// Checks that the rewrite row `name` applies to `outer(inner(x))` and that the rewritten equations give the same value.
pub(crate) fn check_compose(name: &str, outer: impl Into<Op>, inner: impl Into<Op>, x: &Tensor) {
    let (outer, inner) = (outer.into(), inner.into());
    let ty = Type::Array(x.ty().clone());
    let ops = compose(name, outer.clone(), inner.clone(), &ty).unwrap();
    let apply = |ops: &[Op]| ops.iter().fold(x.clone(), |x, op| eval1(op.clone(), &[x]));
    assert_eq!(apply(&ops), apply(&[inner, outer]), "{name}: {ops:?}");
}

/// Returns whether the identity row `name` applies; if so, checks that the primitive leaves `x` unchanged.
pub(crate) fn is_identity(name: &str, op: impl Into<Op>, x: &Tensor) -> bool {
    let op = op.into();
    let Equality::Identity(rule) = row(name) else { panic!("{name} is no identity") };
    let applies = rule(&op, &Type::Array(x.ty().clone()));
    assert!(!applies || eval1(op, std::slice::from_ref(x)) == *x, "{name}");
    applies
}

fn row(name: &str) -> Equality {
    Op::rewrites().into_iter().find(|r| r.name == name).unwrap().rule
}

/// Builds a function from a rule, verifies it, and runs it.
fn run(
    params: &[Type],
    linear: &[Type],
    args: &[Tensor],
    rule: impl FnOnce(&mut RuleCx<'_, '_>, &[Atom], &[Atom]) -> Result<Vec<Atom>, Problem>,
) -> Result<Vec<Tensor>, Problem> {
    let (module, f) = build(params, linear, rule)?;
    assert_eq!(tapeloom_ir::verify(&module, f), []);
    tapeloom_ir::eval(&module, f, args)
}

/// Builds the function whose results a rule emits, with these parameters and linear parameters.
fn build(
    params: &[Type],
    linear: &[Type],
    rule: impl FnOnce(&mut RuleCx<'_, '_>, &[Atom], &[Atom]) -> Result<Vec<Atom>, Problem>,
) -> Result<(Module, FuncId), Problem> {
    let (mut module, mut draft) = (Module::new(), Draft::new("test"));
    let x: Vec<Atom> = params.iter().map(|t| draft.param(t.clone())).collect();
    let dx: Vec<Atom> = linear.iter().map(|t| draft.linear_param(t.clone())).collect();
    let results = {
        let b = Builder::new(&mut module, &mut draft);
        rule(&mut RuleCx { b: &b, regions: &mut NoRegions, shares: &[], reads: &[] }, &x, &dx)?
    };
    let f = draft.finish(&mut module, results)?;
    Ok((module, f))
}

/// The transforms passed to rules of primitives without regions, which never request a transform.
pub(crate) struct NoRegions;

impl Regions for NoRegions {
    fn jvp(&mut self, _: &mut Module, _: FuncId, _: &[bool], _: &[bool]) -> Result<JvpOf, Problem> {
        no_regions()
    }
    fn linearize(
        &mut self,
        _: &mut Module,
        _: FuncId,
        _: &[bool],
        _: &[bool],
        _: &[Amortization],
    ) -> Result<LinearizeOf, Problem> {
        no_regions()
    }
    fn within(
        &mut self,
        _: &mut Module,
        _: FuncId,
        _: &[bool],
        _: &[Amortization],
        _: &Policy,
    ) -> Result<LinearizeOf, Problem> {
        no_regions()
    }
    fn plan(
        &mut self,
        _: &mut Module,
        _: LinearizeOf,
        _: PlanRequest,
    ) -> Result<LinearizeOf, Problem> {
        no_regions()
    }
    fn transpose(
        &mut self,
        _: &mut Module,
        _: FuncId,
        _: &[bool],
        _: &[AccumulateInto],
    ) -> Result<TransposeOf, Problem> {
        no_regions()
    }
    fn batch(
        &mut self,
        _: &mut Module,
        _: FuncId,
        _: usize,
        _: &[bool],
        _: &[BatchRequest],
    ) -> Result<BatchOf, Problem> {
        no_regions()
    }
    fn prune(
        &mut self,
        _: &mut Module,
        _: FuncId,
        _: &[bool],
        _: &[bool],
    ) -> Result<PruneOf, Problem> {
        no_regions()
    }
    fn unzip(&mut self, _: &mut Module, _: FuncId, _: &[bool]) -> Result<UnzipOf, Problem> {
        no_regions()
    }
}

fn no_regions<T>() -> Result<T, Problem> {
    Err(Problem::internal("no regions here"))
}

/// Returns every nonempty subset of `n` operands, as a mask.
fn subsets(n: usize) -> impl Iterator<Item = Vec<bool>> {
    (1..1u32 << n).map(move |set| (0..n).map(|i| set >> i & 1 == 1).collect())
}

fn types(x: &[Tensor]) -> Vec<Type> {
    x.iter().map(|t| Type::Array(t.ty().clone())).collect()
}

fn numbers(x: &Tensor) -> Vec<f64> {
    (0..x.elements()).map(|i| x.at(i).to_f64()).collect()
}

fn zip(x: &Tensor, y: &Tensor, f: impl Fn(f64, f64) -> f64) -> Tensor {
    let mut z = x.clone();
    for i in 0..x.elements() {
        z.put(i, Literal::of(x.dtype(), f(x.at(i).to_f64(), y.at(i).to_f64())));
    }
    z
}

fn dot(x: &Tensor, y: &Tensor) -> f64 {
    assert_eq!(x.ty(), y.ty());
    numbers(x).iter().zip(numbers(y)).map(|(x, y)| x * y).sum()
}

fn close(got: &Tensor, want: &Tensor, tolerance: f64) {
    assert_eq!(got.ty(), want.ty());
    for (got, want) in numbers(got).into_iter().zip(numbers(want)) {
        assert!((got - want).abs() <= tolerance * (1.0 + want.abs()), "{got} {want}");
    }
}

/// Returns numbers in -1..1 that differ from element to element (a multiplicative generator).
fn noise(like: &Tensor, seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    let mut y = like.clone();
    for i in 0..y.elements() {
        y.put(i, Literal::of(y.dtype(), next()));
    }
    y
}

/// Returns the `e`-th variant of an operand for a batch: numbers shifted, truth values flipped.
fn varied(x: &Tensor, e: usize) -> Tensor {
    let mut y = x.clone();
    for i in 0..y.elements() {
        let Literal { dtype, bits } = y.at(i);
        let changed = match dtype {
            tapeloom_ir::Dtype::Bool => Literal { dtype, bits: bits ^ (e as u64 & 1) },
            tapeloom_ir::Dtype::I32 | tapeloom_ir::Dtype::U32 => {
                Literal { dtype, bits: u64::from((bits as u32).wrapping_add(e as u32)) }
            }
            tapeloom_ir::Dtype::I64 | tapeloom_ir::Dtype::U64 => {
                Literal { dtype, bits: bits.wrapping_add(e as u64) }
            }
            tapeloom_ir::Dtype::F32 | tapeloom_ir::Dtype::F64 => {
                Literal::of(dtype, y.at(i).to_f64() + e as f64)
            }
        };
        y.put(i, changed);
    }
    y
}

/// Stacks tensors of one type along a new axis 0.
fn stack(x: &[Tensor]) -> Tensor {
    let shape = x[0].ty().shape.with_leading(x.len());
    let mut y = Tensor::zeros_of(&tapeloom_ir::ArrayType::new(x[0].dtype(), shape)).unwrap();
    let elements = x[0].elements();
    for (e, x) in x.iter().enumerate() {
        assert_eq!(x.elements(), elements);
        for i in 0..elements {
            y.put(e * elements + i, x.at(i));
        }
    }
    y
}

//! Options of transforms: tangents are returned even where they are zero, cotangents are added to given totals, results
//! are batched or summed on request, unused parameters stay, and a function is split in two.
//!
//! A transform with an option is compared with the transform without the option, or with the function itself, on every
//! primitive's samples and the examples.

use crate::derivatives::existing;
use crate::{for_all, subsets};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use tapeloom_backend::{Options, compile};
use tapeloom_ir::lang::query::{
    AccumulateInto, BatchRequest, LinearizeOf, PruneOf, Residual, UnzipOf,
};
use tapeloom_ir::prim::{Call, DynamicSlice, Lowering, Regions};
use tapeloom_ir::{
    Amortization, ArrayType, Atom, Builder, Draft, Dtype, FuncId, Literal, Module, PlanRequest,
    Policy, Price, Scalar, Tensor, Type,
};
use tapeloom_tests::calculus::{marked, stack};
use tapeloom_tests::transform_words::total;
use tapeloom_tests::{Agreement, Case, EXAMPLES, Elements, Rng, run};
use tapeloom_transforms::{BEFORE_CODE, Transforms, batch, jvp, linearize, transpose};
use tapeloom_transforms::{unzip, vjp};

/// Checks a property on the samples of all primitives, and on every example and its reverse derivative, each in its own
/// module.
#[track_caller]
fn everywhere(law: crate::Law) {
    for_all(law);
    for example in EXAMPLES {
        let (mut m, case) = example.read().unwrap();
        let checked = law(&mut m, &case).and_then(|()| {
            let of = vjp(&mut m, case.f, &case.floats())?;
            let seeds = m.function(of.function).param_types().split_off(case.args.len());
            let mut rng = Rng::new(5);
            let seeds = seeds.iter().filter_map(Type::as_array).map(|ty| rng.tensor(ty));
            let args = case.args.iter().cloned().chain(seeds).collect();
            law(&mut m, &Case { f: of.function, args, ..case.clone() })
        });
        checked.unwrap_or_else(|e| panic!("{}: {e}", case.name));
    }
}

fn zeros_of(ty: &Type) -> Tensor {
    Tensor::zeros_of(ty.as_array().unwrap()).unwrap()
}

fn zeros(m: &Module, f: FuncId, result: usize) -> Tensor {
    let f = m.function(f);
    zeros_of(&f.type_of(f.results[result]))
}

/// Returns one tensor per result of `f`: the next tensor of `found` where `on` is true, elsewhere zeros.
fn filled(m: &Module, f: FuncId, on: &[bool], found: &[Tensor]) -> Vec<Tensor> {
    let mut found = found.iter();
    let one = |(i, on): (usize, &bool)| match on {
        true => found.next().unwrap().clone(),
        false => zeros(m, f, i),
    };
    on.iter().enumerate().map(one).collect()
}

#[test]
fn forced_tangents_are_there_and_zero_where_they_were_not() {
    everywhere(|m, case| {
        let float: Vec<bool> =
            m.function(case.f).result_types().iter().map(Type::has_tangent).collect();
        let every = vec![true; float.len()];
        for active in subsets(&case.floats()) {
            let dx = case.directions(&mut Rng::new(6), &active);
            let args = [&case.args[..], &dx].concat();

            let Some(plain) = existing(jvp(m, case.f, &active), case)? else { return Ok(()) };
            let forced = Transforms.jvp(m, case.f, &active, &every)?;
            assert_eq!(forced.active_out, float);
            let dy = run(m, plain.function, &args)?.split_off(float.len());
            let want = marked(&filled(m, case.f, &plain.active_out, &dy), &float);
            let got = run(m, forced.function, &args)?.split_off(float.len());
            Agreement::Exact.check_all(&got, &want)?;

            let plain = linearize(m, case.f, &active)?;
            let forced = Transforms.linearize(m, case.f, &active, &every, &[])?;
            assert_eq!(forced.active_out, float);
            let halves = |of: &LinearizeOf| {
                let y = run(m, of.fwd, &case.args)?;
                let residuals = Residual::pick(&of.residuals, &case.args, &y);
                run(m, of.lin, &[&residuals[..], &dx].concat())
            };
            let (Ok(dy), Ok(got)) = (halves(&plain), halves(&forced)) else {
                // If a custom reverse rule is not linear in its cotangents, running the linear function is an error, so
                // there are no tangents to compare.
                continue;
            };
            let want = marked(&filled(m, case.f, &plain.active_out, &dy), &float);
            Agreement::Exact.check_all(&got, &want)?;
        }
        Ok(())
    });
}

#[test]
fn totals_are_added_to() {
    everywhere(|m, case| {
        let active = case.floats();
        if !active.contains(&true) {
            return Ok(());
        }
        let Some(of) = existing(linearize(m, case.f, &active), case)? else { return Ok(()) };
        let y = run(m, of.fwd, &case.args)?;
        let residuals = Residual::pick(&of.residuals, &case.args, &y);
        let lin = m.get(of.lin);
        let mut rng = Rng::new(7);
        let mut random = |ty: &Type| rng.tensor(ty.as_array().unwrap());
        let ct: Vec<Tensor> = lin.result_types().iter().map(&mut random).collect();
        let totals: Vec<Tensor> =
            lin.linear_params.iter().map(|p| random(&lin.types[*p])).collect();
        let every = vec![true; ct.len()];
        let plain = transpose(m, of.lin, &every)?;
        let found = run(m, plain.function, &[&residuals[..], &ct].concat())?;
        let mut found = found.into_iter();
        let slots = lin.linear_params.iter().zip(&plain.nonzero).map(|(p, on)| match on {
            true => found.next().unwrap(),
            false => zeros_of(&lin.types[*p]),
        });
        let plain: Vec<Tensor> = slots.collect();

        let n = plain.len();
        let zeros = Transforms.transpose(m, of.lin, &every, &vec![AccumulateInto::Zeros; n])?;
        assert!(zeros.nonzero.iter().all(|on| *on));
        let got = run(m, zeros.function, &[&residuals[..], &ct].concat())?;
        Agreement::Exact.check_all(&got, &plain)?;

        let onto = vec![AccumulateInto::Total; n];
        let summed = Transforms.transpose(m, of.lin, &every, &onto)?;
        assert!(summed.nonzero.iter().all(|on| *on));
        let got = run(m, summed.function, &[&residuals[..], &ct, &totals].concat())?;
        let sum = |(x, y): (&Tensor, &Tensor)| {
            let mut sum = x.clone();
            for i in 0..x.elements() {
                let s = x.at(i).to_f64() + y.at(i).to_f64();
                sum.put(i, Literal::of(x.dtype(), s));
            }
            sum
        };
        let want: Vec<Tensor> = plain.iter().zip(&totals).map(sum).collect();
        // Cotangents are summed in another order, so the comparison has a tolerance; f32 needs a larger one.
        let single = case.args.iter().any(|t| t.dtype() == Dtype::F32);
        let relative = if single { 1e-4 } else { 1e-11 };
        Agreement::Within { relative, absolute: relative }.check_all(&got, &want)?;
        Ok(())
    });
}

#[test]
fn results_of_a_batch_are_as_they_are_wanted() {
    const SIZE: usize = 3;
    everywhere(|m, case| {
        let n = m.function(case.f).results.len();
        for mask in subsets(&vec![true; case.args.len()]).into_iter().take(4) {
            let lift = |(t, on): (&Tensor, &bool)| match on {
                true => stack(t, std::iter::repeat_n(t, SIZE)),
                false => t.clone(),
            };
            let args: Vec<Tensor> = case.args.iter().zip(&mask).map(lift).collect();
            let plain = batch(m, case.f, SIZE, &mask)?;
            let y = run(m, plain.function, &args)?;
            let every = |y: &[Tensor]| -> Vec<Tensor> {
                let one = |(y, on): (&Tensor, &bool)| match on {
                    true => y.clone(),
                    false => stack(y, std::iter::repeat_n(y, SIZE)),
                };
                y.iter().zip(&plain.batched_out).map(one).collect()
            };
            let wanted = vec![BatchRequest::Batched; n];
            let of = Transforms.batch(m, case.f, SIZE, &mask, &wanted)?;
            assert_eq!(of.batched_out, vec![true; n]);
            Agreement::Exact.check_all(&run(m, of.function, &args)?, &every(&y))?;

            let float: Vec<bool> = y.iter().map(|t| t.dtype().is_float()).collect();
            let summed = |on: &bool| if *on { BatchRequest::Summed } else { BatchRequest::AsIs };
            let wanted: Vec<BatchRequest> = float.iter().map(summed).collect();
            let of = Transforms.batch(m, case.f, SIZE, &mask, &wanted)?;
            let got = run(m, of.function, &args)?;
            for (((got, all), one), on) in got.iter().zip(every(&y)).zip(&y).zip(&float) {
                if !on {
                    Agreement::Exact.check(got, one)?;
                    continue;
                }
                let inner = got.elements();
                for i in 0..inner {
                    let terms = (0..SIZE).map(|k| all.at(k * inner + i).to_f64());
                    let sum = Literal::of(got.dtype(), terms.sum()).to_f64();
                    let got = got.at(i).to_f64();
                    let same = sum == got || sum.is_nan() && got.is_nan();
                    if !same && (sum - got).abs() > 1e-6 * sum.abs() {
                        return Err(format!("the sum is {got}, not {sum}").into());
                    }
                }
            }
        }
        Ok(())
    });
}

#[test]
fn slots_that_are_kept_stay() {
    everywhere(|m, case| {
        let y = run(m, case.f, &case.args)?;
        let every = vec![true; case.args.len()];
        for used in subsets(&vec![true; y.len()]) {
            let PruneOf { function, params } = Transforms.prune(m, case.f, &used, &every)?;
            assert_eq!(params, every);
            Agreement::Exact.check_all(&run(m, function, &case.args)?, &marked(&y, &used))?;
        }
        Ok(())
    });
}

#[test]
fn both_parts_of_an_unzipped_function_are_the_function() {
    everywhere(|m, case| {
        let y = run(m, case.f, &case.args)?;
        let nothing = vec![false; case.args.len()];
        let choices = subsets(&vec![true; case.args.len()]).into_iter().chain([nothing]);
        for known in choices {
            let UnzipOf { known: first, rest, known_out, residuals } = unzip(m, case.f, &known)?;
            let unknown: Vec<bool> = known.iter().map(|on| !on).collect();
            let args = marked(&case.args, &known);
            let mut outputs = run(m, first, &args)?;
            let read = Residual::pick(&residuals, &args, &outputs);
            let others = run(m, rest, &[read, marked(&case.args, &unknown)].concat())?;

            // A residual must not be a parameter or an ordinary result, which can be read without saving it, and must
            // not occur twice.
            let f = m.function(first);
            let there = known_out.iter().filter(|on| **on).count();
            let kept = &f.results[there..];
            let positions: Vec<Residual> = (there..f.results.len()).map(Residual::Kept).collect();
            assert!(positions.iter().all(|k| residuals.contains(k)));
            let distinct: HashSet<Atom> = kept.iter().copied().collect();
            assert_eq!(distinct.len(), kept.len());
            let anyway = f.all_params().map(Atom::from).chain(f.results[..there].iter().copied());
            assert!(anyway.into_iter().all(|a| !distinct.contains(&a)));

            outputs.truncate(there);
            let (mut of_known, mut of_rest) = (outputs.into_iter(), others.into_iter());
            let next = |on: &bool| if *on { of_known.next() } else { of_rest.next() };
            let all: Vec<Tensor> = known_out.iter().filter_map(next).collect();
            Agreement::Exact.check_all(&all, &y)?;
            assert!(of_rest.next().is_none());
        }
        Ok(())
    });
}

/// Returns `Σ_i sin x[i]` for i below n, where each term is a call of one outlined function of the whole array x of
/// `size` elements and of i.
fn reads(m: &mut Module, n: usize, size: usize) -> FuncId {
    let (array, index) = (Type::array(Dtype::F64, &[size]), Type::scalar(Dtype::I64));
    let mut draft = Draft::new("read");
    let [x, i] = [draft.param(array.clone()), draft.param(index)];
    let b = Builder::new(m, &mut draft);
    let part = b.emit1(DynamicSlice { sizes: vec![1] }, &[x, i]);
    let y = b.emit1(Scalar::Sin, &[part]);
    let function = draft.finish(m, vec![y]).unwrap();
    let mut draft = Draft::new("sum");
    let x = draft.param(array);
    let b = Builder::new(m, &mut draft);
    let term = |i: usize| {
        let i = Literal::i64((i * 7 % size) as i64);
        b.emit1(Call::outline(function), &[x, i.into()])
    };
    let y = (1..n).fold(term(0), |sum, i| b.emit1(Scalar::Add, &[sum, term(i)]));
    draft.finish(m, vec![y]).unwrap()
}

/// The gradient of n reads of one shared array must cost n plus the size of the array, not n times the size: the
/// reverse of each read adds to the accumulator only at the element that was read.
#[test]
fn reads_of_a_shared_array_add_to_one_total() {
    let cost = |n: usize, size: usize| {
        let mut m = Module::new();
        let f = reads(&mut m, n, size);
        let of = vjp(&mut m, f, &[true]).unwrap();
        let x: Vec<f64> = (0..size).map(|i| i as f64 / size as f64).collect();
        let args = [Tensor::from(x.clone()), Tensor::from([1.0])];
        let ct = &run(&m, of.function, &args).unwrap()[1];
        for (k, x) in x.iter().enumerate() {
            let times = (0..n).filter(|i| i * 7 % size == k).count() as f64;
            assert!((ct.at(k).to_f64() - times * x.cos()).abs() < 1e-12);
        }
        let g = BEFORE_CODE.run(&mut m, of.function).unwrap();
        let compiled = compile(&m, g, &Options::default()).unwrap();
        let native = compiled.call(&args.iter().collect::<Vec<_>>()).unwrap();
        Agreement::relative(1e-12).check_all(&native, &run(&m, g, &args).unwrap()).unwrap();
        (total(&m, of.function), compiled.report().program.work() as usize)
    };
    let sizes = [256, 4096];
    let [(_, w0), (_, w1)] = sizes.map(|size| cost(8, size));
    let [(many, w2), (same, w3)] = sizes.map(|size| cost(64, size));
    assert_eq!(many, same, "equations do not depend on the size");
    assert!(many <= 10 * 64, "{many} equations for 64 reads");
    // With 56 more reads, the work must grow by the same amount for both array sizes. With the larger array, it must
    // grow by the same amount for both numbers of reads.
    assert_eq!(w2 - w0, w3 - w1, "{w0} {w1} {w2} {w3}");
    assert!(w1 <= 8 * 16 + 4 * 4096 && w3 <= 64 * 16 + 4 * 4096, "{w1} {w3}");
}

/// Returns the float arithmetic of a function and its callees, and the number of expensive operations (library
/// functions, reductions, contractions), which no plan recomputes by default.
fn work(m: &Module, f: FuncId) -> (f64, usize) {
    let (mut flops, mut dear) = (0.0, 0);
    for e in &m.function(f).equations {
        for region in e.op.regions().iter().filter(|r| r.role.runs()) {
            let inside = work(m, region.function);
            (flops, dear) = (flops + inside.0, dear + inside.1);
        }
        // Count only equations on floats; work on indices and bools does not count.
        let floats = |ty: &&ArrayType| ty.dtype.is_float();
        let array = |v| m.function(f).types[v].as_array().filter(floats);
        let elements = |v| array(v).map_or(0, |ty| ty.shape.elements());
        match e.lower(m, m.function(f)) {
            Lowering::Elementwise(code) => {
                flops += f64::from(code.row().flops) * elements(e.outputs[0]) as f64;
                dear += usize::from(code.row().library.is_some());
            }
            Lowering::Reduce { .. } | Lowering::Contract { .. } | Lowering::Cumulate { .. } => {
                dear += 1
            }
            _ => {}
        }
    }
    (flops, dear)
}

/// Returns the planner's requests to test: one per policy, as for a call; and one as for the body of a loop of eight
/// iterations, where saving a parameter or a result costs bytes.
fn all_terms(params: usize, results: usize) -> Vec<PlanRequest> {
    let dear = |n: usize| {
        (0..n)
            .map(|i| {
                [
                    Price::OWN,
                    Price::Constant(Amortization::FREE),
                    Price::Constant(Amortization::OWN.among(8)),
                ][i % 3]
            })
            .collect()
    };
    let mut all: Vec<PlanRequest> = Policy::samples().into_iter().map(PlanRequest::call).collect();
    all.push(PlanRequest::apart(dear(params), vec![Price::OWN; results], 8));
    all
}

/// Under every policy, recomputed values have the same bits as saved ones, so values and tangents must be equal bit for
/// bit. Under `nothing`, a program without host functions may have only parameters as residuals.
#[test]
fn policies_change_no_bit() {
    static PLANNED: [AtomicUsize; 12] = [const { AtomicUsize::new(0) }; 12];
    everywhere(|m, case| {
        for active in subsets(&case.floats()) {
            let all = Transforms.linearize(m, case.f, &active, &[], &[]);
            let Some(all) = existing(all, case)? else { return Ok(()) };
            let (params, results) = (case.args.len(), all.active_out.len());
            for (i, terms) in all_terms(params, results).into_iter().enumerate() {
                let policy = terms.policy.clone();
                let none = Transforms.plan(m, all.clone(), terms)?;
                assert_eq!(none.active_out, all.active_out);
                let read_again = |r: &Residual| matches!(r, Residual::Parameter(_));
                let calls_out = m.function(case.f).equations.iter().any(|e| m.calls_out(&e.op));
                if policy == Policy::Nothing && !calls_out {
                    assert!(none.residuals.iter().all(read_again), "{:?}", none.residuals);
                }
                if policy == Policy::Planned {
                    let of = |halves: &LinearizeOf| {
                        let [x, y] = [halves.fwd, halves.lin].map(|f| work(m, f));
                        (x.0 + y.0, x.1 + y.1)
                    };
                    let (before, after) = (of(&all), of(&none));
                    assert!(
                        after.0 <= 1.1 * before.0 && after.1 <= before.1,
                        "{before:?} {after:?}"
                    );
                }
                PLANNED[i].fetch_add(usize::from(none.lin != all.lin), Ordering::Relaxed);

                let dx = case.directions(&mut Rng::new(8), &active);
                let halves = |of: &LinearizeOf| {
                    let y = run(m, of.fwd, &case.args)?;
                    let residuals = Residual::pick(&of.residuals, &case.args, &y);
                    Ok::<_, tapeloom_tests::Failure>((
                        y[..of.active_out.len()].to_vec(),
                        run(m, of.lin, &[&residuals[..], &dx].concat()),
                    ))
                };
                let ((y, dy), (z, dz)) = (halves(&all)?, halves(&none)?);
                Agreement::Exact.check_all(&z, &y)?;
                // Tangents are not compared if a custom reverse rule is not linear in its cotangents (running the
                // linear function is then an error), nor under `Rounded`, which changes the values of residuals.
                if let (Ok(dy), Ok(dz), true) = (dy, dz, policy != Policy::Rounded) {
                    Agreement::Exact.check_all(&dz, &dy)?;
                }
            }
        }
        Ok(())
    });
    let planned = PLANNED.each_ref().map(|n| n.load(Ordering::Relaxed));
    // For each policy, the number of tested programs whose linear function the plan changed. The order is: planned,
    // everything, nothing, dots, memory (two policies), rounded, few bytes (two policies), named and all-but-named with
    // names that do not occur; last, the request for the body of a loop.
    let [some, none, nothing, dots, memory, disjoint, _, few, about, named, _, iterations] =
        planned;
    let often =
        [nothing, dots, memory, disjoint, few, about, named, iterations].iter().all(|n| *n > 100);
    let enough = none == 0 && some > 0 && often;
    assert!(enough, "{planned:?} linear halves recompute values");
}

//! Loops and branches under transforms: regressions that the tests over all samples and examples do not cover.

use tapeloom_ir::lang::query::Residual;
use tapeloom_ir::prim::{Direction, Lowering, Operand};
use tapeloom_ir::{FuncId, Module, Tensor, Type, parse_module, print_function};
use tapeloom_tests::calculus::{check_differences, check_products};
use tapeloom_tests::{Agreement, Case, EXAMPLES, Elements, Failure, Rng, run};
use tapeloom_transforms::{batch, jvp, linearize, transpose, vjp};

/// Runs a function by the interpreter and as machine code, checks that both agree, and returns the interpreter's
/// results.
fn both(m: &Module, f: FuncId, args: &[Tensor]) -> Result<Vec<Tensor>, Failure> {
    let want = run(m, f, args)?;
    let compiled = tapeloom_backend::compile(m, f, &tapeloom_backend::Options::default())?;
    let got = compiled.call(&args.iter().collect::<Vec<_>>())?;
    Agreement::Within { relative: 1e-10, absolute: 1e-12 }.check_all(&got, &want)?;
    Ok(want)
}

fn read(text: &str) -> (Module, FuncId) {
    let module = parse_module(text).unwrap();
    let f = module.iter().last().unwrap().0;
    (module, f)
}

/// Returns the directions, up or down, of the loops in a function.
fn directions(m: &Module, f: FuncId) -> Vec<Direction> {
    let f = m.function(f);
    let direction = |i: usize| match lowering(m, f, i) {
        Lowering::Loop { spec, .. } => Some(spec.direction),
        _ => None,
    };
    (0..f.equations.len()).filter_map(direction).collect()
}

fn lowering(m: &Module, f: &tapeloom_ir::Function, i: usize) -> Lowering {
    let e = &f.equations[i];
    let types: Vec<Type> = e.operands.iter().map(|a| f.type_of(*a)).collect();
    let operands: Vec<Operand<'_>> = (types.iter().zip(&e.operands))
        .map(|(ty, a)| Operand { ty, literal: a.literal() })
        .collect();
    e.op.lower(m, &operands)
}

#[test]
fn transposed_twice_a_loop_is_itself() {
    let example = EXAMPLES.iter().find(|e| e.name == "recurrent").unwrap();
    let (mut m, case) = example.read().unwrap();
    let of = linearize(&mut m, case.f, &case.floats()).unwrap();
    let y = run(&m, of.fwd, &case.args).unwrap();
    let residuals = Residual::pick(&of.residuals, &case.args, &y);
    let back = transpose(&mut m, of.lin, &[true, true]).unwrap();
    assert_eq!(back.nonzero, [true, true, true]);
    let again = transpose(&mut m, back.function, &[true, true, true]).unwrap();
    assert_eq!(again.nonzero, [true, true]);
    assert_eq!(directions(&m, of.lin), [Direction::Down]);
    assert_eq!(directions(&m, back.function), [Direction::Up]);
    assert_eq!(directions(&m, again.function), [Direction::Down]);
    let dx = case.directions(&mut Rng::new(3), &case.floats());
    let [want, got] =
        [of.lin, again.function].map(|f| run(&m, f, &[&residuals[..], &dx].concat()).unwrap());
    Agreement::relative(1e-14).check_all(&got, &want).unwrap();
}

/// In a batch each member takes its own branch. A branch has poles at members that do not take it, which must not
/// appear in the gradients.
#[test]
fn poles_of_branches_not_taken_are_masked() {
    let (mut m, f) = read(
        "func @log(%0: f64[], %1: f64[]) -> (f64[]) {
  %2: f64[] = log %0
  %3: f64[] = div %1, %0
  %4: f64[] = add %2, %3
  return %4
}
func @rest(%0: f64[], %1: f64[]) -> (f64[]) {
  %2: f64[] = exp %0
  %3: f64[] = mul %2, %1
  return %3
}
func @f(%0: f64[], %1: f64[]) -> (f64[]) {
  %2: bool[] = gt %0, 0.0
  %3: f64[] = cond{branches=[@rest,@log]} %2, %0, %1
  return %3
}",
    );
    let of = vjp(&mut m, f, &[true, true]).unwrap();
    let all = batch(&mut m, of.function, 5, &[true, false, true]).unwrap();
    for xs in [
        [-1.0, 0.0, 2.0, f64::NEG_INFINITY, -0.0],
        [0.0, 0.0, -1.0, 0.0, -3.0],
        [1.0, 2.0, 3.0, 4.0, f64::INFINITY],
    ] {
        let w = Tensor::from(0.5);
        let cts = [1.0, 2.0, 3.0, 4.0, 5.0];
        let got = run(&m, all.function, &[Tensor::from(xs), w.clone(), Tensor::from(cts)]).unwrap();
        for (lane, (x, ct)) in xs.into_iter().zip(cts).enumerate() {
            let args = [Tensor::from(x), w.clone(), Tensor::from(ct)];
            let want = run(&m, of.function, &args).unwrap();
            for (got, want) in got.iter().zip(&want) {
                assert_eq!(got.at(lane).to_f64(), want.at(0).to_f64(), "{x}");
            }
        }
        // The cotangent of an argument that all members share must be the sum over the members.
        let shared = batch(&mut m, f, 5, &[true, false]).unwrap();
        let shared = vjp(&mut m, shared.function, &[false, true]).unwrap();
        let args = [Tensor::from(xs), w.clone(), Tensor::from(cts)];
        let sum = run(&m, shared.function, &args).unwrap()[1].at(0).to_f64();
        let want: f64 = (0..5).map(|lane| got[2].at(lane).to_f64()).sum();
        assert!((sum - want).abs() <= 1e-14 * want.abs(), "{sum} {want}");
    }
}

/// Returns the number of elements that a function and its loops compute; an update counts only the changed elements.
fn work(m: &Module, f: FuncId) -> usize {
    let of = |i: usize| {
        let g = m.function(f);
        let e = &g.equations[i];
        let elements = |ty: &Type| ty.as_array().map_or(0, |a| a.shape.elements());
        match lowering(m, g, i) {
            Lowering::DynamicUpdateSlice => elements(&g.type_of(e.operands[1])),
            Lowering::Loop { body, spec } => match spec.trip {
                tapeloom_ir::prim::TripCount::Static(n) => n * work(m, body),
                _ => panic!("a loop of unknown length"),
            },
            Lowering::Call(g) => work(m, g),
            _ => e.outputs.iter().map(|o| elements(&g.types[*o])).sum(),
        }
    };
    (0..m.function(f).equations.len()).map(of).sum()
}

/// Returns a program of two loops of n iterations over an array x of `size` elements: one sums `sin x[i]`, the other
/// sets `x[i] <- sin x[i]`.
fn reads_and_updates(n: usize, size: usize) -> (Module, FuncId) {
    read(&format!(
        "func @read(%0: i64[], %1: f64[{size}], %2: f64[1]) -> (f64[1]) {{
  %3: f64[1] = dynamic_slice{{sizes=[1]}} %1, %0
  %4: f64[1] = sin %3
  %5: f64[1] = add %2, %4
  return %5
}}
func @update(%0: i64[], %1: f64[{size}]) -> (f64[{size}]) {{
  %2: f64[1] = dynamic_slice{{sizes=[1]}} %1, %0
  %3: f64[1] = sin %2
  %4: f64[{size}] = dynamic_update_slice %1, %3, %0
  return %4
}}
func @f(%0: f64[{size}], %1: f64[1]) -> (f64[1], f64[{size}]) {{
  %2: f64[1] = loop{{body=@read, trip={n}, direction=up, takes=[index,const,carry0]}} %0, %1
  %3: f64[{size}] = loop{{body=@update, trip={n}, direction=up, takes=[index,carry0]}} %0
  return %2, %3
}}"
    ))
}

/// In the gradient of these loops, a read of one element in each iteration may cost that element, and one array for all
/// iterations, not an array per iteration. An update of one element saves that element and not the array.
#[test]
fn element_accesses_cost_elements() {
    let cost = |n: usize, size: usize| {
        let (mut m, f) = reads_and_updates(n, size);
        let of = vjp(&mut m, f, &[true, true]).unwrap();
        let x: Vec<f64> = (0..size).map(|i| i as f64 / 7.0).collect();
        let ones = |n: usize| Tensor::from(vec![1.0; n]);
        let args = [Tensor::from(x.clone()), Tensor::from([0.0]), ones(1), ones(size)];
        let ct = &run(&m, of.function, &args).unwrap()[2];
        for (i, x) in x.iter().enumerate() {
            let want = if i < n { 2.0 * x.cos() } else { 1.0 };
            assert!((ct.at(i).to_f64() - want).abs() < 1e-12, "{i}");
        }
        let results = m.function(of.fwd).result_types();
        let kept: usize = results.iter().filter_map(Type::as_array).map(|a| a.bytes()).sum();
        (work(&m, of.function), kept - 8 * (1 + size))
    };
    let (less, kept) = cost(8, 4096);
    assert!(kept <= 2 * 8 * 8, "{kept} bytes are saved for 8 iterations");
    assert!(less <= 3 * 4096 + 40 * 8, "{less} elements are computed");
    assert_eq!(cost(64, 4096).0 - less, cost(64, 128).0 - cost(8, 128).0);
}

/// Iterations must save no residual that the reverse pass can read again: constants, elements of arrays, the iteration
/// number and invariant carries. A value computed from constants alone is saved once, not stacked.
#[test]
fn only_varying_carries_are_stacked() {
    let (mut m, f) = read(
        "func @step(%0: i64[], %1: f64[3], %2: f64[3], %3: f64[3], %4: f64[3]) -> (f64[3], f64[3]) {
  %5: f64[3] = exp %1
  %6: f64[3] = mul %5, %3
  %7: f64[3] = mul %4, %3
  %8: f64[3] = dynamic_slice{sizes=[3]} %2, %0
  %9: f64[3] = add %6, %7
  %10: f64[3] = add %8, %9
  return %10, %3
}
func @f(%0: f64[3], %1: f64[3], %2: f64[3], %3: f64[5,3]) -> (f64[3], f64[3]) {
  %4: f64[3], %5: f64[3] = loop{body=@step, trip=5, direction=up, takes=[index,const,carry0,carry1,xs]} %0, %1, %2, %3
  return %4, %5
}",
    );
    let of = linearize(&mut m, f, &[false, true, false, false]).unwrap();
    let program = print_function(&m, of.fwd);
    assert!(of.residuals.iter().all(|r| matches!(r, Residual::Parameter(_))), "{program}");
    let of = linearize(&mut m, f, &[false, true, true, true]).unwrap();
    let kept: Vec<String> =
        m.function(of.fwd).result_types().iter().skip(2).map(Type::to_string).collect();
    // The only residual is `exp k`, of the constant k, and it is not stacked.
    assert_eq!(kept, ["f64[3]"], "{}", print_function(&m, of.fwd));
}

/// A loop on a condition: it replaces x by 2 x plus a sine until x is at least 1.
const DOUBLED: &str = "func @below(%0: f64[]) -> (bool[]) {
  %1: bool[] = lt %0, 1.0
  return %1
}
func @step(%0: f64[], %1: f64[]) -> (f64[]) {
  %2: f64[] = sin %0
  %3: f64[] = mul %2, %1
  %4: f64[] = add %0, %0
  %5: f64[] = add %4, %3
  return %5
}
func @f(%0: f64[], %1: f64[]) -> (f64[], i64[]) {
  %2: f64[], %3: i64[] = loop{body=@step, trip=while, condition=@below, reads=[0], direction=up, takes=[carry0,const]} %0, %1
  return %2, %3
}";

/// A loop of run-time trip count, in which each iteration takes a logarithm, so that further iterations would give nan.
const COUNTED: &str = "func @step(%0: i64[], %1: f64[], %2: f64[]) -> (f64[]) {
  %3: f64[] = log %1
  %4: f64[] = mul %3, %2
  return %4
}
func @f(%0: i64[], %1: f64[], %2: f64[]) -> (f64[]) {
  %3: f64[] = loop{body=@step, trip=runtime, direction=up, takes=[index,carry0,const]} %0, %1, %2
  return %3
}";

/// Compares forward mode of a loop on a condition with finite differences.
#[test]
fn forward_mode_follows_a_condition() {
    let (mut m, f) = read(DOUBLED);
    let of = jvp(&mut m, f, &[true, true]).unwrap();
    let [x, k, dx, dk] = [0.05, 0.1, 1.0, 0.5];
    let args = [x, k, dx, dk].map(Tensor::from);
    let y = both(&m, of.function, &args).unwrap();
    assert_eq!(y[1].at(0).to_f64(), 5.0);
    let at = |h: f64| {
        let args = [x + h * dx, k + h * dk].map(Tensor::from);
        both(&m, f, &args).unwrap()[0].at(0).to_f64()
    };
    let slope = (at(1e-6) - at(-1e-6)) / 2e-6;
    assert!((y[2].at(0).to_f64() - slope).abs() < 1e-7 * slope.abs(), "{y:?} {slope}");
}

/// Three nested loops: on a condition, over elements, and on a condition. The innermost loop, and a branch that
/// contains it, have residuals.
const NESTED: &str = "func @below(%0: f64[]) -> (bool[]) {
  %1: bool[] = lt %0, 2.0
  return %1
}
func @grow(%0: f64[], %1: f64[]) -> (f64[]) {
  %2: f64[] = sin %1
  %3: f64[] = mul %0, %2
  %4: f64[] = exp %3
  %5: f64[] = add %0, %4
  return %5
}
func @until(%0: f64[], %1: f64[]) -> (f64[], f64[]) {
  %2: f64[], %3: i64[] = loop{body=@grow, trip=while, condition=@below, reads=[0], direction=up, takes=[carry0,const]} %0, %1
  %4: f64[] = convert{to=f64} %3
  %5: f64[] = mul %2, 0.25
  %6: f64[] = mul %5, %4
  return %5, %6
}
func @stay(%0: f64[], %1: f64[]) -> (f64[], f64[]) {
  %2: f64[] = mul %0, %1
  return %2, %0
}
func @element(%0: i64[], %1: f64[], %2: f64[], %3: f64[]) -> (f64[], f64[]) {
  %4: f64[], %5: f64[] = cond{branches=[@until,@until,@stay]} %0, %1, %3
  %6: f64[] = mul %5, %2
  return %4, %6
}
func @outer(%0: f64[], %1: f64[], %2: f64[3]) -> (f64[], f64[]) {
  %3: f64[], %4: f64[3] = loop{body=@element, trip=3, direction=up, takes=[index,carry0,const,xs]} %0, %0, %2
  %5: f64[] = reduce_sum{axes=[0]} %4
  %6: f64[] = add %1, %5
  %7: f64[] = mul %3, 1.125
  return %7, %6
}
func @less(%0: f64[]) -> (bool[]) {
  %1: bool[] = lt %0, 9.0
  return %1
}
func @f(%0: f64[], %1: f64[3]) -> (f64[], f64[]) {
  %2: f64[], %3: f64[], %4: i64[] = loop{body=@outer, trip=while, condition=@less, reads=[1], direction=up, takes=[carry0,carry1,const]} %0, %0, %1
  return %2, %3
}";

/// A loop of three iterations around an inner loop. The trip count and the values of the inner loop are constants, and
/// its residuals lie on a dynamic tape.
const INNER: &str = "func @step(%0: f64[]) -> (f64[]) {
  %1: f64[] = sin %0
  return %1
}
func @iteration(%0: f64[], %1: i64[], %2: f64[]) -> (f64[]) {
  %3: f64[] = loop{body=@step, trip=runtime, direction=up, takes=[carry0]} %1, %2
  %4: f64[] = mul %0, %3
  return %4
}
func @f(%0: f64[], %1: i64[], %2: f64[]) -> (f64[]) {
  %3: f64[] = loop{body=@iteration, trip=3, direction=up, takes=[carry0,const,const]} %0, %1, %2
  return %3
}";

/// A loop on a condition. Its reverse pass needs no residual but the trip count.
const HALVED: &str = "func @above(%0: f64[]) -> (bool[]) {
  %1: bool[] = gt %0, 1.0
  return %1
}
func @half(%0: f64[]) -> (f64[]) {
  %1: f64[] = mul %0, 0.5
  return %1
}
func @f(%0: f64[]) -> (f64[]) {
  %1: f64[], %2: i64[] = loop{body=@half, trip=while, condition=@above, reads=[0], direction=up, takes=[carry0]} %0
  return %1
}";

/// Compares reverse mode with forward mode, for programs with loops on a condition or of run-time trip count, to which
/// up to two transforms are applied.
#[test]
fn reverse_mode_follows_a_condition() {
    let cases = [
        (DOUBLED, vec![Tensor::from(0.05), Tensor::from(0.1)]),
        (DOUBLED, vec![Tensor::from(3.0), Tensor::from(0.1)]),
        (COUNTED, vec![Tensor::scalar(3i64), Tensor::from(1e9), Tensor::from(1.5)]),
        (COUNTED, vec![Tensor::scalar(0i64), Tensor::from(2.0), Tensor::from(1.5)]),
        (NESTED, vec![Tensor::from(0.3), Tensor::from([0.5, -0.75, 1.25])]),
        (INNER, vec![Tensor::from(0.75), Tensor::scalar(2i64), Tensor::from(1.25)]),
        (HALVED, vec![Tensor::from(5.0)]),
    ];
    let mut failures = Vec::new();
    for (text, args) in cases {
        let (mut m, f) = read(text);
        let case = Case { name: "while".into(), f, args, smooth: true };
        // Each step replaces a case by its jvp `(x, dx -> y, dy)` and its vjp `(x, ct -> y, ctx)`, so that each is
        // applied to the other and to itself.
        let mut words = vec![case];
        for letters in 0..3 {
            for case in std::mem::take(&mut words) {
                if let Err(e) = reverse(&mut m, &case) {
                    let program = print_function(&m, case.f);
                    failures.push(format!("{} after {letters}: {e}\n{program}", case.name));
                    continue;
                }
                if letters < 2 {
                    words.extend(longer(&mut m, &case));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} fail, the first: {}", failures.len(), failures[0]);
}

/// Returns the jvp and the vjp of a case, as cases with drawn tangents and cotangents.
fn longer(m: &mut Module, case: &Case) -> [Case; 2] {
    let floats = case.floats();
    let (forward, back) = (jvp(m, case.f, &floats).unwrap(), vjp(m, case.f, &floats).unwrap());
    [("jvp", forward.function), ("vjp", back.function)].map(|(letter, f)| {
        let more = m.function(f).param_types().split_off(case.args.len());
        let mut rng = Rng::new(5);
        let more = more.iter().filter_map(Type::as_array).map(|ty| rng.tensor(ty));
        let args = case.args.iter().cloned().chain(more).collect();
        Case { name: format!("{letter}({})", case.name), f, args, smooth: true }
    })
}

/// Checks `<ct, J dx> = <Jᵀ ct, dx>` for a case, and compares `J dx` with finite differences.
fn reverse(m: &mut Module, case: &Case) -> Result<(), Failure> {
    let floats = case.floats();
    let (forward, back) = (jvp(m, case.f, &floats)?, vjp(m, case.f, &floats)?);
    let mut rng = Rng::new(9);
    let dx = case.directions(&mut rng, &floats);
    let mut y = both(m, forward.function, &[&case.args[..], &dx].concat())?;
    let dy = y.split_off(forward.active_out.len());
    let mut tangents = dy.iter().cloned();
    let spread: Vec<Option<Tensor>> =
        forward.active_out.iter().map(|on| on.then(|| tangents.next()).flatten()).collect();
    check_differences(m, case.f, &case.args, &floats, &dx, &spread)?;
    let ct: Vec<Tensor> = dy.iter().map(|t| rng.tensor(t.ty())).collect();
    let mut back_y = both(m, back.function, &[&case.args[..], &ct].concat())?;
    let ctx = back_y.split_off(y.len());
    Agreement::Exact.check_all(&back_y, &y)?;
    let active = floats.iter().filter(|on| **on).count();
    assert_eq!(ctx.len(), active);
    check_products(1e-10, [&ct, &dy], [&ctx, &dx], 1e-10)
}

/// Returns the arguments of the batch member with index `lane`; scalars are shared by all members.
fn alone(args: &[Tensor], lane: usize) -> Vec<Tensor> {
    let one = |t: &Tensor| match t.shape().is_empty() {
        true => t.clone(),
        false => Tensor::from(t.at(lane)),
    };
    args.iter().map(one).collect()
}

/// A value computed from constants alone must not be hoisted out of a loop that may run no iteration: here the
/// computation of such a value does not end.
#[test]
fn a_loop_without_iterations_runs_nothing() {
    let (mut m, f) = read(
        "func @positive(%0: f64[]) -> (bool[]) {
  %1: bool[] = gt %0, 0.0
  return %1
}
func @step(%0: f64[]) -> (f64[]) {
  return %0
}
func @iteration(%0: f64[], %1: f64[]) -> (f64[]) {
  %2: f64[], %3: i64[] = loop{body=@step, trip=while, condition=@positive, reads=[0], direction=up, takes=[carry0]} %1
  %4: f64[] = mul %0, %2
  return %4
}
func @f(%0: f64[], %1: i64[], %2: f64[]) -> (f64[]) {
  %3: f64[] = loop{body=@iteration, trip=runtime, direction=up, takes=[carry0,const]} %1, %0, %2
  return %3
}",
    );
    // The second argument, the trip count, is 0. A single iteration would run its inner loop forever.
    let args = [Tensor::from(0.5), Tensor::scalar(0i64), Tensor::from(1.0), Tensor::from(3.0)];
    let of = vjp(&mut m, f, &[true, false, true]).unwrap();
    let y = both(&m, of.function, &args).unwrap();
    assert_eq!(y, [0.5, 3.0, 0.0].map(Tensor::from));
}

/// A batch of gradients, whose members have different trip counts, must have the bits of each member's gradient alone.
#[test]
fn gradients_of_a_batch_are_those_of_its_members() {
    let starts = [0.05, 2.0, 0.3, 1.0, 1e-9];
    let large = [9.0, 2.0, 0.5, 1e9, 1.0];
    let numbers = Tensor::from([2i64, 1, 0, 3, -1]);
    for (text, args) in [
        (DOUBLED, vec![Tensor::from(starts), Tensor::from(0.1)]),
        (COUNTED, vec![numbers, Tensor::from(large), Tensor::from(1.5)]),
    ] {
        let (mut m, f) = read(text);
        let floats: Vec<bool> = args.iter().map(|t| t.dtype().is_float()).collect();
        let of = vjp(&mut m, f, &floats).unwrap();
        let args = [args, vec![Tensor::from([1.0, -2.0, 3.0, 0.5, 1.0])]].concat();
        let lifted: Vec<bool> = args.iter().map(|t| !t.shape().is_empty()).collect();
        let all = batch(&mut m, of.function, 5, &lifted).unwrap();
        let got = both(&m, all.function, &args).unwrap();
        let mut shared = 0.0;
        for lane in 0..5 {
            let alone = alone(&args, lane);
            let want = both(&m, of.function, &alone).unwrap();
            for (got, want) in got.iter().zip(&want) {
                assert_eq!(got.at(lane), want.at(0), "lane {lane} of {text}");
            }
            shared += want.last().unwrap().at(0).to_f64();
        }
        // The gradient of a batch: the cotangent of a shared argument is the sum over members.
        let last = args.len() - 1;
        let all = batch(&mut m, f, 5, &lifted[..last]).unwrap();
        let of = vjp(&mut m, all.function, &floats).unwrap();
        let ctx = both(&m, of.function, &args).unwrap();
        let sum = ctx.last().unwrap().at(0).to_f64();
        assert!((sum - shared).abs() <= 1e-12 * shared.abs(), "{sum} {shared}");
    }
}

/// Batch members with different trip counts must have the same values and tangents as alone, although further
/// iterations of a member that has ended would reach poles.
#[test]
fn members_of_a_batch_end_by_themselves() {
    let xs = [0.05, 2.0, 0.3, 1.0, 1e-9];
    let starts = [9.0, 2.0, 0.5, 1e9, 1.0];
    let numbers = Tensor::from([2i64, 1, 0, 3, -1]);
    for (text, args) in [
        (DOUBLED, vec![Tensor::from(xs), Tensor::from(0.1)]),
        (COUNTED, vec![numbers, Tensor::from(starts), Tensor::from(1.5)]),
    ] {
        let (mut m, f) = read(text);
        let floats: Vec<bool> = args.iter().map(|t| t.dtype().is_float()).collect();
        let of = jvp(&mut m, f, &floats).unwrap();
        let tangents = [Tensor::from([1.0, -2.0, 3.0, 0.5, 1.0]), Tensor::from(0.25)];
        let args = [args, tangents.into()].concat();
        let lifted: Vec<bool> = args.iter().map(|t| !t.shape().is_empty()).collect();
        let all = batch(&mut m, of.function, 5, &lifted).unwrap();
        assert!(all.batched_out.iter().all(|on| *on));
        let got = both(&m, all.function, &args).unwrap();
        for lane in 0..5 {
            let alone = alone(&args, lane);
            let want = both(&m, of.function, &alone).unwrap();
            for (got, want) in got.iter().zip(&want) {
                assert_eq!(got.at(lane), want.at(0), "lane {lane} of {text}");
            }
        }
        let nobody = batch(&mut m, of.function, 0, &lifted).unwrap();
        let nothing = |t: &Tensor| match t.shape().is_empty() {
            true => t.clone(),
            false => Tensor::zeros(&[0], t.dtype()).unwrap(),
        };
        let args: Vec<Tensor> = args.iter().map(nothing).collect();
        let none = both(&m, nobody.function, &args).unwrap();
        assert!(none.iter().all(|t| t.shape() == [0]));
    }
}

/// Regression: derivatives to fourth order of a batch over a branch with a loop. The branch without a loop must pass on
/// the cotangents that the reverse pass of the loop has accumulated.
#[test]
fn batches_of_a_branch_with_a_loop_have_every_derivative() {
    use tapeloom::prelude::*;
    let grown = |x: Var| while_loop(|x: Var| x.lt(5.0), |x: Var| x * x + 1.0, x);
    let f = move |x: Var| cond(x.gt(0.0), grown, |x: Var| x.sin() * x, x);
    let orders: [Box<dyn Fn(Var) -> Var>; 4] = [
        Box::new(grad(f)),
        Box::new(grad(grad(f))),
        Box::new(grad(grad(grad(f)))),
        Box::new(grad(grad(grad(grad(f))))),
    ];
    let batches = [vec![0.5, -0.4, 2.0], vec![-0.3, -0.7], vec![0.2, 1.5]];
    for (i, g) in orders.iter().enumerate() {
        for x in &batches {
            let all = run(vmap(|x: Var| g(x)), x.clone()).unwrap().to_vec::<f64>().unwrap();
            let each = |x: &f64| run(|x: Var| g(x), *x).unwrap().item::<f64>().unwrap();
            let each: Vec<f64> = x.iter().map(each).collect();
            let near = all.iter().zip(&each).all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs().max(1.0));
            assert!(near, "order {}: {all:?}, one by one {each:?}", i + 1);
        }
    }
}

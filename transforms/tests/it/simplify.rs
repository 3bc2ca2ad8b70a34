//! Tests of simplification, on programs as text and on random programs: the result is equivalent, costs no more, and
//! does not change if simplified again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use crate::sweeps::Sweep;
use tapeloom_ir::prim::Attr;
use tapeloom_ir::{
    FuncId, Literal, Module, Tensor, Type, eval, parse_module, print_function, verify_module,
};
use tapeloom_transforms::{BEFORE_CODE, Cost, Simplified, SimplifyOptions, by_name, simplify_with};

/// Parses a body of a function of `%x %y %z: f64[]`, `%v %w: f64[1000]` and `%p: bool[]` (printed as `%0` to
/// `%5`), simplifies, and compares the body.
#[track_caller]
fn check_with(relaxed: bool, results: &str, before: &str, after: &str) {
    let text = format!(
        "func @f(%x: f64[], %y: f64[], %z: f64[], %v: f64[1000], %w: f64[1000], %p: bool[]) \
         -> ({results}) {{\n{before}\n}}"
    );
    let mut module = parse_module(&text).unwrap();
    let f = module.iter().last().unwrap().0;
    let g = run(&mut module, f, relaxed);
    let printed = print_function(&module, g);
    let body: Vec<&str> = printed.lines().filter(|l| l.starts_with("  ")).map(str::trim).collect();
    let want: Vec<&str> = after.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    assert_eq!(body, want);
}

#[track_caller]
fn check(results: &str, before: &str, after: &str) {
    check_with(false, results, before, after);
}

/// Simplifies `f` and checks the result: equal values, well-formed, not more expensive, unchanged if simplified again.
#[track_caller]
fn run(module: &mut Module, f: FuncId, relaxed: bool) -> FuncId {
    let options = SimplifyOptions { relaxed, ..SimplifyOptions::default() };
    let simplified = simplify_with(module, f, &options).unwrap();
    let g = simplified.function;
    assert_eq!(verify_module(module), []);
    let cost = |f: FuncId| Cost::of(module, module.function(f)).total();
    assert!(cost(g) <= cost(f), "{} -> {}", cost(f), cost(g));
    assert_eq!(simplify_with(&mut module.clone(), f, &options).unwrap(), simplified);
    let args: Vec<Tensor> = module.function(f).param_types().iter().map(sample).collect();
    let (want, got) = (eval(module, f, &args).unwrap(), eval(module, g, &args).unwrap());
    for (want, got) in want.iter().zip(&got) {
        assert_eq!(want.ty(), got.ty());
        for i in 0..want.elements() {
            let (x, y) = (want.literal(i).unwrap(), got.literal(i).unwrap());
            let (a, b) = (x.to_f64(), y.to_f64());
            let close = relaxed && (a - b).abs() <= 1e-9 * (1.0 + a.abs());
            let same = x == y || (a.is_nan() && b.is_nan()) || (x.is_zero() && y.is_zero());
            assert!(same || close, "{x} became {y}");
        }
    }
    g
}

/// Returns an array of type `ty` with pseudo-random numbers, none of them zero.
fn sample(ty: &Type) -> Tensor {
    let Type::Array(ty) = ty else { panic!("{ty} is not an array") };
    let mut t = Tensor::zeros_of(ty).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15u64 ^ ty.shape.elements() as u64;
    for i in 0..t.elements() {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let x = (state >> 40) as f64 / f64::from(1 << 22) - 1.7;
        t.set_literal(i, Literal::of(ty.dtype, x)).unwrap();
    }
    t
}

#[test]
fn nothing_to_do_is_left_alone() {
    check(
        "f64[]",
        "%a: f64[] = mul %y, %x
                    return %a",
        "%6: f64[] = mul %1, %0
                    return %6",
    );
}

#[test]
fn signs_meet_and_cancel() {
    check(
        "f64[]",
        "%a: f64[] = neg %x
                    %b: f64[] = mul %a, %y
                    %c: f64[] = sub %z, %b
                    return %c",
        "%6: f64[] = mul %0, %1
                    %7: f64[] = add %2, %6
                    return %7",
    );
}

#[test]
fn factoring_is_for_the_relaxed_mode() {
    let before = "%a: f64[] = mul %x, %y
                  %b: f64[] = mul %z, %x
                  %c: f64[] = add %a, %b
                  return %c";
    check(
        "f64[]",
        before,
        "%6: f64[] = mul %0, %1
                            %7: f64[] = mul %2, %0
                            %8: f64[] = add %6, %7
                            return %8",
    );
    check_with(
        true,
        "f64[]",
        before,
        "%6: f64[] = add %1, %2
                                       %7: f64[] = mul %0, %6
                                       return %7",
    );
}

#[test]
fn values_with_other_readers_are_not_factored() {
    let before = "%a: f64[] = mul %x, %y
                  %b: f64[] = mul %x, %z
                  %c: f64[] = add %a, %b
                  return %a, %b, %c";
    check_with(
        true,
        "f64[], f64[], f64[]",
        before,
        "%6: f64[] = mul %0, %1
                                                     %7: f64[] = mul %0, %2
                                                     %8: f64[] = add %6, %7
                                                     return %6, %7, %8",
    );
}

#[test]
fn constants_fold_through_arrays() {
    check(
        "f64[1000]",
        "%a: f64[1000] = broadcast{shape=[1000], dims=[]} 2.0
                        %b: f64[1000] = mul %a, %a
                        %c: f64[1000] = add %v, %b
                        return %c",
        "%6: f64[1000] = add %3, 4.0
                        return %6",
    );
}

#[test]
fn calls_keep_all_their_results() {
    let text = "func @pair(%a: f64[], %b: f64[]) -> (f64[], f64[]) {
      %c: f64[] = mul %a, %b
      %d: f64[] = sub %a, %b
      return %c, %d
    }
    func @f(%x: f64[]) -> (f64[]) {
      %one: f64[] = mul %x, 1.0
      %p: f64[], %q: f64[] = call{function=@pair, outline=true} %one, %x
      %r: f64[], %s: f64[] = call{function=@pair, outline=true} %x, %x
      %t: f64[] = add %p, %q
      %u: f64[] = add %r, %s
      %v: f64[] = mul %t, %u
      return %v
    }";
    let mut module = parse_module(text).unwrap();
    let f = module.iter().last().unwrap().0;
    let g = run(&mut module, f, false);
    assert_eq!(module.function(g).equations.len(), 3, "{}", print_function(&module, g));
}

#[test]
fn functions_of_repeated_elements_are_computed_once() {
    check(
        "f64[20,1000]",
        "%a: f64[20,1000] = broadcast{shape=[20,1000], dims=[1]} %v
                           %b: f64[20,1000] = broadcast{shape=[20,1000], dims=[1]} %w
                           %c: f64[20,1000] = mul %a, %b
                           %d: f64[20,1000] = exp %c
                           return %d",
        "%6: f64[1000] = mul %3, %4
                           %7: f64[1000] = exp %6
                           %8: f64[20,1000] = broadcast{shape=[20,1000], dims=[1]} %7
                           return %8",
    );
}

#[test]
fn a_permuted_operand_is_read_in_its_own_order() {
    let before = "func @f(%0: f64[3,40], %1: f64[3,50]) -> (f64[50,40]) {
      %2: f64[40,3] = permute{permutation=[1,0]} %0
      %3: f64[40,50] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} %2, %1
      %4: f64[50,40] = permute{permutation=[1,0]} %3
      return %4
    }";
    let mut module = parse_module(before).unwrap();
    let f = module.iter().last().unwrap().0;
    let g = run(&mut module, f, false);
    let names: Vec<&str> = module.function(g).equations.iter().map(|e| e.op.name()).collect();
    assert_eq!(names, ["dot"]);
}

#[test]
fn a_sum_of_broadcast_products_is_a_matrix_product() {
    let before = "func @f(%0: f64[30,40], %1: f64[40,50]) -> (f64[30,50]) {
      %2: f64[30,40,50] = broadcast{shape=[30,40,50], dims=[0,1]} %0
      %3: f64[30,40,50] = broadcast{shape=[30,40,50], dims=[1,2]} %1
      %4: f64[30,40,50] = mul %2, %3
      %5: f64[30,50] = reduce_sum{axes=[1]} %4
      return %5
    }";
    let mut module = parse_module(before).unwrap();
    let f = module.iter().last().unwrap().0;
    let g = run(&mut module, f, true);
    let names: Vec<&str> = module.function(g).equations.iter().map(|e| e.op.name()).collect();
    assert_eq!(names, ["dot"], "{}", print_function(&module, g));
}

#[test]
fn outlined_functions_are_simplified_too() {
    let text = "func @g(%a: f64[]) -> (f64[]) {
      %b: f64[] = mul %a, 1.0
      %c: f64[] = neg %b
      %d: f64[] = neg %c
      %e: f64[] = sin %d
      return %e
    }
    func @f(%x: f64[]) -> (f64[]) {
      %y: f64[] = call{function=@g, outline=true} %x
      %z: f64[] = call{function=@g, outline=true} %y
      return %z
    }";
    let mut module = parse_module(text).unwrap();
    let f = module.iter().last().unwrap().0;
    let g = BEFORE_CODE.run(&mut module, f).unwrap();
    assert_eq!(verify_module(&module), []);
    let attributes = module.function(g).equations[0].op.attributes();
    let Attr::Func(callee) = attributes[0].1 else { panic!("{attributes:?}") };
    assert_eq!(module.function(callee).equations.len(), 1);
    assert_eq!(module.function(g).equations.len(), 2);
}

/// Makes a program from a seed: scalars and vectors, shared terms, constants.
fn program(seed: u64, length: usize) -> String {
    let mut state = seed;
    let mut next = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let mut text = String::from(
        "func @f(%0: f64[], %1: f64[], %2: f64[8], %3: f64[8]) -> (f64[], f64[8]) {\n",
    );
    let (mut scalars, mut vectors) = (vec![0, 1], vec![2, 3]);
    for id in 4..4 + length {
        let vector = next(2) == 0;
        let pool = if vector { &vectors } else { &scalars };
        let pick = |next: &mut dyn FnMut(usize) -> usize| match next(6) {
            0 => ["0.0", "1.0", "2.0", "-1.0", "0.5"][next(5)].to_owned(),
            // Recent values make programs deep; older ones are shared.
            1 | 2 => format!("%{}", pool[next(pool.len())]),
            _ => format!("%{}", pool[pool.len() - 1 - next(pool.len().min(4))]),
        };
        let value = format!("%{}", pool[pool.len() - 1 - next(pool.len().min(6))]);
        let other = pick(&mut next);
        let (ty, equation) = match next(12) {
            0 => ("", format!("neg {value}")),
            1 => ("", format!("exp {value}")),
            2 => ("", format!("sin {value}")),
            3 | 4 => ("", format!("add {value}, {other}")),
            5 => ("", format!("sub {other}, {value}")),
            6 | 7 => ("", format!("mul {other}, {value}")),
            8 => ("", format!("div {value}, {other}")),
            9 => ("", format!("max {value}, {other}")),
            10 if vector => ("f64[]", format!("reduce_sum{{axes=[0]}} {value}")),
            10 => ("f64[8]", format!("broadcast{{shape=[8], dims=[]}} {value}")),
            _ => ("", format!("neg {value}")),
        };
        let ty = if ty.is_empty() { if vector { "f64[8]" } else { "f64[]" } } else { ty };
        text.push_str(&format!("  %{id}: {ty} = {equation}\n"));
        if ty == "f64[8]" { vectors.push(id) } else { scalars.push(id) }
    }
    let (s, v) = (scalars.last().unwrap(), vectors.last().unwrap());
    text.push_str(&format!("  return %{s}, %{v}\n}}"));
    text
}

/// Returns whether every value of a program of the form that `program` makes is finite.
fn is_finite(text: &str, args: &[Tensor]) -> bool {
    let value = |line: &str| -> Option<(String, String)> {
        let (id, rest) = line.trim().split_once(": ")?;
        Some((id.to_owned(), rest.split_once(" = ")?.0.to_owned()))
    };
    let (ids, types): (Vec<_>, Vec<_>) = text.lines().filter_map(value).unzip();
    let body = text.lines().filter(|line| line.contains(" = ")).collect::<Vec<_>>().join("\n");
    let head = text.split_once("->").unwrap().0;
    let text =
        format!("{head} -> ({}) {{\n{body}\n  return {}\n}}", types.join(", "), ids.join(", "));
    let module = parse_module(&text).unwrap();
    let f = module.iter().last().unwrap().0;
    let values = eval(&module, f, args).unwrap();
    values.iter().all(|x| (0..x.elements()).all(|i| x.literal(i).unwrap().to_f64().is_finite()))
}

#[test]
fn random_programs_keep_their_meaning() {
    for seed in Sweep::Simplified.seeds() {
        let mut module = parse_module(&program(seed, 40)).unwrap();
        let f = module.iter().last().unwrap().0;
        let g = by_name("peephole").unwrap().apply(&mut module, f).unwrap();
        let args: Vec<Tensor> = module.function(f).param_types().iter().map(sample).collect();
        let (want, got) = (eval(&module, f, &args).unwrap(), eval(&module, g, &args).unwrap());
        for (x, y) in want.iter().zip(&got) {
            for i in 0..x.elements() {
                let (x, y) = (x.literal(i).unwrap().to_f64(), y.literal(i).unwrap().to_f64());
                assert!(x == y || (x.is_nan() && y.is_nan()), "seed {seed}: {x} became {y}");
            }
        }
        run(&mut module, f, false);
        run(&mut module, g, false);
    }
}

#[test]
fn relaxed_programs_agree_to_rounding() {
    let (mut cheaper, mut compared) = (0, 0);
    for seed in Sweep::Relaxed.seeds() {
        let text = program(seed, 16);
        let mut module = parse_module(&text).unwrap();
        let f = module.iter().last().unwrap().0;
        let options = SimplifyOptions { relaxed: true, ..SimplifyOptions::default() };
        let Simplified { function: g, report } = simplify_with(&mut module, f, &options).unwrap();
        assert_eq!(verify_module(&module), []);
        assert!(report.after.total() <= report.before.total());
        cheaper += u64::from(g != f);
        let args: Vec<Tensor> = module.function(f).param_types().iter().map(sample).collect();
        // Relaxed rewrites assume finite numbers: the sign of 0 may be lost, and with it the sign of 1/0.
        if !is_finite(&text, &args) {
            continue;
        }
        compared += 1;
        let (want, got) = (eval(&module, f, &args).unwrap(), eval(&module, g, &args).unwrap());
        for (x, y) in want.iter().zip(&got) {
            for i in 0..x.elements() {
                let (x, y) = (x.literal(i).unwrap().to_f64(), y.literal(i).unwrap().to_f64());
                // Only numbers below 1000 are compared: if terms of a larger magnitude cancel, the result is mostly
                // rounding error.
                let tame = x.abs() < 1e3;
                assert!(!tame || (x - y).abs() < 1e-6, "seed {seed}: {x} became {y}");
            }
        }
    }
    assert!(cheaper > Sweep::Relaxed.cases() / 3, "only {cheaper} programs got cheaper");
    assert!(compared > Sweep::Relaxed.cases() / 2, "only {compared} programs were compared");
}

#[test]
fn small_regions_are_put_together_again() {
    for seed in Sweep::Regions.seeds() {
        let mut module = parse_module(&program(seed, 120)).unwrap();
        let f = module.iter().last().unwrap().0;
        let options = SimplifyOptions { region: 7, ..SimplifyOptions::default() };
        let simplified = simplify_with(&mut module, f, &options).unwrap();
        assert!(simplified.report.regions.0 > 10);
        assert_eq!(verify_module(&module), []);
        let args: Vec<Tensor> = module.function(f).param_types().iter().map(sample).collect();
        let (want, got) =
            (eval(&module, f, &args).unwrap(), eval(&module, simplified.function, &args).unwrap());
        for (x, y) in want.iter().zip(&got) {
            for i in 0..x.elements() {
                let (x, y) = (x.literal(i).unwrap().to_f64(), y.literal(i).unwrap().to_f64());
                assert!(x == y || (x.is_nan() && y.is_nan()), "seed {seed}: {x} became {y}");
            }
        }
    }
}

#[test]
fn long_programs_are_left_to_the_peephole() {
    let mut module = parse_module(&program(3, 300)).unwrap();
    let f = module.iter().last().unwrap().0;
    let options = SimplifyOptions { largest: 100, ..SimplifyOptions::default() };
    let simplified = simplify_with(&mut module, f, &options).unwrap();
    assert_eq!(simplified.function, f);
    assert_eq!(simplified.report.regions, (0, 0));
}

/// Simplifies a program by relaxed rules, checks it, and returns its primitives in order, each dot with the shape of its
/// result.
#[track_caller]
fn relaxed(text: &str) -> Vec<String> {
    let mut module = parse_module(text).unwrap();
    let f = module.iter().last().unwrap().0;
    let g = run(&mut module, f, true);
    let f = module.function(g);
    let name = |e: &tapeloom_ir::Equation| match e.op.name() {
        "dot" => format!("dot {}", f.types[e.outputs[0]]),
        name => name.to_owned(),
    };
    f.equations.iter().map(name).collect()
}

#[test]
fn products_of_shifted_arrays_are_shifted_products() {
    let centered = |op: &str, left: bool| {
        let (axes, operands) = match left {
            true => ("lhs_contract=[1], rhs_contract=[0]", "%c, %q"),
            false => ("lhs_contract=[0], rhs_contract=[1]", "%q, %c"),
        };
        let result = if left { "f64[100,20]" } else { "f64[20,100]" };
        format!(
            "func @f(%x: f64[100,30], %m: f64[30], %q: f64[30,20]) -> ({result}) {{
               %b: f64[100,30] = broadcast{{shape=[100,30], dims=[1]}} %m
               %c: f64[100,30] = {op}
               %y: {result} = dot{{lhs_batch=[], rhs_batch=[], {axes}}} {operands}
               return %y
             }}"
        )
    };
    for (op, sum) in [("sub %x, %b", "sub"), ("sub %b, %x", "sub"), ("add %x, %b", "add")] {
        for left in [true, false] {
            let mut made = relaxed(&centered(op, left));
            made.sort();
            let product = if left { "dot f64[100,20]" } else { "dot f64[20,100]" };
            let mut want = ["broadcast", product, "dot f64[20]", sum];
            want.sort_unstable();
            assert_eq!(made, want, "{op}, {left}");
        }
    }
}

/// Covers every pairing of axes of three arrays: of each two arrays, and of all three, in the result or summed.
#[test]
fn products_of_three_arrays_are_multiplied_in_the_cheaper_order() {
    // The product of a and b is multiplied by x. The axes of a and b are all free, or batch axes, or contracted.
    let vector = relaxed(
        "func @f(%a: f64[30,30], %b: f64[30,30], %x: f64[30]) -> (f64[30]) {
           %c: f64[30,30] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} %a, %b
           %y: f64[30] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[0], rhs_contract=[0]} %x, %c
           return %y
         }",
    );
    assert_eq!(vector, ["dot f64[30]", "dot f64[30]"]);
    let batch = relaxed(
        "func @f(%a: f64[7,30,30], %b: f64[7,30,30], %x: f64[7,30]) -> (f64[7,30]) {
           %c: f64[7,30,30] = dot{lhs_batch=[0], rhs_batch=[0], lhs_contract=[2], rhs_contract=[1]} %a, %b
           %y: f64[7,30] = dot{lhs_batch=[0], rhs_batch=[0], lhs_contract=[2], rhs_contract=[1]} %c, %x
           return %y
         }",
    );
    assert_eq!(batch, ["dot f64[7,30]", "dot f64[7,30]"]);
    // The rewrite `(a b) x = a (b x)` must also apply if the product with x sums over the batch axis of a and b.
    let summed = relaxed(
        "func @f(%a: f64[7,30,30], %b: f64[7,30,30], %x: f64[7,30]) -> (f64[30]) {
           %c: f64[7,30,30] = dot{lhs_batch=[0], rhs_batch=[0], lhs_contract=[2], rhs_contract=[1]} %a, %b
           %y: f64[30] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[0,2], rhs_contract=[0,1]} %c, %x
           return %y
         }",
    );
    assert_eq!(summed, ["dot f64[7,30]", "dot f64[30]"]);
    // A free axis of a is a batch axis of the second product. The axes of the second product's result have another
    // order.
    let ordered = relaxed(
        "func @f(%a: f64[40,2], %b: f64[2,50], %x: f64[3,50,40]) -> (f64[40,3]) {
           %c: f64[40,50] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} %a, %b
           %y: f64[40,3] = dot{lhs_batch=[0], rhs_batch=[2], lhs_contract=[1], rhs_contract=[1]} %c, %x
           return %y
         }",
    );
    assert_eq!(ordered, ["dot f64[40,50]", "dot f64[40,3]"], "this order is the cheaper one");
    let apart = relaxed(
        "func @f(%a: f64[400,2], %b: f64[2,50], %x: f64[3,50]) -> (f64[3,400]) {
           %c: f64[400,50] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} %a, %b
           %y: f64[3,400] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[1]} %x, %c
           return %y
         }",
    );
    assert_eq!(apart.len(), 2, "{apart:?}");
    assert!(!apart.iter().any(|name| name == "dot f64[400,50]"), "{apart:?}");
}

#[test]
fn common_factors_leave_sums() {
    let scalar = relaxed(
        "func @f(%x: f64[1000], %c: f64[]) -> (f64[]) {
           %b: f64[1000] = broadcast{shape=[1000], dims=[]} %c
           %p: f64[1000] = mul %x, %b
           %y: f64[] = reduce_sum{axes=[0]} %p
           return %y
         }",
    );
    assert_eq!(scalar, ["reduce_sum", "mul"]);
}

/// The e-graph of a program with 4 n equations may have at most four times the nodes of the e-graph with n equations.
#[test]
fn graphs_of_products_grow_as_their_programs() {
    // A layer: the text that computes `%{i}` from the value `{x}` of type `f64[30,30]`.
    type Layer<'a> = &'a dyn Fn(usize, &str) -> String;
    let layers: [(&str, Layer<'_>); 3] = [
        ("chain", &|i, x| {
            format!(
                "%{i}: f64[30,30] = dot{{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]}} {x}, %w\n"
            )
        }),
        ("shifts", &|i, x| {
            format!(
                "%b{i}: f64[30,30] = broadcast{{shape=[30,30], dims=[1]}} %m
                 %c{i}: f64[30,30] = sub {x}, %b{i}
                 %{i}: f64[30,30] = dot{{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]}} %c{i}, %w\n"
            )
        }),
        ("network", &|i, x| {
            format!(
                "%d{i}: f64[30,30] = dot{{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]}} {x}, %w
                 %b{i}: f64[30,30] = broadcast{{shape=[30,30], dims=[1]}} %m
                 %c{i}: f64[30,30] = add %d{i}, %b{i}
                 %{i}: f64[30,30] = tanh %c{i}\n"
            )
        }),
    ];
    for (name, layer) in layers {
        let nodes = |n: usize| {
            let mut text = "func @f(%0: f64[30,30], %w: f64[30,30], %m: f64[30], %v: f64[30]) -> (f64[30]) {\n".to_owned();
            (1..=n).for_each(|i| text += &layer(i, &format!("%{}", i - 1)));
            text += &format!(
                "%y: f64[30] = dot{{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]}} %{n}, %v\nreturn %y\n}}"
            );
            let mut module = parse_module(&text).unwrap();
            let f = module.iter().last().unwrap().0;
            let options = SimplifyOptions { relaxed: true, ..SimplifyOptions::default() };
            simplify_with(&mut module, f, &options).unwrap().report
        };
        let (few, many) = (nodes(20), nodes(80));
        assert!(many.nodes <= 4 * few.nodes + 256, "{name}: {few} {many}");
    }
}

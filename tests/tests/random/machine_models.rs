//! Random programs compiled for other machine models: results must agree. If a number of the model affects only code
//! generation, neither the loop program nor the results may change.

use tapeloom_backend::{Effect, MachineModel, Options, Runnable, Target, compile};
use tapeloom_ir::{Module, Tensor, parse_module};
use tapeloom_tests::fuzz::{for_all, transformed};
use tapeloom_tests::program_generator::Recipe;
use tapeloom_tests::transform_words::{Demand, Letter, same_numbers};
use tapeloom_tests::{Agreement, Case, Failure, Rng, Sweep};

const MEASURED: MachineModel = MachineModel::MEASURED;

/// Returns the measured model, except that each number with this effect has its least or its greatest value, as `end`
/// chooses.
fn at_end(effect: Effect, end: fn(usize, usize) -> usize) -> MachineModel {
    let mut model = MEASURED;
    for n in MachineModel::NUMBERS.iter().filter(|n| n.effect == effect) {
        (n.set)(&mut model, end(n.least, n.most));
    }
    model
}

/// Returns models with numbers far from the measured ones.
fn models() -> [MachineModel; 7] {
    let (least, most): (fn(_, _) -> _, fn(_, _) -> _) = (|least, _| least, |_, most| most);
    [
        at_end(Effect::Code, least),
        at_end(Effect::Code, most),
        at_end(Effect::Loops, least),
        at_end(Effect::Loops, most),
        MachineModel { cached_elements: 64, ..MEASURED },
        MachineModel { unrolled_elements: 1, register_elements: 0, ..MEASURED },
        MachineModel { promoted_elements: 2, held_values: 0, held_variables: 0, ..MEASURED },
    ]
}

/// Returns the text of the loop program without the offsets of buffers, which may differ between equal programs.
fn statements(of: &Runnable) -> String {
    let text = of.report().program.to_string();
    let lines = text.lines().filter(|l| !l.contains(" workspace "));
    lines.map(|l| format!("{}\n", l.split(" frame ").next().unwrap_or(l))).collect()
}

fn for_every_model(m: &mut Module, case: &Case, recipe: &Recipe) -> Result<(), Failure> {
    let args: Vec<&Tensor> = case.args.iter().collect();
    let of = |machine| compile(m, case.f, &Options { machine, ..Options::default() });
    let measured = of(MEASURED)?;
    for machine in models().into_iter().filter(|model| model.has_bits_of(&MEASURED)) {
        let made = of(machine)?;
        let (found, want) = (statements(&made), statements(&measured));
        if found != want {
            return Err(format!("{machine}: other loops\n{want}\n{found}").into());
        }
        let same = Agreement::Exact.check_all(&made.call(&args)?, &measured.call(&args)?);
        same.map_err(|e| format!("{machine}: {e}"))?;
    }
    for machine in models() {
        same_numbers(m, case, Demand { wild: recipe.wild, machine, ..Demand::default() })
            .map_err(|e| format!("{machine}: {e}"))?;
    }
    Ok(())
}

#[test]
fn programs_mean_the_same_for_every_model() {
    for_all(Sweep::Models, for_every_model);
}

/// Returns models with caches of 1 to 4 elements, for which the arrays of random programs count as large: in
/// recomputation, in fusion, and in sharing memory with operands of products. The matrix library computes the products
/// of all matrices, or of all but the smallest.
fn small_caches() -> [MachineModel; 3] {
    let of_products = MachineModel {
        cached_elements: 1,
        register_elements: 0,
        unrolled_elements: 1,
        library_products: 0,
        ..MEASURED
    };
    [
        MachineModel { library_extent: 2, library_copy_reads: 1, ..of_products },
        MachineModel {
            cached_elements: 4,
            recomputed_operations: 0,
            library_extent: 0,
            library_copy_reads: 0,
            ..of_products
        },
        MachineModel { cached_elements: 2, ..MEASURED },
    ]
}

/// Checks a program, its gradient, and a transform of the gradient, each with another of the three models.
fn for_small_caches(m: &mut Module, case: &Case, recipe: &Recipe) -> Result<(), Failure> {
    let mut rng = Rng::new(recipe.genes.len() as u64);
    let first = rng.index(3);
    let demand = |n: usize| Demand {
        wild: recipe.wild,
        machine: small_caches()[(first + n) % 3],
        ..Demand::default()
    };
    same_numbers(m, case, demand(0))?;
    let gradient = transformed(m, case, demand(1), Letter::Vjp, &mut Rng::new(7))?;
    let Some(gradient) = gradient else { return Ok(()) };
    let letter = Letter::ALL[rng.index(3)];
    transformed(m, &gradient, demand(2), letter, &mut Rng::new(8)).map(|_| ())
}

#[test]
fn gradients_are_right_where_nothing_stays_in_the_cache() {
    for_all(Sweep::SmallCaches, for_small_caches);
}

/// Many random programs must have other loops with small caches than with the measured ones: otherwise the test above
/// would test nothing.
#[test]
fn small_caches_shape_loops() {
    let mut different = 0;
    for seed in Sweep::SmallCaches.seeds() {
        let mut m = Module::new();
        let case = Recipe::draw(seed).program(&mut m).unwrap();
        let of = |machine| {
            let options = Options { machine, target: Target::Interpreter, ..Options::default() };
            statements(&compile(&m, case.f, &options).unwrap())
        };
        let machine = small_caches()[1];
        let kept = MachineModel { recomputed_operations_uncached: 0, ..machine };
        different += u64::from(of(machine) != of(kept));
    }
    assert!(different * 20 >= Sweep::SmallCaches.cases(), "{different}");
}

/// The models must not all give the same loop program: numbers that affect loops must change loops.
#[test]
fn models_shape_loops() {
    let text = "func @f(%0: f64[4,8]) -> (f64[4]) {\n  %1: f64[4] = reduce_sum{axes=[1]} %0\n  return %1\n}";
    let m = parse_module(text).unwrap();
    let (f, _) = m.iter().last().unwrap();
    let of = |machine| {
        let options = Options { machine, ..Options::default() };
        compile(&m, f, &options).unwrap().report().program.to_string()
    };
    let loops = MachineModel { unrolled_elements: 1, ..MEASURED };
    assert!(!of(MEASURED).contains("serial") && of(loops).contains("serial"), "{}", of(loops));
}

/// Regression: with an unlimited unroll factor, nested loops must stay loops; the number of statements after unrolling
/// overflowed.
#[test]
fn nests_are_counted_without_overflow() {
    let text = "func @f(%0: f64[12,100]) -> (f64[12]) {\n  %1: f64[12] = reduce_sum{axes=[1]} %0\n  return %1\n}";
    let m = parse_module(text).unwrap();
    let (f, _) = m.iter().last().unwrap();
    let x = Tensor::full(&[12, 100], 0.5).unwrap();
    let of = |machine| {
        let options = Options { machine, ..Options::default() };
        compile(&m, f, &options).unwrap().call(&[&x]).unwrap()
    };
    assert_eq!(of(at_end(Effect::Code, |_, most| most)), of(MEASURED));
}

//! Random programs for other machine models: they mean the same, and numbers of code change no bit.

use tapeloom_backend::{Effect, MachineModel, Options, Runnable, compile};
use tapeloom_ir::{Module, Tensor, parse_module};
use tapeloom_tests::fuzz::for_all;
use tapeloom_tests::program_generator::Recipe;
use tapeloom_tests::transform_words::{Demand, same_numbers};
use tapeloom_tests::{Agreement, Case, Failure, Sweep};

const MEASURED: MachineModel = MachineModel::MEASURED;

/// The measured model with all numbers of one effect at one of their ends.
fn at_end(effect: Effect, end: fn(usize, usize) -> usize) -> MachineModel {
    let mut model = MEASURED;
    for n in MachineModel::NUMBERS.iter().filter(|n| n.effect == effect) {
        (n.set)(&mut model, end(n.least, n.most));
    }
    model
}

/// Models that differ much from the measured one.
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

/// The loop program but for the places of buffers in the workspace.
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

/// A number of loops does change them: the models are no names for one program.
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

/// However often the code generator may write a loop out, one around another stays: how many statements those were was
/// more than a number has room for.
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

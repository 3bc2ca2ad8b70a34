//! The cost of programs in counted work: its growth with the size, and the cost of derivatives relative to values.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::derivatives::derived;
use std::collections::BTreeSet;
use tapeloom::prelude::*;
use tapeloom_backend::{Options, compile};
use tapeloom_ir::{FuncId, Module, parse_module};
use tapeloom_tests::growth::GROWING;
use tapeloom_tests::{Case, Failure, cases};
use tapeloom_transforms::{BEFORE_CODE, Cost};

/// The limit on a quotient for each of the programs `GROWING`: the counted work of the gradient over the sum of the
/// value's work and the number of elements of the arguments.
const GRADIENT: f64 = 6.0;

/// The factor by which work may grow beyond the stated power of n, from size n to 4 n: constant terms, such as ends of
/// loops, weigh more at the smaller size.
const SLACK: f64 = 1.25;

#[test]
fn work_grows_as_the_table_says() {
    let mut wrong = Vec::new();
    for row in GROWING {
        let mut value = None;
        for (what, power) in [("value", Some(row.power)), ("gradient", row.gradient)] {
            let Some(power) = power else { continue };
            let at = |n: usize| row.counts(n, what == "gradient", false);
            let (few, many) = match (at(row.n), at(4 * row.n)) {
                (Ok(few), Ok(many)) => (few, many),
                (Err(e), _) | (_, Err(e)) => {
                    wrong.push(format!("{}, {what}: {e}", row.name));
                    continue;
                }
            };
            let of_value = *value.get_or_insert(few.work);
            if let (Some(value), Some(gradient)) = (of_value, few.work) {
                let read: usize = (row.arguments)(row.n).iter().map(Tensor::elements).sum();
                let ratio = gradient as f64 / (value + read as u64) as f64;
                if ratio > GRADIENT {
                    wrong.push(format!("{}: {value}, gradient {gradient}", row.name));
                }
            }
            let most = SLACK * 4f64.powf(power);
            let ratio = |few: u64, many: u64| many as f64 / few as f64;
            if let (Some(few), Some(many)) = (few.work, many.work)
                && ratio(few, many) > most
            {
                wrong.push(format!("{}, {what}: work {few} and {many}", row.name));
            }
            // Constants of a program make up small workspaces: up to 4096 bytes at size 4 n are not checked, and at
            // size n at least 1024 bytes are assumed.
            let (few, many) = (few.workspace as u64, many.workspace as u64);
            if many > 4096 && ratio(few.max(1024), many) > most.max(SLACK * 4.0) {
                wrong.push(format!("{}, {what}: workspace {few} and {many}", row.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The largest factor between the bytes that the cost model counts and the bytes that the steps of the lowered program
/// read and write.
const TRAFFIC: f64 = 1.5;

/// Bytes that are added to the counted and to the moved bytes before they are compared. The cost model counts nothing
/// for arrays of a few numbers, which are in registers.
const FEW: f64 = 1024.0;

/// The smallest fraction of the programs in which the counted and the moved bytes must agree. In the other programs
/// lowering copies windows (convolutions with strides, patches) or scattered and cumulated operands, or two reductions of
/// one value share a loop nest.
const AGREEING: f64 = 0.87;

/// The cost model by which the e-graph chooses must count the bytes that the loops of programs move. Programs with loops
/// in them are left out: their bodies are functions, which are simplified one by one.
#[test]
fn the_cost_model_counts_the_bytes_of_the_lowered_programs() {
    let (mut far, mut compared) = (Vec::new(), 0);
    for row in GROWING {
        for gradient in [false, true] {
            if gradient && row.gradient.is_none() {
                continue;
            }
            let (n, program) = (4 * row.n, row.program);
            let f = jit(move |all: Vec<Var>| {
                let rest = all[1..].to_vec();
                let value = move |x: Var| program(n, &[&[x], &rest[..]].concat()).sum();
                if gradient { grad(value)(all[0]) } else { value(all[0]) }
            });
            let e = f.explain((row.arguments)(n)).unwrap();
            let text = e.stages().iter().rev().map(|s| &s.text).find(|t| !t.is_empty()).unwrap();
            let m = parse_module(text).unwrap();
            let (id, f) = m.iter().last().unwrap();
            if f.equations.iter().any(|e| e.runs().next().is_some()) {
                continue;
            }
            let modelled = Cost::of(&m, f).bytes + FEW;
            let lowered = compile(&m, id, &Options::default()).unwrap();
            let counted = lowered.report().program.traffic() as f64 + FEW;
            compared += 1;
            let ratio = modelled / counted;
            if !(1.0 / TRAFFIC..=TRAFFIC).contains(&ratio) {
                let what = if gradient { "gradient of " } else { "" };
                far.push(format!("{what}{}: {modelled} for {counted}, {ratio:.2}", row.name));
            }
        }
    }
    let agreeing = 1.0 - far.len() as f64 / compared as f64;
    assert!(agreeing >= AGREEING, "{agreeing:.2} of {compared} agree\n{}", far.join("\n"));
}

/// Returns the counted work of a function after the passes that precede code generation.
fn work(m: &mut Module, f: FuncId) -> Result<u64, Failure> {
    let f = BEFORE_CODE.run(m, f)?;
    Ok(compile(m, f, &Options::default())?.report().program.work())
}

/// Returns the number of elements of all arguments and results of a case.
fn numbers(m: &Module, case: &Case) -> u64 {
    let f = m.function(case.f);
    let elements = |v: &tapeloom_ir::Type| v.as_array().map_or(0, |ty| ty.shape.elements() as u64);
    let results = f.results.iter().map(|r| elements(&f.type_of(*r)));
    f.param_types().iter().map(elements).chain(results).sum()
}

/// The limit on the work of a `jvp`, relative to the work of the value plus the number of elements of arguments and
/// results.
const JVP: f64 = 3.0;

/// The limit on the work of a `vjp`, relative to the work of the value plus the number of elements of arguments and
/// results.
const VJP: f64 = 5.0;

/// Primitives whose derivatives may cost more than `JVP` or `VJP`: the primitive, its limits for `jvp` and for `vjp`,
/// and the reason.
const DEARER: &[(&str, f64, f64, &str)] = &[
    ("beta_density", 4.0, 5.0, "as zeta: one evaluation for each of three operands, and the value"),
    ("betainc", 3.5, 5.0, "as zeta: one evaluation for each of three operands, and the value"),
    ("cholesky", 8.0, 5.0, "two solutions and a product, compared with n³/3"),
    (
        "cummax",
        6.5,
        7.0,
        "three recurrences: a mask of the elements that attain the extremum, their number and \
         their mean",
    ),
    (
        "cummin",
        6.5,
        7.0,
        "three recurrences: a mask of the elements that attain the extremum, their number and \
         their mean",
    ),
    ("dot", 3.2, 5.0, "two products besides the value's, and their sum"),
    (
        "eig",
        7.5,
        9.5,
        "four products of complex matrices, of orders where the routine costs little more",
    ),
    ("eigh", 8.5, 9.5, "three products, of orders where the routine costs little more"),
    (
        "lu",
        10.5,
        55.0,
        "of orders 2 and 3 the routine costs 9, two solutions and three products cost more",
    ),
    ("qr", 8.5, 9.5, "a solution, three products, and the factor Q where only R is the value"),
    (
        "scatter_max",
        4.5,
        5.0,
        "elements that attain the extremum are counted, and their tangents divided",
    ),
    (
        "scatter_min",
        4.5,
        5.0,
        "elements that attain the extremum are counted, and their tangents divided",
    ),
    ("scatter_mul", 7.5, 7.0, "two scatters besides the value's: a product and a count of zeros"),
    ("svd", 5.0, 5.0, "four products, of orders where the routine costs little more"),
    (
        "triangular_solve",
        3.0,
        7.5,
        "a solution and a product of full matrices, of which only a triangle is used",
    ),
    ("zeta", 4.0, 5.0, "one evaluation for each operand, and the value"),
];

#[test]
fn derivatives_cost_a_small_multiple_of_values() {
    let (mut m, mut wrong, mut used) = (Module::new(), Vec::new(), BTreeSet::new());
    let mut counted = 0;
    for case in cases(&mut m) {
        let Ok(Some(of)) = derived(&mut m, &case) else { continue };
        let numbers = numbers(&m, &case);
        let value = work(&mut m, case.f).unwrap();
        let name = m.function(case.f).equations[0].op.name().to_owned();
        let dearer = DEARER.iter().find(|(dear, ..)| name == *dear);
        let limits = dearer.map_or((JVP, VJP), |(_, jvp, vjp, _)| (*jvp, *vjp));
        for (mode, f, usual, most) in
            [("jvp", of.jvp.f, JVP, limits.0), ("vjp", of.vjp.f, VJP, limits.1)]
        {
            let derivative = work(&mut m, f).unwrap();
            // The work of a loop with unknown trip count is not known: `u64::MAX`.
            if derivative == u64::MAX {
                continue;
            }
            counted += 1;
            let ratio = derivative as f64 / (value + numbers) as f64;
            if ratio > usual {
                used.insert(name.clone());
            }
            if ratio > most {
                wrong.push(format!("{mode} of {}: {derivative}, {ratio:.1} times", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(counted > 500, "{counted} derivatives were counted");
    let unused: Vec<&str> =
        DEARER.iter().map(|row| row.0).filter(|name| !used.contains(*name)).collect();
    assert_eq!(unused, [""; 0], "rows that no sample needs");
}

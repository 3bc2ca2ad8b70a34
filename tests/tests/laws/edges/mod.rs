//! Edges: values, gradients and Hessians of the public functions of one or two arrays, and of rows, at ties, zeros of
//! both signs, infinities, nan, and at tiny and huge numbers, compared with a recorded table.
//!
//! `tests/data/edges/record.py` recorded two answers for each point, the mathematical one (if there is one) and JAX's.
//! If a mathematical answer exists, the results here must agree with it; otherwise they must agree with JAX's.
//! `choices.rs` gives a reason for each exception, and prints them to a table of the book (`BLESS=1 cargo test -p
//! tapeloom-tests --test laws edges::` writes it).

mod accuracy;
mod choices;
mod completeness;
mod f32_errors;
mod functions;
mod narrow;
mod table;

use completeness::{NOT_RECORDED, base, public_functions};
use functions::FUNCTIONS;
use std::collections::{BTreeMap, BTreeSet};
use tapeloom::prelude::*;
use tapeloom_ir::{Code, Scalar};

#[test]
fn every_public_function_is_recorded_or_needs_no_record() {
    let public = public_functions();
    assert!(
        public.len() > 100 && public.contains("logaddexp"),
        "the list was not found: {public:?}"
    );
    // `neg` is recorded, but is an operator here, not a public function of that name.
    let recorded: BTreeSet<String> =
        FUNCTIONS.iter().map(|(name, _)| base(name).to_owned()).filter(|n| n != "neg").collect();
    let mut reasons: BTreeMap<&str, &str> = BTreeMap::new();
    for (reason, names) in NOT_RECORDED {
        for name in names.split_whitespace() {
            assert!(reasons.insert(name, reason).is_none(), "{name} has two reasons");
            assert!(public.contains(name), "{name} is no public function");
            assert!(!recorded.contains(name), "{name} is recorded, and listed as not recorded");
        }
    }
    let missing: Vec<&String> = public
        .iter()
        .filter(|n| !recorded.contains(*n) && !reasons.contains_key(n.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "new functions: {missing:?}; record their edges (a line in tests/data/edges/record.py and one \
         in tests/tests/laws/edges/functions.rs), or say in completeness.rs why there is nothing to record"
    );
    let unknown: Vec<&String> = recorded.difference(&public).collect();
    assert!(unknown.is_empty(), "recorded, but not public: {unknown:?}");
}

#[test]
fn functions_and_table_name_the_same() {
    let table: Vec<String> = table::recorded().entries.into_iter().map(|e| e.name).collect();
    let listed: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
    assert_eq!(listed, table, "the order is that of the script");
}

#[test]
fn edges_are_those_recorded_or_chosen() {
    let findings = choices::find(&table::recorded());
    assert!(findings.wrong.is_empty(), "{}", findings.wrong.join("\n"));
    choices::check_block("choices", &findings.table());
}

#[test]
fn values_are_as_accurate_as_stated() {
    let mut wrong = Vec::new();
    let measured = accuracy::measured();
    for (name, error, at) in &measured {
        match accuracy::BOUNDS.iter().find(|(n, _)| n == name) {
            None => wrong.push(format!("{name} has no bound; {error:.2} ulp at {at:?}")),
            Some((_, bound)) if error > bound => {
                wrong.push(format!("{name} is off by {error:.2} ulp at {at:?}, more than {bound}"));
            }
            // If a function's error is less than half of its bound, the bound must be tightened.
            Some((_, bound)) if *bound > 2.0 && *bound > 2.0 * error => {
                wrong.push(format!("{name} is within {error:.2} ulp; tighten the bound {bound}"));
            }
            Some(_) => {}
        }
    }
    for (name, _) in accuracy::BOUNDS {
        if !measured.iter().any(|(n, ..)| n == name) {
            wrong.push(format!("{name} has a bound and no values"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    choices::check_block("accuracy", &accuracy::table());
}

/// The book lists the functions that vectorized loops call for one element at a time; the list must be complete, and
/// `explain` must name such a function in its report of a loop.
#[test]
fn functions_of_one_element_at_a_time_are_listed() {
    let is_scalar = |s: &Scalar| {
        let Code::Library(library) = s.row().code else { return None };
        let in_vectors = [Dtype::F64, Dtype::F32].map(|dtype| library.recording(dtype).is_some());
        let where_not = match in_vectors {
            [true, true] => return None,
            [true, false] => " (f32)",
            [false, true] => " (f64)",
            [false, false] => "",
        };
        Some(format!("`{}`{where_not}", library.name))
    };
    let names: Vec<String> = Scalar::ALL.iter().filter_map(is_scalar).collect();
    choices::check_block("one at a time", &format!("{}\n", names.join(", ")));

    let x = Tensor::full(&[1000], 0.5).unwrap();
    let report = jit(|x: Var| x.erfc_inv() + x.exp()).explain(&x).unwrap();
    for l in &report.vectors().loops {
        assert_eq!(l.one_by_one, ["erfc_inv"], "{}", report.vectors());
    }
    assert!(jit(|x: Var| x.exp()).explain(&x).unwrap().vectors().loops[0].one_by_one.is_empty());
}

/// Sums over functions of two arguments, at adjacent elements and at strides, must run in as many lanes as sums over
/// functions of one argument.
#[test]
fn functions_of_two_arguments_run_in_lanes() {
    let two: [fn(Var, Var) -> Var; 4] =
        [|x, y| x.pow(y), |x, y| x.hypot(y), |x, y| x.atan2(y), |x, y| x.logaddexp(y)];
    fn lanes(f: impl Fn(Var) -> Var + 'static, x: &Tensor) -> Vec<String> {
        let explained = jit(f).explain(x).unwrap();
        explained.vectors().loops.iter().map(|l| l.header.clone()).collect()
    }
    let (row, columns) =
        (Tensor::full(&[1000], 0.5).unwrap(), Tensor::full(&[1000, 2], 0.5).unwrap());
    for f in two {
        assert_eq!(lanes(move |x| f(x, 1.5 - x).sum(), &row), lanes(|x| x.exp().sum(), &row));
        let column = |x: Var, i| x.index_axis(1, i);
        assert_eq!(
            lanes(move |x| f(column(x, 0), column(x, 1)), &columns),
            lanes(move |x| column(x, 0).exp() + column(x, 1), &columns)
        );
    }
}

/// Compares functions in f32 with themselves in f64: values, gradients and Hessians must agree to the relative errors
/// of `narrow::NEAR`.
#[test]
fn functions_in_f32_are_near_those_in_f64() {
    let wrong = narrow::wrong(&table::recorded());
    assert!(wrong.is_empty(), "{} are off:\n{}", wrong.len(), wrong.join("\n"));
}

/// Sums in several accumulators, combined in any order, must be finite if the sum of every subset of the terms is
/// finite.
#[test]
fn sums_are_finite_where_those_of_all_subsets_are() {
    let alternating = |size: f64, count: usize| {
        let signed = |i: usize| if i.is_multiple_of(2) { size } else { -size };
        Tensor::from((0..count).map(signed).collect::<Vec<f64>>())
    };
    for count in [2, 16, 100, 1000] {
        // The subset with the largest sum holds half of the terms, the positive ones: its sum is at most `f64::MAX`.
        let x = alternating(f64::MAX / count as f64, count);
        for f in [|x: Var| x.sum(), |x: Var| x.dot(x.ones_like())] as [fn(Var) -> Var; 2] {
            assert_eq!(run(f, &x).unwrap().item::<f64>().unwrap(), 0.0, "{count} terms");
        }
    }
}

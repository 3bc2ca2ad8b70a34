//! Arrays without elements: every primitive with an extent of 0 wherever it accepts one.
//!
//! The cases are the primitives' samples, with extents set to 0 in operands and attributes together, in every way
//! that the primitive accepts. All engines must agree on programs with empty arrays, and on their derivatives and
//! batches (of size 0 too).

use crate::derivatives::derived;
use crate::native::native;
use crate::{for_each, subsets};
use std::collections::BTreeSet;
use tapeloom_ir::prim::{Attr, Attributes, Sample};
use tapeloom_ir::{Builder, Draft, Literal, Module, Op, Operands, Shape, Tensor, print_function};
use tapeloom_tests::calculus::stack;
use tapeloom_tests::{Agreement, Case, run};
use tapeloom_transforms::batch;

#[test]
fn machine_code_equals_the_interpreter() {
    for_each(cases, native);
}

#[test]
fn derivatives_exist_and_agree() {
    for_each(cases, |m, case| match derived(m, case)? {
        Some(of) => native(m, &of.jvp).and_then(|()| native(m, &of.vjp)),
        None => Ok(()),
    });
}

#[test]
fn batches_of_nothing_and_of_something() {
    for_each(cases, |m, case| {
        for size in [0, 2] {
            let args: Vec<Tensor> =
                case.args.iter().map(|t| stack(t, vec![t; size].into_iter())).collect();
            let of = batch(m, case.f, size, &vec![true; args.len()])?;
            let lifted = Case { f: of.function, args, ..case.clone() };
            native(m, &lifted)?;
            let one = run(m, case.f, &case.args)?;
            let got = run(m, of.function, &lifted.args)?;
            for ((got, one), lifted) in got.iter().zip(&one).zip(&of.batched_out) {
                let want =
                    if *lifted { stack(one, vec![one; size].into_iter()) } else { one.clone() };
                Agreement::relative(1e-12).check(got, &want)?;
            }
        }
        Ok(())
    });
}

/// A batch with no members also produces empty arrays, which machine code must handle.
#[test]
fn batches_of_nothing_run_as_machine_code() {
    crate::for_all(|m, case| {
        let args: Vec<Tensor> = case.args.iter().map(|t| stack(t, [].iter())).collect();
        let of = batch(m, case.f, 0, &vec![true; args.len()])?;
        native(m, &Case { f: of.function, args, ..case.clone() })
    });
}

#[test]
fn most_primitives_take_an_extent_of_0() {
    let mut module = Module::new();
    let names: BTreeSet<String> = cases(&mut module).into_iter().map(|c| c.name).collect();
    assert!(names.len() >= 85, "{} primitives: {names:?}", names.len());
}

/// Returns, for every sample of a primitive, all variants with some extents set to 0.
fn cases(module: &mut Module) -> Vec<Case> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for sample in Op::samples(module) {
        let attributes = sample.op.attributes();
        let shapes: Vec<Shape> = sample.operands.iter().map(|t| t.ty().shape.clone()).collect();
        for zeros in choices(&shapes, &attributes) {
            let Some(case) = zeros.case(module, &sample) else { continue };
            if seen.insert(print_function(module, case.f)) {
                all.push(case);
            }
        }
    }
    all
}

/// The extents and integers in a sample that are set to zero: axes of operands (operand, axis), and elements of integer
/// lists among the attributes (attribute, index).
#[derive(Clone, Default)]
struct Zeros {
    axes: Vec<(usize, usize)>,
    attributes: Vec<(usize, usize)>,
}

/// Returns the choices of axes and attribute numbers to set to zero: each set of those that have one and the same value
/// in the sample, and each axis of each operand together with any of the attribute numbers for that axis.
fn choices(shapes: &[Shape], attributes: &[(&'static str, Attr)]) -> Vec<Zeros> {
    let axes: Vec<(usize, usize, i64)> = shapes
        .iter()
        .enumerate()
        .flat_map(|(o, s)| s.iter().enumerate().map(move |(a, n)| (o, a, *n as i64)))
        .collect();
    let numbers: Vec<(usize, usize, i64)> = attributes
        .iter()
        .enumerate()
        .flat_map(|(k, (_, attr))| match attr {
            Attr::Ints(v) => v.iter().enumerate().map(|(i, n)| (k, i, *n)).collect(),
            _ => Vec::new(),
        })
        .collect();
    let mut all = Vec::new();
    let mut choose = |axes: Vec<(usize, usize)>, numbers: Vec<(usize, usize)>| {
        // Combine up to six axes and integers in all ways. If there are more, set all to zero at once, and each one
        // alone.
        let marked = vec![true; axes.len() + numbers.len()];
        let sets = match marked.len() {
            4..=6 => (1..1 << marked.len())
                .map(|bits: u32| (0..marked.len()).map(|i| bits >> i & 1 == 1).collect())
                .collect(),
            _ => subsets(&marked),
        };
        for set in sets {
            let mut zeros = Zeros::default();
            let mut on = set.into_iter();
            zeros.axes.extend(axes.iter().filter(|_| on.next() == Some(true)));
            zeros.attributes.extend(numbers.iter().filter(|_| on.next() == Some(true)));
            all.push(zeros);
        }
    };
    let extents: BTreeSet<i64> = axes.iter().chain(&numbers).map(|(_, _, n)| *n).collect();
    let at = |of: &[(usize, usize, i64)], keep: &dyn Fn(&(usize, usize, i64)) -> bool| {
        of.iter().filter(|p| keep(p)).map(|(k, i, _)| (*k, *i)).collect::<Vec<_>>()
    };
    for e in extents {
        choose(at(&axes, &|p| p.2 == e), at(&numbers, &|p| p.2 == e));
    }
    for (o, a, _) in &axes {
        choose(vec![(*o, *a)], at(&numbers, &|p| p.1 == *a));
    }
    all
}

impl Zeros {
    /// Returns the sample with the chosen extents and integers set to zero, if the primitive accepts it.
    fn case(&self, module: &mut Module, sample: &Sample) -> Option<Case> {
        let mut shapes: Vec<Shape> = sample.operands.iter().map(|t| t.ty().shape.clone()).collect();
        for (o, a) in &self.axes {
            shapes[*o][*a] = 0;
        }
        let mut attributes: Vec<(String, Attr)> =
            sample.op.attributes().into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        for (k, i) in &self.attributes {
            if let Attr::Ints(v) = &mut attributes[*k].1 {
                v[*i] = 0;
            }
        }
        let mut attributes = Attributes::new(attributes);
        let op = Op::parse(sample.op.name(), &mut attributes)?.ok()?;
        let args: Vec<Tensor> = sample
            .operands
            .iter()
            .zip(&shapes)
            .map(|(t, shape)| match shape.elements() {
                0 => Tensor::full(shape, Literal::zero(t.dtype())).unwrap(),
                _ => t.clone(),
            })
            .collect();
        let mut draft = Draft::new(op.name());
        let operands: Operands = args.iter().map(|t| draft.param(t.ty().clone().into())).collect();
        let results = Builder::new(module, &mut draft).try_emit(op, &operands).ok()?;
        let f = draft.finish(module, results.to_vec()).ok()?;
        let empty = |shape: &Shape| shape.elements() == 0;
        let of_result = module
            .function(f)
            .result_types()
            .into_iter()
            .any(|ty| ty.as_array().is_some_and(|a| empty(&a.shape)));
        let some = of_result || args.iter().any(|t| empty(&t.ty().shape));
        let name = sample.op.name().to_owned();
        some.then_some(Case { name, f, args, smooth: sample.smooth })
    }
}

//! Every primitive's samples as programs: the cases on which properties of primitives are tested.

use crate::Elements;
use crate::Rng;
use tapeloom_ir::{
    Atom, Builder, Code, Draft, FuncId, Module, Op, Operands, Tensor, Type,
    prim::{Library, Lowering, Operand, Sample},
};

/// A function with arguments, on which a property is tested.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name of the case; for a sample, the name of its primitive.
    pub name: String,
    /// The function. For a sample it has one equation, and literal operands are not parameters.
    pub f: FuncId,
    /// The arguments of the function.
    pub args: Vec<Tensor>,
    /// Whether derivatives exist at the arguments and are smooth enough for finite differences.
    pub smooth: bool,
}

/// Returns the samples of all primitives as cases. For each operand of an elementwise sample with several operands,
/// there is another case in which that operand is a literal, because only literals may differ in shape from the other
/// operands.
///
/// # Panics
/// If a sample's operands do not fit its primitive.
pub fn cases(module: &mut Module) -> Vec<Case> {
    let mut all = Vec::new();
    for sample in Op::samples(module) {
        let n = sample.operands.len();
        let scalar: Vec<bool> = sample.operands.iter().map(|t| t.shape().is_empty()).collect();
        let values = vec![false; n];
        let Some(case) =
            program(module, &sample, &values).or_else(|| program(module, &sample, &scalar))
        else {
            panic!("the operands of sample {:?} do not fit: {:?}", sample.op, sample.operands)
        };
        all.push(case);
        if n > 1 && elementwise(module, &sample) {
            for (i, operand) in sample.operands.iter().enumerate() {
                if operand.elements() == 0 {
                    continue;
                }
                let mut literal = sample.clone();
                literal.operands[i] = Tensor::from(operand.at(0));
                let mask: Vec<bool> = (0..n).map(|k| k == i).collect();
                // The literal, element 0 of an operand, is combined with all elements of the other operands. If the
                // operand is an array, the sample combines its element 0 only with their elements 0, so derivatives
                // need not exist for the other combinations.
                literal.smooth &= scalar[i];
                all.extend(program(module, &literal, &mask));
            }
        }
    }
    all
}

/// Returns the library functions to which the samples of all primitives are lowered.
pub fn library_functions() -> Vec<Library> {
    let mut m = Module::new();
    let samples = Op::samples(&mut m).into_iter();
    let lowered = samples.filter_map(|sample| {
        let types: Vec<Type> = sample.operands.iter().map(|x| x.ty().clone().into()).collect();
        let operands: Vec<_> = types.iter().map(|ty| Operand { ty, literal: None }).collect();
        match sample.op.lower(&m, &operands) {
            Lowering::Elementwise(Code::Library(library)) => Some(library),
            _ => None,
        }
    });
    lowered.collect()
}

impl Case {
    /// Returns for each argument whether it is a float, so that it can have a tangent.
    pub fn floats(&self) -> Vec<bool> {
        self.args.iter().map(|t| t.dtype().is_float()).collect()
    }

    /// Returns random tangents for the active arguments.
    pub fn directions(&self, rng: &mut Rng, active: &[bool]) -> Vec<Tensor> {
        let marked = self.args.iter().zip(active).filter(|(_, on)| **on);
        marked.map(|(t, _)| rng.tensor(t.ty())).collect()
    }
}

fn elementwise(module: &Module, sample: &Sample) -> bool {
    let types: Vec<Type> = sample.operands.iter().map(|t| t.ty().clone().into()).collect();
    let operands: Vec<Operand<'_>> = types.iter().map(|ty| Operand { ty, literal: None }).collect();
    matches!(sample.op.lower(module, &operands), Lowering::Elementwise(_))
}

/// Returns a case for the sample in which the marked operands are literals, or `None` if it does not type-check.
fn program(module: &mut Module, sample: &Sample, literal: &[bool]) -> Option<Case> {
    let mut draft = Draft::new(sample.op.name());
    let mut args = Vec::new();
    let mut operands = Operands::new();
    for (t, literal) in sample.operands.iter().zip(literal) {
        if *literal {
            operands.push(t.at(0).into());
        } else {
            operands.push(draft.param(t.ty().clone().into()));
            args.push(t.clone());
        }
    }
    let outputs = Builder::new(module, &mut draft).try_emit(sample.op.clone(), &operands).ok()?;
    let results: Vec<Atom> = outputs.to_vec();
    let f = draft.finish(module, results).ok()?;
    Some(Case { name: sample.op.name().to_owned(), f, args, smooth: sample.smooth })
}

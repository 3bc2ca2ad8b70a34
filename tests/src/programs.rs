//! Random well-typed programs, built from the primitives of the samples.
//!
//! A program is a function of a list of numbers, its *choices*. Each choice appends one equation, or none if it fits
//! no operands. So a failing test is shrunk by leaving out choices.

use crate::Elements;
use crate::{Case, Rng};
use tapeloom_ir::prim::Effects;
use tapeloom_ir::{
    ArrayType, Atom, Builder, Draft, Dtype, Module, Op, Operands, Problem, Tensor, eval,
};

/// The primitives from which random programs are built, with their numbers of operands.
pub struct Vocabulary {
    ops: Vec<(Op, usize)>,
}

/// The number of attempts to find operands that fit a drawn primitive.
const TRIES: usize = 12;

/// The largest magnitude of values that may be operands, so that rounding errors stay small.
const LARGE: f64 = 1e3;

impl Vocabulary {
    /// Collects primitives without ordered effects that are differentiable or take no floats, with their numbers of
    /// operands. The regions of these primitives are added to `module`.
    pub fn new(module: &mut Module) -> Vocabulary {
        let mut ops = Vec::new();
        for s in Op::samples(module) {
            let small = s.operands.iter().all(|t| t.elements() <= 12);
            let no_floats = s.operands.iter().all(|t| !t.dtype().is_float());
            let silent = s.op.effects(module) != Effects::Ordered;
            if small && silent && (s.smooth || no_floats) {
                ops.push((s.op, s.operands.len()));
            }
        }
        ops.sort();
        ops.dedup();
        Vocabulary { ops }
    }

    /// Returns the program of these choices, with arguments at which all its values have a magnitude of at most
    /// `LARGE`.
    ///
    /// # Errors
    /// The error of a primitive.
    pub fn program(&self, module: &mut Module, choices: &[u64]) -> Result<Case, Problem> {
        let mut draft = Draft::new("random");
        let mut values: Vec<(Atom, Tensor)> = Vec::new();
        let mut rng = Rng::new(7);
        for (dtype, shape) in [
            (Dtype::F64, &[2, 3][..]),
            (Dtype::F64, &[2, 3]),
            (Dtype::F64, &[3]),
            (Dtype::F64, &[4]),
            (Dtype::F64, &[]),
            (Dtype::I64, &[]),
        ] {
            let ty = ArrayType::new(dtype, shape);
            values.push((draft.param(ty.clone().into()), rng.tensor(&ty)));
        }
        let args: Vec<Tensor> = values.iter().map(|(_, t)| t.clone()).collect();
        let mut unread: Vec<usize> = vec![values.len() - 1];
        let b = Builder::new(module, &mut draft);
        for choice in choices {
            let mut rng = Rng::new(*choice);
            let (op, arity) = &self.ops[rng.index(self.ops.len())];
            for _ in 0..TRIES {
                // Half of the operands are among the latest four values, so that programs become deep.
                let mut pick = || {
                    let reach = if rng.index(2) == 0 { 4 } else { values.len() };
                    values.len() - 1 - rng.index(reach)
                };
                let picked: Vec<usize> = (0..*arity).map(|_| pick()).collect();
                let operands: Operands = picked.iter().map(|i| values[*i].0).collect();
                let tensors: Vec<Tensor> = picked.iter().map(|i| values[*i].1.clone()).collect();
                let fits = b.with_module(|m| fits(m, op, &operands, &tensors));
                let Some(y) = fits else { continue };
                if y.iter().all(tame) {
                    values.extend(b.emit(op.clone(), &operands).into_iter().zip(y));
                    unread.retain(|i| !picked.contains(i));
                    unread.extend(values.len() - 1..values.len());
                    break;
                }
            }
        }
        // Results are the latest unread values, floats first, because only floats have derivatives.
        unread.sort_by_key(|i| (!values[*i].1.dtype().is_float(), usize::MAX - i));
        let results = unread.iter().take(5).map(|i| values[*i].0).collect();
        let f = draft.finish(module, results)?;
        debug_assert!(eval(module, f, &args).is_ok());
        Ok(Case { name: "random".into(), f, args, smooth: false })
    }
}

/// Evaluates a primitive; returns its outputs, or `None` if the operands do not type-check.
fn fits(module: &Module, op: &Op, operands: &[Atom], tensors: &[Tensor]) -> Option<Vec<Tensor>> {
    use tapeloom_ir::prim::Operand;
    let types: Vec<tapeloom_ir::Type> = tensors.iter().map(|t| t.ty().clone().into()).collect();
    let typed: Vec<Operand<'_>> =
        types.iter().zip(operands).map(|(ty, a)| Operand { ty, literal: a.literal() }).collect();
    op.infer(module, &typed).ok()?;
    op.eval(module, tensors).ok()
}

fn tame(t: &Tensor) -> bool {
    t.elements() <= 64 && (0..t.elements()).all(|i| t.at(i).to_f64().abs() <= LARGE)
}

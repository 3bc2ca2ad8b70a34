//! `probe{number}`: its operand, which is reported to whoever listens, once and in order.
//!
//! It exists for tests: the one primitive whose effect is [`Effects::Ordered`], so that it can be
//! seen that passes and transforms neither drop, double nor exchange such equations. It is in no
//! catalogue.
//!
//! ```
//! use tapeloom_ir::{Tensor, eval, parse_module, prim::reports};
//! let module = parse_module("func @f(%0: f64[]) -> (f64[]) {
//!   %1: f64[] = probe{number=7} %0
//!   return %0
//! }").map_err(|e| e[0].clone())?;
//! let f = module.iter().next().map(|(id, _)| id).ok_or("no function")?;
//! let (_, told) = reports(|| eval(&module, f, &[Tensor::from(2.0)]));
//! assert_eq!(told, [(7, Tensor::from(2.0))]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::movement::one_array;
use super::{
    Arg, ArrayPrimitive, Cotangents, Doc, Effects, Linearity, Lowering, Operand, Rewrite, Sample,
    Tangent,
};
use crate::builder::Builder;
use crate::function::Atom;
use crate::problem::Result;
use crate::tensor::Tensor;
use crate::types::ArrayType;
use std::cell::RefCell;

/// `probe{number}`
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Probe {
    /// Which one reports.
    pub number: u32,
}

notation!(Probe = "probe" { number });

/// What probes have said: their numbers and operands.
pub type Reports = Vec<(u32, Tensor)>;

thread_local! {
    /// What was reported on this thread since somebody began to listen.
    static HEARD: RefCell<Option<Reports>> = const { RefCell::new(None) };
}

/// The answer of `run`, and what the interpreter's probes report on this thread while it runs.
pub fn reports<T>(run: impl FnOnce() -> T) -> (T, Reports) {
    let before = HEARD.replace(Some(Vec::new()));
    let answer = run();
    (answer, HEARD.replace(before).unwrap_or_default())
}

impl ArrayPrimitive for Probe {
    const EFFECTS: Effects = Effects::Ordered;

    fn docs() -> Vec<Doc> {
        Vec::new()
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        one_array("probe", operands).cloned()
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let x = &operands[0];
        HEARD.with_borrow_mut(|heard| {
            heard.iter_mut().for_each(|h| h.push((self.number, x.clone())))
        });
        Ok(x.clone())
    }

    /// `dy = dx`: derivatives report nothing.
    fn jvp(&self, _: &Builder<'_>, _: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        Ok(dx[0])
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        true
    }

    fn transpose(&self, b: &Builder<'_>, _: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        into.add(b, 0, ct);
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, _: usize, x: &[Atom], _: &[bool]) -> Result<Atom> {
        Ok(b.emit1(*self, x))
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::Report { number: self.number }
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    /// None: the laws run samples by every engine.
    fn samples() -> Vec<Sample> {
        Vec::new()
    }
}

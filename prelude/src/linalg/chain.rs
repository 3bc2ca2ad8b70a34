//! Links of a chain of derivatives. A link is the value at a matrix, or a derivative along directions, with a rule
//! for the next derivative.

use crate::Var;
use crate::control::Shared;
use crate::prng::unmarked;
use crate::staging::{handles, stage, vars};
use tapeloom_ir::prim::MultilinearCall;
use tapeloom_ir::trace::{self, Diagnostic};
use tapeloom_ir::{FuncId, Loc, Module};

/// Computes the value of a link, a function of the matrix or one of its derivatives, from the constants and the
/// directions. The value is linear in each direction.
pub(super) type Value<'a> = dyn Fn(&[Var], &[Var]) -> Var + 'a;

/// Computes the derivative of a link's value along `da`, from the constants, the matrix, the directions and `da`.
pub(super) type Rule<'a> = dyn Fn(&[Var], Var, &[Var], Var) -> Var + 'a;

/// The arguments that are the same for a function of a matrix and for all its derivatives.
#[derive(Clone, Copy)]
pub(super) struct Point<'a> {
    /// The name of the public function, for messages.
    pub(super) name: &'static str,
    pub(super) at: Loc,
    /// Factors of the matrix, from which values are computed. Derivatives treat them as constants.
    pub(super) constants: &'a [Var],
    /// The matrix with respect to which derivatives are taken.
    pub(super) a: Var,
}

impl Point<'_> {
    /// Emits a link of the chain, the function or one of its derivatives: the result of `value` along `directions`.
    /// `rule` computes the derivative of this result with respect to the matrix. Without a rule, this derivative is an
    /// error. The derivatives with respect to captures of the closure `value` are those of the traced closure.
    pub(super) fn link(
        self,
        directions: &[Var],
        value: &Value<'_>,
        rule: Option<&Rule<'_>>,
    ) -> Var {
        let Point { name, at, constants, a } = self;
        let split = constants.len();
        let own = [constants, &[a], directions].concat();
        let value = |x: Vec<Var>| value(&x[..split], &x[split + 1..]);
        let (value, ..) = unmarked(|| stage::<Vec<Var>, Var>(name, at, &value, own.clone()));
        let results = value.result_types();
        let rule = rule.map(|rule| {
            let rule = |mut x: Vec<Var>| match x.pop() {
                Some(da) => rule(&x[..split], x[split], &x[split + 1..], da),
                None => a,
            };
            let more = [&own[..], &[a]].concat();
            unmarked(|| stage::<Vec<Var>, Var>(name, at, &rule, more)).0
        });
        let taken: Vec<_> = std::iter::once(&value).chain(&rule).map(|f| f.taken()).collect();
        let shared = Shared::of(&taken, at);
        let whole = |m: &mut Module| {
            let mut led = |f: Option<FuncId>, args: usize, i: usize| match f {
                Some(f) => shared.led(m, f, args, i).map(Some),
                None => Ok(None),
            };
            let function = led(value.function(), own.len(), 0)?;
            let jvp = match &rule {
                Some(rule) => led(rule.function(), own.len() + 1, 1)?.map(Some),
                None => Some(None),
            };
            let constants = shared.captures.len() + split;
            Ok(function.zip(jvp).map(|(function, jvp)| MultilinearCall {
                function,
                jvp,
                constants,
            }))
        };
        let poison = || value.poison(&results);
        let made = match trace::with_module(whole) {
            Some(Ok(Some(op))) => {
                let operands = [&shared.captures[..], &handles(&own)].concat();
                vars(&trace::bind(op, &operands, at))
            }
            Some(Err(problem)) => {
                value.report(Diagnostic::new(problem, at));
                poison()
            }
            Some(Ok(None)) | None => poison(),
        };
        made.first().copied().unwrap_or_else(|| Var::poison(a.ty(at), at))
    }
}

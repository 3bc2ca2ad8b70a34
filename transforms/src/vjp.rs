//! Reverse mode: `vjp : (x -> y) -> (x, ct of y) -> (y, ct of x)`.
//!
//! Reverse mode is not a transform of its own. It is linearize, then transpose:
//!
//! ```text
//! y, residuals = f.fwd x
//! ct of x      = f.bwd residuals, ct of y
//! ```

use tapeloom_ir::prim::TransposeOf;
use tapeloom_ir::{Builder, Derived, Draft, FuncId, Key, Module, Problem};

/// A function's reverse derivative.
#[derive(Clone, Debug)]
pub struct VjpOf {
    /// `(x.., ct of the active outputs) -> (y.., ct of the inputs marked in nonzero)`
    pub function: FuncId,
    /// `x.. -> (y.., residuals..)`
    pub fwd: FuncId,
    /// `(residuals..; ct of the active outputs) -> ct of the inputs marked in nonzero`
    pub bwd: FuncId,
    /// Which outputs depend on the active inputs, and so have a cotangent to be given.
    pub active_out: Vec<bool>,
    /// Which inputs have a cotangent that is not zero.
    pub nonzero: Vec<bool>,
}

/// The reverse derivative of `f` with respect to the `active` parameters.
///
/// # Errors
/// A derivative that does not exist, with the user's line.
pub fn vjp(module: &mut Module, f: FuncId, active: &[bool]) -> Result<VjpOf, Problem> {
    let of = crate::linearize(module, f, active)?;
    let every = vec![true; module.function(of.lin).results.len()];
    let back = match active.contains(&true) {
        true => crate::transpose(module, of.lin, &every)?,
        // Nothing to pull back: no cotangents in, none out, as in the linear half.
        false => TransposeOf { function: of.lin, nonzero: Vec::new() },
    };

    let mut nonzero = vec![false; active.len()];
    let slots = active.iter().enumerate().filter(|(_, on)| **on).map(|(i, _)| i);
    for (slot, on) in slots.zip(&back.nonzero) {
        nonzero[slot] = *on;
    }
    let (fwd, bwd) = (of.fwd, back.function);
    let key = Key::masked("vjp", f, active);
    let function = match module.recall(&key) {
        Some(Derived { functions, .. }) => functions[0],
        None => {
            let function = compose(module, f, fwd, bwd, of.active_out.len())?;
            module.remember(key, Derived { functions: vec![function], mask: Vec::new() });
            function
        }
    };
    Ok(VjpOf { function, fwd, bwd, active_out: of.active_out, nonzero })
}

/// `(x, ct) -> let (y, residuals) = fwd x in (y, bwd residuals ct)`
fn compose(
    module: &mut Module,
    f: FuncId,
    fwd: FuncId,
    bwd: FuncId,
    outputs: usize,
) -> Result<FuncId, Problem> {
    let (forward, backward) = (module.get(fwd), module.get(bwd));
    let mut draft = Draft::new(format!("{}.vjp", module.get(f).name));
    let x: Vec<_> = forward.param_types().into_iter().map(|t| draft.param(t)).collect();
    let seeds = backward.linear_params.iter().map(|p| backward.types[*p].clone());
    let ct: Vec<_> = seeds.map(|t| draft.param(t)).collect();
    let b = Builder::new(module, &mut draft);
    let mut y = b.inline(fwd, &x);
    let residuals = y.split_off(outputs);
    y.extend(b.inline(bwd, &[residuals, ct].concat()));
    draft.finish(module, y)
}

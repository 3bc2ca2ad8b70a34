//! Golden derivatives of order 0 to 4 of scalar functions, computed by JAX.

use super::ops::unary;
use super::{Agreement, Outcome, Score, disagreement};
use serde_json::Value;
use tapeloom::prelude::*;

/// The number of orders of derivatives that the file lists for each function: 0 to 4.
const ORDERS: usize = 5;

/// Runs the scalar functions of a golden file, and compares their derivatives with the recorded ones.
///
/// # Errors
/// If the file is not of the form `{"fns": {name: {"x", "d"}}}`.
pub fn run_scalar(text: &str) -> Result<Score, Box<dyn std::error::Error>> {
    let file: Value = serde_json::from_str(text)?;
    let functions = file["fns"].as_object().ok_or("no `fns`")?;
    let mut score = Score::default();
    for (name, entry) in functions {
        let outcome = match function(name) {
            None => Outcome::Skipped,
            Some(f) => match orders(entry, f) {
                Ok(()) => Outcome::Passed,
                Err(why) => Outcome::Failed(why),
            },
        };
        score.add(name, outcome);
    }
    Ok(score)
}

/// Compares the derivatives of `f` of order 0 to 4 at every recorded point, by nested gradients, natively and by the
/// interpreter.
fn orders(entry: &Value, f: fn(Var) -> Var) -> Result<(), String> {
    let row = |v: &Value| -> Vec<f64> {
        let number = |x: &Value| x.as_f64().or(x.as_str().and_then(|s| s.parse().ok()));
        v.as_array().into_iter().flatten().filter_map(number).collect()
    };
    let x = Tensor::from(row(&entry["x"]));
    let all = move |x: Var| {
        let one = move |x: Var| -> [Var; ORDERS] {
            let (d0, d1, d2, d3) = (f, grad(f), grad(grad(f)), grad(grad(grad(f))));
            let d4 = grad(grad(grad(grad(f))));
            [d0(x), d1(x), d2(x), d3(x), d4(x)]
        };
        vmap(one)(x)
    };
    let results = [("native", jit(all).call(&x)), ("interpreter", jit(all).interpreted().call(&x))];
    for (engine, result) in results {
        let got: [Tensor; ORDERS] = result.map_err(|e| format!("({engine}) {e}"))?;
        for (order, got) in got.iter().enumerate() {
            // The file has an empty list for each order that JAX could not compute; these orders are skipped.
            let expected = Tensor::from(row(&entry["d"][order]));
            if expected.elements() == 0 {
                continue;
            }
            if let Some(why) = disagreement(got, &expected, Agreement::CloseWhereFinite) {
                return Err(format!("order {order} ({engine}) {why}"));
            }
        }
    }
    Ok(())
}

/// Returns the golden scalar function of this name, a unary operation or a formula, or `None` if the library does not
/// have it.
fn function(name: &str) -> Option<fn(Var) -> Var> {
    Some(match name {
        "log2" => Var::log2,
        "log10" => Var::log10,
        "sinc" => Var::sinc,
        "pow3" => |x| x.powi(3),
        "powm2" => |x| x.powi(-2),
        "pow_half" => |x| x.powf(2.5),
        "erfinv" => Var::erf_inv,
        "gammaln" => Var::lgamma,
        "polygamma1" => |x| x.polygamma(1),
        "entr" => Var::entr,
        "logit" => Var::logit,
        "gelu" => Var::gelu_tanh,
        "mish" => Var::mish,
        "log_sigmoid" => Var::log_sigmoid,
        "hypot1" => |x| x.hypot(1.0),
        "atan2_1" => |x| x.atan2(1.0),
        "logaddexp1" => |x| x.logaddexp(1.0),
        "selu" => Var::selu,
        "celu" => |x| x.celu(1.0),
        "gamma" => |x| x.lgamma().exp(),
        "betaln2" => |x| x.betaln(2.0),
        "xlogy2" => |x| x.full_like(2.0).xlogy(x),
        "xlog1py2" => |x| x.full_like(2.0).xlog1py(x),
        "squareplus" => |x| x.squareplus(4.0),
        "soft_sign" => |x| x / (1.0 + x.abs()),
        "ndtr" => Var::ndtr,
        "relu6" => Var::relu6,
        "hard_tanh" => Var::hard_tanh,
        "leaky_relu" => |x| x.leaky_relu(0.01),
        "betainc23" => |x| x.full_like(2.0).betainc(3.0, x),
        "boxcox" => |x| x.boxcox(0.5),
        "dawsn" => Var::dawsn,
        "erfcx" => Var::erfcx,
        "exp1" => Var::exp1,
        "expi" => Var::expi,
        "gammainc_x2" => |x| x.full_like(2.0).gammainc(x),
        "gammaincc_x2" => |x| x.full_like(2.0).gammaincc(x),
        "hyp1f1" => |x| x.full_like(1.0).hyp1f1(2.0, x),
        "i0" => Var::i0,
        "i0e" => Var::i0e,
        "i1" => Var::i1,
        "i1e" => Var::i1e,
        "kl_div2" => |x| x.kl_div(2.0),
        "rel_entr2" => |x| x.rel_entr(2.0),
        "spence" => Var::spence,
        "zeta3" => |x| x.full_like(3.0).zeta(x),
        _ => return unary(name),
    })
}

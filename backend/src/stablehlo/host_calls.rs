//! Writes host calls: calls of Rust functions that belong to the process that runs the text.
//!
//! Every host call is written as a call of the client's function `tapeloom.host`, with the number of the call in the
//! text:
//!
//! ```text
//! %4 = stablehlo.custom_call @tapeloom.host(%3, %1) {.., has_side_effect = true,
//!     backend_config = {call = 0 : i64, name = "tap"}, ..} : (tensor<i64>, tensor<f64>) -> (tensor<i64>)
//! ```
//!
//! The first operand and the first result are a *token*: each call takes the token that the previous call returned, so
//! calls happen in program order, one after the other. A loop that contains calls carries the token, branches return
//! it, and a function takes it as its last parameter and returns it as its last result. The first token is the last
//! parameter of `main`. Its value is the number by which the client identifies the execution; after a call that failed,
//! the number is negative.
//!
//! The token is a number and not a `!stablehlo.token`. XLA's executor for CPUs orders custom calls by the buffers that
//! they read and write, and a `!stablehlo.token` has a buffer of no bytes, which overlaps nothing.
//!
//! All calls have the attribute of side effects, even the pure calls that return results. Earlier passes have removed
//! the calls whose results are not needed. Without the attribute, XLA might also call a function in a loop without
//! iterations, and an error of the function would end the program.
//!
//! # On several devices
//!
//! The calls happen on the first device, which needs the whole operands: XLA gathers them there. It sends the results
//! to all devices by a sum in which the other devices take part with zeros. Floats are sent as integers with the same
//! bits, because in floats -0 + 0 is 0. Shardy ignores the device of a custom call unless the call has the name of a
//! callback of JAX, so the calls have such a name here.
//!
//! An error would end the first device alone, while other devices wait for it. So a call that fails returns zeros and a
//! negative token, calls after it do nothing, and loops whose trip count is known only at run time end if the token is
//! negative. After the execution, the client returns the error.

use super::codes::bitcast;
use super::functions::Program;
use super::sharding;
use super::types::{ClientFunction, HostFunction};
use super::writer::{Value, Writer};
use tapeloom_ir::{ArrayType, Dtype, FuncId, HostCall, Kind, Problem, Shape};

/// Returns the type of a token: a value that each call of a Rust function takes from the previous one.
pub(super) fn token() -> ArrayType {
    ArrayType::new(Dtype::I64, Shape::scalar())
}

impl Program<'_> {
    /// Returns whether a function takes and returns a token. If a program for several devices calls Rust functions, all
    /// of its functions do, so that their loops end after a call that failed.
    pub(super) fn takes_token(&self, f: FuncId) -> bool {
        let of = if self.options.shardings.is_some() { self.main } else { f };
        self.module.runs_outside(of)
    }

    /// Appends a call of a Rust function. Returns its results.
    pub(super) fn host_call(
        &mut self,
        w: &mut Writer,
        call: &HostCall,
        x: &[Value],
    ) -> Result<Vec<Value>, Problem> {
        let Some(before) = w.token.clone().filter(|_| self.options.host_calls) else {
            return Err(Problem::new(
                Kind::Target,
                format!("the Rust function `{}` cannot be called from StableHLO", call.host.name()),
                "run the program on this machine, or by a plugin of XLA for CPUs, or call the function between programs",
            ));
        };
        let operands = x.iter().map(|x| x.ty.clone()).collect();
        let function = HostFunction { call: call.clone(), operands, location: w.loc };
        let number = self.host_functions.len();
        self.host_functions.push(function);
        let divided = self.options.shardings.is_some();
        let declared = call.result_types();
        let sent = declared.iter().map(|ty| match ty.dtype {
            Dtype::F32 if divided => ArrayType::new(Dtype::U32, ty.shape.clone()),
            Dtype::F64 if divided => ArrayType::new(Dtype::U64, ty.shape.clone()),
            _ => ty.clone(),
        });
        let results: Vec<ArrayType> = std::iter::once(token()).chain(sent).collect();
        let place =
            if divided { sharding::on_first_device(results.len()) + ", " } else { String::new() };
        let attributes = format!(
            "has_side_effect = true, {place}backend_config = {{call = {number} : i64, name = \"{}\"}}, ",
            plain(call.host.name())
        );
        let operands: Vec<Value> = std::iter::once(before).chain(x.iter().cloned()).collect();
        let function = match divided {
            true => ClientFunction::HostOfSeveralDevices,
            false => ClientFunction::Host,
        };
        let mut y = w.custom_call(function, &operands, &attributes, results);
        let received = y.split_off(1);
        w.token = y.pop();
        let receive = |(y, ty): (Value, ArrayType)| {
            let y = if divided { sharding::replicated(w, &y) } else { y };
            if y.ty == ty { y } else { bitcast(w, &y, ty.dtype) }
        };
        Ok(received.into_iter().zip(declared).map(receive).collect())
    }

    /// For several devices, appends a condition that is `goes_on`, but false after a call of a Rust function that
    /// failed (the token is then negative). For one device, returns `goes_on`.
    pub(super) fn unless_failed(&self, w: &mut Writer, token: &Value, goes_on: Value) -> Value {
        if self.options.shardings.is_none() {
            return goes_on;
        }
        let zero = w.index(0);
        let succeeded = w.compare("GE", token, &zero);
        w.same("stablehlo.and", &[&goes_on, &succeeded])
    }

    /// Returns an error if the program is for several devices and the condition of a loop calls a Rust function: a
    /// condition returns no token, so the loop would not see that the call failed.
    pub(super) fn check_condition(&self, condition: FuncId) -> Result<(), Problem> {
        if self.options.shardings.is_none() || !self.module.runs_outside(condition) {
            return Ok(());
        }
        Err(Problem::new(
            Kind::Target,
            "the condition of this loop calls a Rust function, which is not possible in a program \
             for several devices",
            "call the function in the body of the loop, and carry its result",
        ))
    }
}

/// Returns a name with the characters replaced that end or escape a string in the text.
fn plain(name: &str) -> String {
    let plain = |c: char| (c.is_ascii_graphic() || c == ' ') && !matches!(c, '"' | '\\');
    name.chars().map(|c| if plain(c) { c } else { '_' }).collect()
}

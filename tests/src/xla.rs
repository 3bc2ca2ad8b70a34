//! Programs on a plugin of XLA, to compare with the interpreter.
//!
//! The environment variable `TAPELOOM_PJRT_PLUGIN` names the plugin. Tests without a plugin are skipped, and say so.

use crate::Elements;
use std::panic::Location;
use tapeloom::xla::{Client, ClientOptions, PLUGIN_VARIABLE, Plugin};
use tapeloom_ir::{Dtype, Tensor};

/// Returns a client with one device; `None` without a plugin, which is printed.
///
/// # Panics
/// If the plugin that is named cannot be loaded.
#[track_caller]
#[allow(clippy::panic, reason = "it is an assertion")]
pub fn client_or_skip() -> Option<Client> {
    if std::env::var_os(PLUGIN_VARIABLE).is_none_or(|path| path.is_empty()) {
        println!("skipped, because {PLUGIN_VARIABLE} is not set: {}", Location::caller());
        return None;
    }
    match Plugin::found().and_then(|plugin| Client::new(&plugin, &ClientOptions::new())) {
        Ok(client) => Some(client),
        Err(error) => panic!("{error}"),
    }
}

/// Returns whether an element is a subnormal float. XLA takes these for zero on CPUs.
pub fn has_subnormals(x: &Tensor) -> bool {
    let least = match x.dtype() {
        Dtype::F32 => f64::from(f32::MIN_POSITIVE),
        Dtype::F64 => f64::MIN_POSITIVE,
        Dtype::Bool | Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 => return false,
    };
    (0..x.elements()).map(|i| x.at(i).to_f64().abs()).any(|x| x > 0.0 && x < least)
}

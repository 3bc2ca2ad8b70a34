//! Tests of the client. Tests with a plugin run if `TAPELOOM_PJRT_PLUGIN` is set, and print that they are skipped if it is not.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod custom_calls;
mod donation;
mod one_device;
mod plugins;
mod several_devices;
mod support;
mod wrong_arguments;

//! The examples run, and their assertions hold.
#![allow(clippy::unwrap_used, reason = "tests")]

/// Defines a test for each example that terminates and writes no file.
macro_rules! examples {
    ($($name:ident = $file:literal;)*) => {$(
        #[path = $file]
        mod $name;

        #[test]
        fn $name() {
            $name::main().unwrap();
        }
    )*};
}
#[cfg(feature = "linalg")]
pub(crate) use examples;

examples! {
    black_scholes = "../../examples/black_scholes.rs";
    cnn = "../../examples/cnn.rs";
    double_pendulum = "../../examples/double_pendulum.rs";
    image_filter = "../../examples/image_filter.rs";
    mlp = "../../examples/mlp.rs";
    neural_ode = "../../examples/neural_ode.rs";
    orbit = "../../examples/orbit.rs";
    springs = "../../examples/springs.rs";
    transformer = "../../examples/transformer.rs";
}

//! Nine kernels whose gradients need many residuals: physics, fits, a network, a tensor product, a path through a
//! grid.
//!
//! They measure the residuals that a compiler of derivatives saves. Each kernel has two forms. The *textbook* form
//! computes the function that the name says, written with arrays. The *mutated* form is written with loops over
//! numbers and [`Ref`]s, like the C program of the study it comes from (Hakimi and Shriraman, "TapeFlow: Streaming
//! Gradient Tapes in Automatic Differentiation", CGO 2024). The study changed the mathematics (products in place of
//! sums, no square roots, wrong strides) so that the reverse pass needs every factor; these changes are reproduced.
//!
//! Each kernel also has a gradient by hand in plain Rust, with the smallest tape that avoids most recomputation, to
//! compare numbers, bytes and time.
//!
//! ```
//! use tapeloom_tests::suite::{Form, KERNELS};
//! let kernel = KERNELS.iter().find(|k| k.name == "logsum" && k.form == Form::Mutated).unwrap();
//! let inputs = (kernel.inputs)(kernel.sizes.test);
//! let by_hand = (kernel.by_hand)(kernel.sizes.test, &inputs);
//! assert!(by_hand.gradients[0][1..].iter().all(|slope| (slope - 1.0).abs() < 1e-12));
//! ```

mod gravity;
mod kept;
mod lenet;
mod logsum;
mod mass_spring;
mod matdescent;
mod mttkrp;
mod nn;
mod pathfinder;
mod somier;

pub use kept::Kept;

use std::fmt;
use tapeloom::prelude::*;

/// The nine kernels, each in two forms: first as the TapeFlow study changed it (mutated), then as textbooks define it.
pub const KERNELS: &[Kernel] = &[
    gravity::TRIANGULAR,
    gravity::BODIES,
    nn::LOOPS,
    nn::ARRAYS,
    logsum::PRODUCT,
    logsum::SUM,
    matdescent::PRODUCT,
    matdescent::SUM,
    mttkrp::LOOPS,
    mttkrp::ARRAYS,
    somier::FORCES,
    somier::STEPS,
    lenet::PRODUCTS,
    lenet::NETWORK,
    pathfinder::PRODUCTS,
    pathfinder::SUMS,
    mass_spring::STEP,
    mass_spring::WALK,
];

/// Other variants of the kernels of the TapeFlow study: those that the study's tables measure, and gravity over all
/// pairs.
pub const READINGS: &[Kernel] =
    &[gravity::SQUARE, gravity::MEASURED, nn::MEASURED, somier::MEASURED];

/// A kernel: a function of arrays, some of which are differentiated variables and some constant data.
pub struct Kernel {
    /// The name of the kernel.
    pub name: &'static str,
    /// The variant of the function: as in the TapeFlow study's program, as in textbooks, or as in the study's tables.
    pub form: Form,
    /// The extents at which the kernel is run; the kernel's module explains them.
    pub sizes: Sizes,
    /// Returns the inputs for given extents.
    pub inputs: fn(&[usize]) -> Inputs,
    /// The kernel as a function of extents, variables and data, written with the public API.
    pub program: fn(&[usize], &[Var], &[Var]) -> Var,
    /// The gradient by hand, in plain Rust.
    pub by_hand: fn(&[usize], &Inputs) -> ByHand,
}

/// The variant of the function that a kernel computes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Form {
    /// The function of the TapeFlow study's C program, in which products replace sums, for example.
    Mutated,
    /// The function that textbooks define under the kernel's name.
    Textbook,
    /// The function of the TapeFlow study's program, with the memory accesses and dependence chains that the study's
    /// tables count. It exists for kernels of which the tables count more than the program has.
    Measured,
}

/// The extents at which a kernel is run.
pub struct Sizes {
    /// Extents for tests, which run fast.
    pub test: &'static [usize],
    /// Extents at which the TapeFlow study ran the kernel.
    pub study: &'static [usize],
    /// Extents at which a tape with an array for every value that the reverse pass reads would be eight times as large
    /// as a cache of 32 MB.
    pub large: &'static [usize],
}

/// The inputs of a kernel, and the cotangent of its result.
pub struct Inputs {
    /// The differentiated inputs.
    pub variables: Vec<Array>,
    /// The inputs that are not differentiated.
    pub data: Vec<Array>,
    /// The cotangent of the result.
    pub seed: Array,
}

/// An input array: its shape and its elements.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    /// The extents of the array's axes.
    pub shape: Vec<usize>,
    /// The elements in row-major order.
    pub numbers: Vec<f64>,
}

/// The results of a gradient that is written by hand.
pub struct ByHand {
    /// The value of the kernel.
    pub value: Vec<f64>,
    /// The cotangents of the variables.
    pub gradients: Vec<Vec<f64>>,
    /// The bytes saved between the forward and the reverse pass.
    pub tape: usize,
}

impl Array {
    /// Returns an array whose elements `number` returns for their row-major positions.
    pub fn of(shape: &[usize], number: impl Fn(usize) -> f64) -> Array {
        let n = shape.iter().product();
        Array { shape: shape.to_vec(), numbers: (0..n).map(number).collect() }
    }

    /// Returns an array of this shape with all elements equal to `x`.
    pub fn full(shape: &[usize], x: f64) -> Array {
        Array::of(shape, |_| x)
    }

    /// Converts the array to a tensor.
    ///
    /// # Errors
    /// If the number of elements does not fit the shape.
    pub fn tensor(&self) -> Result<Tensor, tapeloom::Error> {
        Ok(Tensor::new(&self.shape, self.numbers.clone())?)
    }
}

/// The arguments of a kernel: variables, data, and the cotangent of the result.
pub type Given<T> = (Vec<T>, Vec<T>, T);

/// A function that returns a kernel's result and the cotangents of its variables.
pub type Gradient = Box<dyn Fn(Given<Var>) -> (Var, Vec<Var>)>;

/// A way to choose the residuals of a kernel's gradient: a checkpoint policy, or the default.
pub struct Way {
    /// The name of the way in benchmark rows.
    pub name: &'static str,
    /// Returns the gradient of a kernel with residuals chosen in this way.
    pub gradient: fn(&Kernel, &'static [usize]) -> Gradient,
}

/// The choices of residuals that are measured; the default is first.
pub const WAYS: &[Way] = &[
    Way { name: "default", gradient: Kernel::gradient },
    Way { name: "everything", gradient: |kernel, size| kernel.under(size, Policy::Everything) },
    Way { name: "checkpoint", gradient: |kernel, size| kernel.under(size, Policy::Nothing) },
    Way { name: "aliased", gradient: |kernel, size| kernel.under(size, Policy::Aliased) },
    Way { name: "disjoint", gradient: |kernel, size| kernel.under(size, Policy::Disjoint) },
];

impl Kernel {
    /// Returns a function that computes the kernel's result and the cotangents of its variables.
    pub fn gradient(&self, size: &'static [usize]) -> Gradient {
        let program = self.program;
        Box::new(move |(variables, data, seed)| {
            let (value, pull) = vjp(|x: Vec<Var>| program(size, &x, &data))(variables);
            (value, pull(seed))
        })
    }

    /// Returns a function that computes the kernel's result and the cotangents of its variables, with residuals chosen
    /// by a checkpoint policy.
    pub fn under(&self, size: &'static [usize], policy: Policy) -> Gradient {
        let program = self.program;
        Box::new(move |(variables, data, seed)| {
            let f = checkpoint(|x: Vec<Var>| program(size, &x, &data), policy.clone());
            let (value, pull) = vjp(f)(variables);
            (value, pull(seed))
        })
    }

    /// Returns a function that computes the kernel's result.
    pub fn value(&self, size: &'static [usize]) -> impl Fn(Given<Var>) -> Var {
        let program = self.program;
        move |(variables, data, _)| program(size, &variables, &data)
    }

    /// Returns the arguments of the kernel and of its gradients.
    ///
    /// # Errors
    /// If an input's number of elements does not fit its shape.
    pub fn arguments(&self, inputs: &Inputs) -> Result<Given<Tensor>, tapeloom::Error> {
        let tensors = |arrays: &[Array]| arrays.iter().map(Array::tensor).collect::<Result<_, _>>();
        Ok((tensors(&inputs.variables)?, tensors(&inputs.data)?, inputs.seed.tensor()?))
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match self.form {
            Form::Mutated => "mutated",
            Form::Textbook => "textbook",
            Form::Measured => "measured",
        };
        write!(f, "{} ({form})", self.name)
    }
}

/// Returns pseudorandom number `i`, in 0..1.
fn unit(i: usize) -> f64 {
    let x = (12.9898 * (i as f64 + 1.0)).sin() * 43758.5453;
    x - x.floor()
}

/// Returns pseudorandom number `i`, in -0.5..0.5.
fn noise(i: usize) -> f64 {
    unit(i) - 0.5
}

/// Runs `body` for each of `n` iteration numbers, in a loop without carries; the body writes to `Ref`s.
fn iterations(n: impl tapeloom::Count, body: impl Fn(Var)) {
    fori_loop(n, |(i, ()): (Var, ())| body(i), ());
}

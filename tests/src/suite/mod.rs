//! Nine kernels whose gradients keep much of the forward pass: physics, fits, a network, a tensor product, a
//! path through a grid.
//!
//! They measure what a compiler of derivatives keeps. Each is there in two forms. The *honest* one computes
//! what its name says, as one writes it with arrays. The *mutated* one is written with loops over numbers
//! and [`Ref`]s, as the C program of the study from which it comes (Hakimi and Shriraman,
//! "TapeFlow: Streaming Gradient Tapes in Automatic Differentiation", CGO 2024), whose changes to the
//! mathematics (products in place of sums, no roots, wrong strides) make every factor necessary in the
//! backward pass; they are kept as they are.
//!
//! Beside each stands its gradient by hand, in plain Rust, with the smallest tape that does without
//! computing much twice, to be compared with in numbers, bytes and time.
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

/// The nine, the mutated form of each before the honest one.
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

/// Other readings of the study.
pub const READINGS: &[Kernel] =
    &[gravity::SQUARE, gravity::MEASURED, nn::MEASURED, somier::MEASURED];

/// A kernel: a function of arrays, of which some are variables and some are data.
pub struct Kernel {
    /// Its name.
    pub name: &'static str,
    /// Which of its forms.
    pub form: Form,
    /// Its extents, whose meaning its module tells.
    pub sizes: Sizes,
    /// What it is computed of.
    pub inputs: fn(&[usize]) -> Inputs,
    /// The kernel: extents, variables, data.
    pub program: fn(&[usize], &[Var], &[Var]) -> Var,
    /// The same by hand.
    pub by_hand: fn(&[usize], &Inputs) -> ByHand,
}

/// What a kernel computes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Form {
    /// What the study's program computes.
    Mutated,
    /// What the name says.
    Honest,
    /// The mutated form with the accesses and the chains that the study's tables count, where they say more than its
    /// program.
    Measured,
}

/// Extents at which a kernel is run.
pub struct Sizes {
    /// In tests.
    pub test: &'static [usize],
    /// In the study.
    pub study: &'static [usize],
    /// Where an array for every value that the backward pass reads of the forward pass would have eight
    /// times the bytes of a cache of 32 MB.
    pub large: &'static [usize],
}

/// What a kernel is computed of, and the cotangent of what it gives.
pub struct Inputs {
    /// What is differentiated.
    pub variables: Vec<Array>,
    /// What is not.
    pub data: Vec<Array>,
    /// The cotangent of the result.
    pub seed: Array,
}

/// Extents and numbers.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    /// Its extents.
    pub shape: Vec<usize>,
    /// Its elements, row by row.
    pub numbers: Vec<f64>,
}

/// What a kernel gives when it is written by hand.
pub struct ByHand {
    /// The result.
    pub value: Vec<f64>,
    /// The cotangents of the variables.
    pub gradients: Vec<Vec<f64>>,
    /// Bytes that were kept between forward and backward.
    pub tape: usize,
}

impl Array {
    /// Of a function of the position.
    pub fn of(shape: &[usize], number: impl Fn(usize) -> f64) -> Array {
        let n = shape.iter().product();
        Array { shape: shape.to_vec(), numbers: (0..n).map(number).collect() }
    }

    /// The same everywhere.
    pub fn full(shape: &[usize], x: f64) -> Array {
        Array::of(shape, |_| x)
    }

    /// As programs take it.
    ///
    /// # Errors
    /// When it has other than as many elements as it says.
    pub fn tensor(&self) -> Result<Tensor, tapeloom::Error> {
        Ok(Tensor::new(&self.shape, self.numbers.clone())?)
    }
}

/// Variables, data and the cotangent of the result.
pub type Given<T> = (Vec<T>, Vec<T>, T);

/// A result and the cotangents of the variables.
pub type Gradient = Box<dyn Fn(Given<Var>) -> (Var, Vec<Var>)>;

/// How much of the forward pass a gradient keeps.
pub struct Way {
    /// Its name.
    pub name: &'static str,
    /// The gradient of a kernel.
    pub gradient: fn(&Kernel, &'static [usize]) -> Gradient,
}

/// The ways that are measured, first the one that nobody asks for.
pub const WAYS: &[Way] = &[
    Way { name: "default", gradient: Kernel::gradient },
    Way { name: "everything", gradient: |kernel, size| kernel.under(size, Policy::Everything) },
    Way { name: "checkpoint", gradient: |kernel, size| kernel.under(size, Policy::Nothing) },
    Way { name: "aliased", gradient: |kernel, size| kernel.under(size, Policy::Aliased) },
    Way { name: "disjoint", gradient: |kernel, size| kernel.under(size, Policy::Disjoint) },
];

impl Kernel {
    /// Its result and the cotangents of its variables.
    pub fn gradient(&self, size: &'static [usize]) -> Gradient {
        let program = self.program;
        Box::new(move |(variables, data, seed)| {
            let (value, pull) = vjp(|x: Vec<Var>| program(size, &x, &data))(variables);
            (value, pull(seed))
        })
    }

    /// The same, of which reverse mode keeps what a policy says.
    pub fn under(&self, size: &'static [usize], policy: Policy) -> Gradient {
        let program = self.program;
        Box::new(move |(variables, data, seed)| {
            let f = checkpoint(|x: Vec<Var>| program(size, &x, &data), policy.clone());
            let (value, pull) = vjp(f)(variables);
            (value, pull(seed))
        })
    }

    /// Its result.
    pub fn value(&self, size: &'static [usize]) -> impl Fn(Given<Var>) -> Var {
        let program = self.program;
        move |(variables, data, _)| program(size, &variables, &data)
    }

    /// What all of these take.
    ///
    /// # Errors
    /// When inputs have other than as many elements as they say.
    pub fn arguments(&self, inputs: &Inputs) -> Result<Given<Tensor>, tapeloom::Error> {
        let tensors = |arrays: &[Array]| arrays.iter().map(Array::tensor).collect::<Result<_, _>>();
        Ok((tensors(&inputs.variables)?, tensors(&inputs.data)?, inputs.seed.tensor()?))
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match self.form {
            Form::Mutated => "mutated",
            Form::Honest => "honest",
            Form::Measured => "measured",
        };
        write!(f, "{} ({form})", self.name)
    }
}

/// Numbers from 0 to 1 that look random.
fn unit(i: usize) -> f64 {
    let x = (12.9898 * (i as f64 + 1.0)).sin() * 43758.5453;
    x - x.floor()
}

/// Numbers around 0 that look random.
fn noise(i: usize) -> f64 {
    unit(i) - 0.5
}

/// A loop that carries nothing but what it writes.
fn iterations(n: impl tapeloom::Count, body: impl Fn(Var)) {
    fori_loop(n, |(i, ()): (Var, ())| body(i), ());
}

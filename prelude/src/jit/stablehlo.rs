//! Programs as StableHLO text.

use super::core::{Closure, Core, types};
use super::{CallArgs, Jit, TypedArgs, at_args};
use crate::staging::array;
use crate::tree::{Args, Form, TensorRefs, Tree};
use crate::{Error, Var};
use tapeloom_backend::stablehlo;
#[cfg(feature = "xla")]
use tapeloom_backend::xla::{self, Client};
use tapeloom_ir::trace::Traced;
use tapeloom_ir::{ArrayType, Kind, Problem};
use tapeloom_transforms::BEFORE_STABLEHLO;

impl<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B> Jit<A, B, F> {
    /// Returns the program for these arguments as StableHLO text, which XLA and other engines compile. The function
    /// `@main` takes the leaves of the arguments in order, then the tensors that the closure captured, and returns the
    /// leaves of the results. Nothing is compiled or computed.
    ///
    /// Integers, bools, random bits and moved elements have the bits of every other engine; floats are equal to rounding.
    /// [`crate::stablehlo`] says how the text is made, and what it cannot express. If [`Jit::max_steps`] is set, a loop
    /// that saves residuals in an unknown number of iterations has room for those of as many iterations. The number of
    /// iterations of other loops is not limited, because StableHLO has no errors.
    ///
    /// # Errors
    /// All mistakes made while the closure was traced; [`Kind::Target`](tapeloom_ir::Kind) with the line of an operation
    /// that StableHLO does not have: a call of a Rust function, a decomposition other than Cholesky's, some special
    /// functions, and the reverse pass of a loop whose trip count is unknown and unlimited.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(grad(|x: Var| x.sin().sum()));
    /// let text = f.stablehlo([1.0, 2.0, 3.0])?;
    /// assert!(text.contains("func.func public @main(%0: tensor<3xf64>) -> (tensor<3xf64>)"));
    /// assert!(text.contains("%1 = stablehlo.cosine %0 : tensor<3xf64>"));
    ///
    /// let printed = |x: Var| {
    ///     debug_print("x", x);
    ///     x + 1.0
    /// };
    /// let error = jit(printed).stablehlo(1.0).unwrap_err();
    /// assert_eq!(error.kind(), tapeloom::Kind::Target);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Source: the [StableHLO specification](https://openxla.org/stablehlo/spec); `lower(..).as_text()` in JAX.
    #[doc(alias = "lower")]
    #[doc(alias = "as_text")]
    #[doc(alias = "mlir")]
    #[doc(alias = "xla")]
    pub fn stablehlo(&self, args: impl Args<A>) -> Result<String, Error> {
        self.stablehlo_with(args, &stablehlo::Options::default())
    }

    /// Returns the program for these arguments as StableHLO text, as [`Jit::stablehlo`], with options: the lines of the
    /// source as locations, calls of functions that the client provides, room for residuals.
    ///
    /// # Errors
    /// As [`Jit::stablehlo`].
    ///
    /// ```
    /// use tapeloom::{prelude::*, stablehlo};
    /// let options = stablehlo::Options { locations: true, ..stablehlo::Options::default() };
    /// let text = jit(|x: Var| x.exp()).stablehlo_with(0.0, &options)?;
    /// assert!(text.contains("stablehlo.exponential %0 : tensor<f64> loc("));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn stablehlo_with(
        &self,
        args: impl Args<A>,
        options: &stablehlo::Options,
    ) -> Result<String, Error> {
        let closure = at_args(&self.f, &args, self.core.at);
        let given = TypedArgs(&args);
        self.core.stablehlo(&given.form(), &given.leaves(), &closure, options)
    }
}

impl Core {
    /// Returns the options for the text of a program: the limit from `max_steps`, and the division of arrays.
    fn text_options(
        &self,
        options: &stablehlo::Options,
        arguments: (&Form, &[ArrayType]),
        traced: &Traced<Form>,
    ) -> Result<stablehlo::Options, Problem> {
        let limits = self.limits.as_ref();
        if limits.is_some_and(|limits| limits.cancel.is_some()) {
            return Err(Problem::new(
                Kind::Target,
                "a program in StableHLO cannot be cancelled",
                "write the text of a `jit` without `cancelled_by`",
            ));
        }
        let limit = limits.and_then(|limits| limits.max_steps);
        let limit = limit.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let f = traced.module.function(traced.function);
        let results: Vec<ArrayType> = f.result_types().iter().map(array).collect();
        let shardings = self.division.of_program(arguments, (&traced.output, &results))?;
        let shardings = shardings.or(options.shardings.clone());
        Ok(stablehlo::Options { max_steps: options.max_steps.or(limit), shardings, ..*options })
    }

    /// Returns the options for the text of a program that a client of XLA runs.
    #[cfg(feature = "xla")]
    pub(super) fn client_options(
        &self,
        client: &Client,
        arguments: (&Form, &[ArrayType]),
        traced: &Traced<Form>,
    ) -> Result<stablehlo::Options, Problem> {
        self.text_options(&xla::text_options(client), arguments, traced)
    }

    /// Returns the program for these arguments as StableHLO text.
    fn stablehlo(
        &self,
        form: &Form,
        leaves: &TensorRefs<'_>,
        closure: &Closure<'_>,
        options: &stablehlo::Options,
    ) -> Result<String, Error> {
        let types = types(leaves);
        let traced = self.traced_in_chunks(&types, closure, 0)?;
        let options = self.text_options(options, (form, &types), &traced);
        let options = options.map_err(|p| Error::at(p, self.at))?;
        let Traced { mut module, function, .. } = traced;
        let text = BEFORE_STABLEHLO
            .observed(&mut module, function, &mut |_| ())
            .and_then(|function| stablehlo::text(&module, function, &options));
        text.map_err(|p| Error::at(p, self.at))
    }
}

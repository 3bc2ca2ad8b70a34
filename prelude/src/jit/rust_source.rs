//! Programs as Rust source.

use super::core::{Closure, Core, types};
use super::program::Engine;
use super::{CallArgs, Jit, TypedArgs, at_args};
use crate::tree::{Args, Form, TensorRefs, Tree};
use crate::{Error, Var};
use tapeloom_backend::{Options, Target, rust_source};
use tapeloom_ir::trace::Traced;
use tapeloom_ir::{Kind, Problem};
use tapeloom_transforms::{BEFORE_CODE, BEFORE_RELAXED_CODE};

impl<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B> Jit<A, B, F> {
    /// Returns the program for these arguments as Rust source: a public function `name` with the private functions and
    /// constants that it needs, of the standard library alone. It can be read and audited, and copied into a module of a crate
    /// that does not depend on this library. The values of `args` are not used; nothing is compiled or computed.
    ///
    /// The function takes the leaves of the arguments and of the results in order: numbers, and references to arrays of fixed
    /// length in rows. Comments say from which lines of the closure a loop comes. Results agree with those of [`Jit::call`] to
    /// rounding; integers, bools and random bits are equal. [`crate::rust_source`] says how the text is made.
    ///
    /// # Errors
    /// All mistakes made while the closure was traced; [`Kind::Target`](tapeloom_ir::Kind) with the line of a call of a Rust
    /// function, of a library routine, or of a function that the standard library lacks and whose own source branches, such as
    /// `lgamma`; for a `jit` with [`Jit::max_steps`], [`Jit::cancelled_by`] or [`Jit::nan_check`]; and if `name` is no
    /// identifier of Rust.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(grad(|x: Var| x.sin().sum()));
    /// let text = f.rust([1.0, 2.0, 3.0], "slope")?;
    /// assert!(text.contains("pub fn slope(x: &[f64; 3], y: &mut [f64; 3]) {"));
    /// assert!(text.contains("y[i] = x[i].cos();"));
    ///
    /// let printed = |x: Var| {
    ///     debug_print("x", x);
    ///     x + 1.0
    /// };
    /// let error = jit(printed).rust(1.0, "f").unwrap_err();
    /// assert_eq!(error.kind(), tapeloom::Kind::Target);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Source: Hascoët and Pascual, *The Tapenade automatic differentiation tool* (2013), whose derivatives are source, too.
    #[doc(alias = "source")]
    #[doc(alias = "codegen")]
    pub fn rust(&self, args: impl Args<A>, name: &str) -> Result<String, Error> {
        let (given, closure) = (TypedArgs(&args), at_args(&self.f, &args, self.core.at));
        self.core.rust(&given.form(), &given.leaves(), &closure, name)
    }
}

impl Core {
    /// Returns the program for these arguments as Rust source, with a public function that is called `name`.
    fn rust(
        &self,
        form: &Form,
        leaves: &TensorRefs<'_>,
        closure: &Closure<'_>,
        name: &str,
    ) -> Result<String, Error> {
        let at = |p: Problem| Error::at(p, self.at);
        let refused = |message, help| Err(at(Problem::new(Kind::Target, message, help)));
        if self.limits.is_some() {
            return refused(
                "Rust source has no limit on the iterations of its loops, and cannot be cancelled",
                "print the source of a `jit` without `max_steps` and `cancelled_by`",
            );
        }
        let passes = match self.engine {
            Engine::Native | Engine::Interpreter => &BEFORE_CODE,
            Engine::Relaxed => &BEFORE_RELAXED_CODE,
            Engine::Finite => {
                return refused(
                    "Rust source does not look for values that stop being finite",
                    "print the source of a `jit` without `nan_check`",
                );
            }
        };
        let Traced { mut module, function, tensors, output } =
            self.traced_in_chunks(&types(leaves), closure, 0)?;
        let interface = rust_source::Interface {
            arguments: form.paths("argument"),
            results: output.paths("result"),
            captured: &tensors,
            line: self.at,
        };
        // The source does not depend on the target, so use the interpreter, which every build has.
        let options = Options { target: Target::Interpreter, ..self.options(false) };
        let text = passes
            .observed(&mut module, function, &mut |_| ())
            .and_then(|function| rust_source::text(&module, function, &options, &interface, name));
        text.map_err(at)
    }
}

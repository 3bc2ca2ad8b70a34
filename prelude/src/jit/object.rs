//! Objects: compiled closures for programs in other languages, for fixed shapes or for any number of rows.

use super::core::{Closure, Core, types};
use super::program::Engine;
use super::rows::{RowResults, Summed};
use super::{CallArgs, Jit, TypedArgs, at_args};
use crate::ops::emit;
use crate::staging::rebuild;
use crate::transform::{value_and_grad_at, vectorize};
use crate::tree::{Args, Form, TensorRefs, Tree, flatten, leaf_paths};
use crate::{Error, Var};
use std::num::NonZeroUsize;
use tapeloom_backend::Target;
use tapeloom_backend::object::{self, Object, RowField};
use tapeloom_ir::prim::{Reduce, Reducer};
use tapeloom_ir::trace::{self, Traced};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem};
use tapeloom_transforms::{BEFORE_CODE, BEFORE_RELAXED_CODE, List as PassList};

impl<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B> Jit<A, B, F> {
    /// Compiles the closure for these arguments to an object: a file that programs in C, and in languages that call C, link
    /// without this library. The values of `args` are not used. `options` is the name of the entry, or
    /// [`object::Options`] with a triple and instructions as well.
    ///
    /// The entry takes pointers to the leaves of the arguments and results in order, a workspace, and memory for tapes of
    /// unknown length; [`Object::header`] declares it. Captured tensors are data of the object. Results have the bits of
    /// [`Jit::call`], except those of products for which that calls the matrix library, which are equal to rounding.
    /// The contents of objects are described in [`crate::object`], and the chapter *Shipping a gradient* of the book uses one.
    /// If the number of rows of arrays should be an argument of the entry, see [`Jit::object_rows`].
    ///
    /// # Errors
    /// All mistakes made while the closure was traced; [`Kind::Target`](tapeloom_ir::Kind) with the line of a call of a Rust
    /// function, for a `jit` with [`Jit::max_steps`] or [`Jit::cancelled_by`], and if `options` names
    /// a machine without objects.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(value_and_grad(|x: Var| (x.exp() * 2.0).sum()));
    /// let object = f.object([0.0, 0.0], "loss")?;
    /// assert!(object.header().contains("int loss(const double *TAPELOOM_RESTRICT argument, "));
    /// object.save(std::env::temp_dir())?; // loss.o and loss.h
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Source: `jax.export` and the ahead-of-time compilation of XLA, whose objects take a context of the runtime.
    #[doc(alias = "aot")]
    #[doc(alias = "export")]
    #[doc(alias = "header")]
    pub fn object(
        &self,
        args: impl Args<A>,
        options: impl Into<object::Options>,
    ) -> Result<Object, Error> {
        let (given, closure) = (TypedArgs(&args), at_args(&self.f, &args, self.core.at));
        self.core.object(&given.form(), &given.leaves(), &closure, &options.into())
    }
}

impl<R: Tree<Var>, S: Tree<Var>, B: Tree<Var>, F: Fn((R, S)) -> B> Jit<(R, S), B, F> {
    /// Compiles the closure, a function of one row and of arguments that all rows share, to an object whose number of rows is
    /// an argument. `args` are as for [`Jit::call`], and so are for one row: `(row, shared)`. Their values are not used; `()`
    /// stands for no shared arguments. `options` is the name of the entry, or [`object::Options`], or
    /// [`object::RowOptions`] with the number of rows of a block as well.
    ///
    /// The entry takes the number of rows `n`, then arrays in the order of the leaves:
    ///
    /// | | for one row | of the entry |
    /// |---|---|---|
    /// | row | `[..]` | `[n, ..]` |
    /// | shared | `[..]` | `[..]` |
    /// | [`Stacked`](crate::Stacked) results | `[..]` | `[n, ..]` |
    /// | [`Summed`] results | `[..]` | `[..]` |
    ///
    /// The object has a program for a block of B rows, which is [`vmap`](crate::vmap) of the closure with sums over axis 0, and
    /// a program for one row, which computes the `n % B` rows behind the last whole block. A sum is 0, plus the sum of each
    /// block in order, plus the value of each row behind them in order; so it has the same bits on all machines. If there are
    /// no rows, sums are 0. The bytes of the workspace do not depend on `n`. Rows cannot be mixed, since the closure has one.
    ///
    /// Everything else is as for [`Jit::object`].
    ///
    /// # Errors
    /// Those of [`Jit::object`]; `dtype` if a bool is summed, with the line that made it; `arguments` if the row has no arrays.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// // The loss of a linear regression at one point; its sum and the sum's gradient for any number of points.
    /// let loss = |x: Var, y: Var, w: Var| (x.dot(w) - y).square();
    /// let f = jit(move |((x, y), w): ((Var, Var), Var)| Summed(value_and_grad(|w| loss(x, y, w))(w)));
    /// let object = f.object_rows((([0.0; 3], 0.0), [0.0; 3]), "regression")?;
    /// assert!(object.header().contains("int regression(size_t n, const double *TAPELOOM_RESTRICT rows_0, "));
    /// assert!(object.header().contains(" * rows_0: argument `rows.0`, f64[n,3], n * 3 elements in rows"));
    /// assert_eq!(object.block_rows().map(|rows| rows.get()), Some(64));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// If results are a loss and its gradient with respect to all shared arguments,
    /// [`object_rows_value_and_grad`](Jit::object_rows_value_and_grad) of the loss is faster.
    ///
    /// Source: `jax.lax.map` with `batch_size`, which stacks results only and has a static number of rows.
    #[doc(alias = "aot")]
    #[doc(alias = "export")]
    pub fn object_rows(
        &self,
        args: impl Args<(R, S)>,
        options: impl Into<object::RowOptions>,
    ) -> Result<Object, Error>
    where
        B: RowResults,
    {
        let (f, at) = (&self.f, self.core.at);
        let row = |x| {
            let results = f(x);
            refuse_bools(&results);
            results
        };
        let block = |x| sums(vectorize(f, &(0i32, None::<i32>), &0i32, at, x), at);
        object_of_rows(&self.core, &args, [&row, &block], &options.into())
    }
}

impl<R: Tree<Var>, S: Tree<Var>, F: Fn((R, S)) -> Summed<Var>> Jit<(R, S), Summed<Var>, F> {
    /// Compiles the closure, a loss of one row, to an object that computes the sum of losses over any number of rows, and the
    /// gradient of this sum with respect to the shared arguments. Its interface is that of [`Jit::object_rows`] for a function
    /// that returns `Summed(value_and_grad(loss)(shared))`.
    ///
    /// The program of a block is the derivative of the block's sum, not the sum of derivatives. Values that depend on shared
    /// arguments alone are computed once for a block, and no gradient of a single row is held, so it is faster and needs less
    /// memory.
    ///
    /// # Errors
    /// Those of [`Jit::object_rows`] and [`value_and_grad`](crate::value_and_grad).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let loss = jit(|((x, y), w): ((Var, Var), Var)| Summed((x.dot(w) - y).square()));
    /// let object = loss.object_rows_value_and_grad((([0.0; 3], 0.0), [0.0; 3]), "regression")?;
    /// let paths: Vec<&str> = object.results().iter().map(|field| field.path.as_str()).collect();
    /// assert_eq!(paths, ["result.0", "result.1"]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn object_rows_value_and_grad(
        &self,
        args: impl Args<(R, S)>,
        options: impl Into<object::RowOptions>,
    ) -> Result<Object, Error> {
        let (f, at) = (&self.f, self.core.at);
        let of_block = |x| sums(vectorize(f, &(0i32, None::<i32>), &0i32, at, x), at);
        let row = |x| gradient(f, x, at);
        let block = |x| gradient(&of_block, x, at);
        object_of_rows(&self.core, &args, [&row, &block], &options.into())
    }
}

impl Core {
    /// Returns the program for these arguments as an object.
    fn object(
        &self,
        form: &Form,
        leaves: &TensorRefs<'_>,
        closure: &Closure<'_>,
        options: &object::Options,
    ) -> Result<Object, Error> {
        let at = |p: Problem| Error::at(p, self.at);
        let passes = self.passes_of_objects().map_err(at)?;
        let Traced { mut module, function, tensors, output } =
            self.traced(&types(leaves), closure)?;
        let interface = object::Interface {
            arguments: form.paths("argument"),
            results: output.paths("result"),
            captured: &tensors,
        };
        let made = passes.observed(&mut module, function, &mut |_| ()).and_then(|function| {
            object::compile(&module, function, &self.options(false), &interface, options)
        });
        made.map_err(at)
    }

    /// Returns an object whose number of rows is an argument. `leaves` are arguments of one row.
    fn object_rows(
        &self,
        leaves: &TensorRefs<'_>,
        function: RowFunction<'_>,
        options: &object::RowOptions,
    ) -> Result<Object, Error> {
        let at = |p: Problem| Error::at(p, self.at);
        let RowFunction { arguments, per_row, row, block } = function;
        if !arguments.iter().any(|argument| argument.per_row) {
            return Err(at(Problem::new(
                Kind::Arguments,
                "an object with rows of a function whose row has no arrays",
                "pass arguments `(row, shared)` with an array in the row, or use `object`",
            )));
        }
        let passes = self.passes_of_objects().map_err(at)?;
        let lowered = |types: &[ArrayType], closure: &Closure<'_>| -> Result<_, Error> {
            let Traced { mut module, function, tensors, output } = self.traced(types, closure)?;
            let lowered = passes
                .observed(&mut module, function, &mut |_| ())
                .and_then(|f| object::Lowered::of(&module, f, &self.options(false), &tensors));
            Ok((lowered.map_err(at)?, output))
        };
        let types = types(leaves);
        let (row, output) = lowered(&types, row)?;
        let of_rows = |rows: NonZeroUsize| -> Result<_, Error> {
            let leading =
                types.iter().zip(&arguments).map(|(ty, argument)| match argument.per_row {
                    true => ArrayType::new(ty.dtype, ty.shape.with_leading(rows.get())),
                    false => ty.clone(),
                });
            Ok((lowered(&leading.collect::<Vec<_>>(), block)?.0, rows))
        };
        let (block, rows) = match options.block_rows {
            Some(rows) => of_rows(rows)?,
            None => {
                let (block, most) = of_rows(object::BLOCK_ROWS)?;
                let rows = object::block_rows(&row, &block);
                if rows == most { (block, most) } else { of_rows(rows)? }
            }
        };
        let results = output.paths("result").into_iter().zip(per_row(&output));
        let results = results.map(|(path, per_row)| RowField { path, per_row }).collect();
        let interface = object::RowInterface { arguments, results };
        object::compile_rows(&row, (&block, rows), &interface, &options.object).map_err(at)
    }

    /// Returns the passes that run before the code of objects is generated, or an error if this function cannot become
    /// an object.
    fn passes_of_objects(&self) -> Result<&'static PassList, Problem> {
        let refused = |message, help| Err(Problem::new(Kind::Target, message, help));
        if self.limits.is_some() {
            return refused(
                "an object has no limit on the iterations of its loops, and cannot be cancelled",
                "make the object of a `jit` without `max_steps` and `cancelled_by`",
            );
        }
        let native = matches!(self.target, Target::Native(_));
        match self.engine {
            Engine::Native if native => Ok(&BEFORE_CODE),
            Engine::Relaxed if native => Ok(&BEFORE_RELAXED_CODE),
            Engine::Native | Engine::Relaxed | Engine::Interpreter | Engine::Finite => refused(
                "an object is machine code, and this function runs on another engine",
                "make the object of a `jit` without `on`, `interpreted` and `nan_check`",
            ),
        }
    }
}

/// A function of one row, from which an object with an argument for the number of rows is made.
struct RowFunction<'a> {
    /// The arguments: those of the row, and those that all rows share.
    arguments: Vec<RowField>,
    /// Returns, for each leaf of the results, whether it is stacked over rows (otherwise summed).
    per_row: &'a dyn Fn(&Form) -> Vec<bool>,
    row: &'a Closure<'a>,
    /// The closure that computes a block of rows.
    block: &'a Closure<'a>,
}

/// Makes an object from the functions of a row and of a block. In the function of a block, the arrays of the tree of
/// rows and the stacked results have a leading axis of rows, and the summed results are sums over that axis.
fn object_of_rows<R: Tree<Var>, S: Tree<Var>, B: RowResults>(
    core: &Core,
    args: &dyn Args<(R, S)>,
    [row, block]: [&dyn Fn((R, S)) -> B; 2],
    options: &object::RowOptions,
) -> Result<Object, Error> {
    let (of_row, of_shared) = args.structure();
    let fields =
        |paths: Vec<String>, per_row| paths.into_iter().map(move |path| RowField { path, per_row });
    let arguments = fields(leaf_paths::<Var, R>(&of_row, "rows"), true)
        .chain(fields(leaf_paths::<Var, S>(&of_shared, "shared"), false))
        .collect();
    let per_row = |output: &Form| output.structure::<B>().map_or_else(Vec::new, stacked::<B>);
    let function = RowFunction {
        arguments,
        per_row: &per_row,
        row: &at_args(row, args, core.at),
        block: &at_args(block, args, core.at),
    };
    core.object_rows(&TypedArgs(args).leaves(), function, options)
}

/// Records an error for each bool among the summed results.
fn refuse_bools<B: RowResults>(results: &B) {
    let (structure, leaves) = flatten(results);
    let all = leaves.iter().zip(leaf_paths::<Var, B>(&structure, "result"));
    for ((x, path), stacked) in all.zip(stacked::<B>(&structure)) {
        let at = x.handle.born();
        let ty = x.ty(at);
        if !stacked && ty.dtype == Dtype::Bool && !trace::is_poison(x.handle, at) {
            trace::record(object::bool_sum(&path, &ty), &[x.handle], at);
        }
    }
}

/// Returns, for each leaf of the results, whether it is stacked (otherwise summed).
fn stacked<B: RowResults>(structure: &B::Structure) -> Vec<bool> {
    let mut stacked = Vec::new();
    B::stacked(structure, &mut stacked);
    stacked
}

/// Sums the results of a block that are not stacked over axis 0, the rows of the block.
fn sums<B: RowResults>(results: B, at: Loc) -> B {
    let (structure, leaves) = flatten(&results);
    let leaves =
        leaves.into_iter().zip(stacked::<B>(&structure)).map(|(x, stacked)| match stacked {
            true => x,
            false => emit(Reduce { reducer: Reducer::Sum, axes: vec![0] }, &[x], at),
        });
    rebuild(&structure, leaves.collect(), at)
}

/// Returns the value of a sum and its gradient with respect to the shared arguments.
fn gradient<R: Tree<Var>, S: Tree<Var>>(
    sum: &dyn Fn((R, S)) -> Summed<Var>,
    (rows, shared): (R, S),
    at: Loc,
) -> Summed<(Var, S)> {
    let (structure, rows) = flatten(&rows);
    let of_shared = |shared| sum((rebuild(&structure, rows.clone(), at), shared)).0;
    Summed(value_and_grad_at("value_and_grad", &of_shared, at, shared))
}

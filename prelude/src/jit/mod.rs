//! The boundary between closures and data: [`jit`] and [`run`].
//!
//! A [`Jit`] holds a closure and the programs compiled from it, one per structure of the arguments (static fields
//! included) and types of their leaves. If a call has arguments of a known kind, it runs a compiled program; otherwise
//! it traces and compiles the closure first. `Jit` is `Send + Sync`, so it can be a `static` or be shared by threads:
//!
//! ```
//! use tapeloom::prelude::*;
//! let f = jit(|x: Var| (x * x).sum());
//! std::thread::scope(|s| {
//!     for n in 1..4 {
//!         let f = &f;
//!         s.spawn(move || assert_eq!(f.call(vec![1.0; n]).unwrap().item::<f64>().unwrap(), n as f64));
//!     }
//! });
//! assert_eq!(f.programs(), 3);
//! ```

mod core;
mod explain;
#[cfg(not(all(feature = "object", feature = "rust", feature = "stablehlo")))]
mod missing_features;
#[cfg(feature = "object")]
mod object;
mod program;
mod report;
mod rows;
#[cfg(feature = "rust")]
mod rust_source;
mod sharding;
#[cfg(feature = "stablehlo")]
mod stablehlo;

pub use explain::{Explanation, SimplifyReport, Stage};
pub use report::CallReport;
pub use rows::{RowResults, Stacked, Summed};

use self::core::{CallArgs, Core, Entry};
use crate::function::Function;
use crate::staging::apply;
use crate::transform::call_once_traced;
use crate::tree::{Args, Form, Leaf, TensorRefs, Tree, flatten, leaf_paths};
use crate::var::caller;
use crate::{Error, Var};
use program::Engine;
use sharding::{ARGUMENT, RESULT};
use smallvec::SmallVec;
use std::any::Any;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;
use tapeloom_backend::accelerator::{RunConfig, Statistics};
#[cfg(feature = "xla")]
use tapeloom_backend::xla::DeviceArray;
use tapeloom_backend::{MachineModel, Profile, Results, Target};
use tapeloom_ir::trace::{Handle, Traced};
use tapeloom_ir::{ArrayType, Cancel, Loc, Mesh, PartitionSpec, Problem, Tensor};

/// A closure with the programs compiled from it, as returned by [`jit`].
pub struct Jit<A: Tree<Var>, B: Tree<Var>, F> {
    f: F,
    core: Core,
    /// A `Jit` stores no values of `A` and `B`. The type is that of a function, so that a `Jit` can be `Send` although
    /// trees of `Var` are not.
    signature: PhantomData<fn(A) -> B>,
}

/// The arguments of a call, as data for a closure whose argument is a tree of type `A`.
struct TypedArgs<'a, A>(&'a dyn Args<A>);

impl<A: Tree<Var>> TypedArgs<'_, A> {
    /// Returns the leaves. Calls append them to a list of their own instead, because a list that is returned is moved,
    /// which takes a tenth of the time of a small call.
    fn leaves(&self) -> TensorRefs<'_> {
        let mut leaves = TensorRefs::new();
        self.0.tensors(&mut leaves);
        leaves
    }

    /// Returns for each leaf whether the arguments own it.
    fn owned(&self) -> SmallVec<[bool; 8]> {
        let mut owned = SmallVec::new();
        self.0.owned(&mut |is| owned.push(is));
        owned
    }
}

impl<A: Tree<Var>> CallArgs for TypedArgs<'_, A> {
    fn form(&self) -> Form {
        Form::of::<A>(&self.0.structure())
    }

    fn matches(&self, form: &Form) -> bool {
        form.structure::<A>().is_some_and(|structure| self.0.matches(structure))
    }
}

/// Wraps a closure, for arguments of the structure of `args`, as a function of handles.
fn at_args<A: Tree<Var>, B: Tree<Var>>(
    f: &dyn Fn(A) -> B,
    args: &dyn Args<A>,
    at: Loc,
) -> impl Fn(&[Handle]) -> (Vec<Handle>, Form) {
    move |handles| {
        let (results, output) = apply(f, &args.structure(), handles, at);
        (results, Form::of::<B>(&output))
    }
}

fn call<A: Tree<Var>, B: Tree<Var>>(
    core: &Core,
    f: &dyn Fn(A) -> B,
    args: &dyn Args<A>,
) -> Result<B::With<Tensor>, Error> {
    let mut leaves = TensorRefs::new();
    args.tensors(&mut leaves);
    let mut results = Results::new();
    let closure = at_args(f, args, core.at);
    let form = core.call(&TypedArgs(args), &leaves, &closure, &mut results)?;
    tree_of::<B>(form, results.drain(..))
}

/// Runs a program, and writes its results to the tree `results`. If this tree has another structure than the results, it
/// is replaced.
fn run_into<B: Tree<Var>>(
    entry: &Entry,
    leaves: &TensorRefs<'_>,
    at: Loc,
    results: &mut B::With<Tensor>,
) -> Result<(), Error> {
    // The structure of a tree has the same type for all types of leaves. The trait cannot state this, so downcast.
    let structure = entry.output().structure::<B>().map(|s| s as &dyn Any);
    let same = structure.and_then(|s| s.downcast_ref()).is_some_and(|s| results.has_structure(s));
    if !same {
        let mut leaves_of_results = Results::new();
        entry.run(leaves, at, &mut leaves_of_results)?;
        *results = tree_of::<B>(entry.output(), leaves_of_results)?;
        return Ok(());
    }
    let mut tensors: SmallVec<[&mut Tensor; 8]> = SmallVec::new();
    results.leaves_mut(&mut |tensor| tensors.push(tensor));
    entry.run_into(leaves, at, &mut tensors)
}

/// Returns the structure of a tree with leaves of type `L` as that of the same tree with leaves of type [`Var`]. Both are
/// the same type, which the trait cannot state, so this function downcasts.
#[cfg(feature = "xla")]
fn structure_of<A: Tree<Var>, L: Leaf>(
    structure: &<A::With<L> as Tree<L>>::Structure,
) -> Result<&A::Structure, Problem> {
    let same = (structure as &dyn Any).downcast_ref();
    same.ok_or_else(|| Problem::internal("arguments with a structure of another type"))
}

/// Builds the tree of results from their form and leaves. Returns an error if the form is not that of a tree of type
/// `B`.
fn tree_of<B: Tree<Var>>(
    form: &Form,
    results: impl IntoIterator<Item = Tensor>,
) -> Result<B::With<Tensor>, Error> {
    match form.structure::<B>() {
        Some(structure) => tree::<B>(structure, results),
        None => Err(Problem::internal("results of another type").into()),
    }
}

/// Builds the tree of results from their structure and leaves.
pub(crate) fn tree<B: Tree<Var>>(
    structure: &B::Structure,
    results: impl IntoIterator<Item = Tensor>,
) -> Result<B::With<Tensor>, Error> {
    let mut results = results.into_iter();
    let mut complete = true;
    let tree = B::with_leaves(structure, &mut || {
        results.next().unwrap_or_else(|| {
            complete = false;
            Tensor::from(false)
        })
    });
    if complete { Ok(tree) } else { Err(Problem::internal("too few results").into()) }
}

/// A closure compiled for one kind of arguments, as returned by [`Jit::compile`].
pub struct Compiled<A: Tree<Var>, B: Tree<Var>> {
    entry: Arc<Entry>,
    at: Loc,
    signature: PhantomData<fn(A) -> B>,
}

impl<A: Tree<Var>, B: Tree<Var>> Compiled<A, B> {
    /// Compiles a traced program. `form` and `types` are the form of the arguments and the types of their leaves.
    pub(crate) fn of(
        (form, types): (Form, Vec<ArrayType>),
        traced: Traced<Form>,
        at: Loc,
    ) -> Result<Compiled<A, B>, Error> {
        let entry = Entry::of(form, types, traced).map_err(|p| Error::at(p, at))?;
        Ok(Compiled { entry: Arc::new(entry), at, signature: PhantomData })
    }

    /// Runs the compiled program on arguments.
    ///
    /// # Errors
    /// `arguments` if the structure, shapes or dtypes are not those for which the program was compiled.
    pub fn call(&self, args: impl Args<A>) -> Result<B::With<Tensor>, Error> {
        let given = TypedArgs(&args);
        let mut leaves = TensorRefs::new();
        args.tensors(&mut leaves);
        let mut results = Results::new();
        let form = self.entry.call(&given, &leaves, self.at, &mut results)?;
        tree_of::<B>(form, results.drain(..))
    }

    /// Runs the compiled program on arguments and writes its results to `results`, as [`Jit::call_into`] does.
    ///
    /// # Errors
    /// As [`Compiled::call`].
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|x: Var| (2.0 * x, x.sum())).compile([0.0; 3])?;
    /// let mut results = f.call([1.0, 2.0, 3.0])?;
    /// f.call_into([4.0, 5.0, 6.0], &mut results)?;
    /// assert_eq!(results, (Tensor::from([8.0, 10.0, 12.0]), Tensor::from(15.0)));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn call_into(
        &self,
        args: impl Args<A>,
        results: &mut B::With<Tensor>,
    ) -> Result<(), Error> {
        let given = TypedArgs(&args);
        let mut leaves = TensorRefs::new();
        args.tensors(&mut leaves);
        self.entry.check(&given, &leaves, self.at)?;
        run_into::<B>(&self.entry, &leaves, self.at, results)
    }
}

/// Wraps `f` so that each call runs compiled code. Compilation happens at the first call, and again for arguments of
/// another structure, shape or dtype.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(x, y): (Var, Var)| x * y + 1.0);
/// assert_eq!(f.call((2.0, 3.0))?.item::<f64>()?, 7.0);
/// let x = Tensor::from([1.0, 2.0]);
/// assert_eq!(f.call((&x, 3.0))?.to_vec::<f64>()?, [4.0, 7.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn jit<A: Tree<Var>, B: Tree<Var>, F: Function<A, B, M>, M>(f: F) -> Jit<A, B, F> {
    boundary("jit", f, caller())
}

/// Returns a `Jit`. `name` and `at` are the name and the line of the user's call, for messages.
pub(crate) fn boundary<A: Tree<Var>, B: Tree<Var>, F>(
    name: &'static str,
    f: F,
    at: Loc,
) -> Jit<A, B, F> {
    Jit { f, core: Core::new(name, at), signature: PhantomData }
}

/// Returns the partition specs in a tree, each with its path.
fn specs_of<S: Tree<PartitionSpec>>(specs: &S, root: &str) -> Vec<(String, PartitionSpec)> {
    let (structure, specs) = flatten(specs);
    leaf_paths::<PartitionSpec, S>(&structure, root).into_iter().zip(specs).collect()
}

/// Compiles `f` and runs it once.
///
/// # Errors
/// As [`Jit::call`].
///
/// ```
/// use tapeloom::prelude::*;
/// assert_eq!(run(|x: Var| x.exp(), 0.0)?.item::<f64>()?, 1.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn run<A: Tree<Var>, B: Tree<Var>, M>(
    f: impl Function<A, B, M>,
    args: impl Args<A>,
) -> Result<B::With<Tensor>, Error> {
    call(&Core::new("run", caller()), &|x| f.apply(x), &args)
}

/// Returns the shapes and dtypes of the results of `f` for arguments of these shapes and dtypes, as a tree of
/// [`ArrayType`]s. The closure is traced; nothing is compiled or computed.
///
/// # Errors
/// All mistakes made while the closure was traced.
///
/// ```
/// use tapeloom::prelude::*;
/// let (y, n) = eval_shape(|x: Var| (x.dot(x.t()), x.count_nonzero()), [[1.0, 2.0, 3.0]; 2])?;
/// assert_eq!((y.to_string(), n.to_string()), ("f64[2,2]".into(), "i64[]".into()));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn eval_shape<A: Tree<Var>, B: Tree<Var>, M>(
    f: impl Function<A, B, M>,
    args: impl Args<A>,
) -> Result<B::With<ArrayType>, Error> {
    let core = Core::new("eval_shape", caller());
    let mut leaves = TensorRefs::new();
    args.tensors(&mut leaves);
    let (types, form) = core.results(&leaves, &at_args(&|x| f.apply(x), &args, core.at))?;
    let Some(structure) = form.structure::<B>() else {
        return Err(Problem::internal("results of another type").into());
    };
    let mut types = types.into_iter();
    Ok(B::with_leaves(structure, &mut || types.next().unwrap_or_else(ArrayType::stand_in)))
}

impl<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B> Jit<A, B, F> {
    /// Runs the program on data. For arguments of a new structure, shape or dtype, the program is compiled first.
    ///
    /// # Errors
    /// All mistakes made while the closure was traced; operations that the target does not support.
    pub fn call(&self, args: impl Args<A>) -> Result<B::With<Tensor>, Error> {
        call(&self.core, &self.f, &args)
    }

    /// Runs the program on data, like [`Jit::call`], and writes its results to `results`, a tree of the results of an
    /// earlier call. A tensor of `results` keeps its memory if it has the shape and dtype of the new result, and no clone
    /// of it is alive; otherwise it is replaced by a new tensor. If all of them keep their memory, the call allocates
    /// nothing for results. Results have the same bits as those of [`Jit::call`].
    ///
    /// So a training step with two sets of parameters, one of which is read while the other is written, allocates no
    /// arrays:
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let loss = |(w, x): (Var, Var)| (x * w - 1.0).square().mean();
    /// let step = jit(move |(w, x): (Var, Var)| w - 0.1 * grad(|w| loss((w, x)))(w));
    /// let x = Tensor::full(&[1000], 2.0)?;
    /// let mut w = Tensor::zeros(&[1000], Dtype::F64)?;
    /// let mut next = w.zeros_like();
    /// for _ in 0..10 {
    ///     step.call_into((&w, &x), &mut next)?;
    ///     std::mem::swap(&mut w, &mut next);
    /// }
    /// # assert!(w.to_vec::<f64>()?[0] > 0.0);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// `results` may be any tree of the results' type, also one of another structure or with tensors of other types.
    /// Machine code writes its results into the memory that is kept; other engines copy them there.
    ///
    /// # Errors
    /// As [`Jit::call`]. If the call fails, each tensor of `results` still has its shape and dtype, but its elements may
    /// be old ones, new ones, or zeros.
    ///
    /// Source: the argument `out` of functions in NumPy and PyTorch, for all results of a program.
    /// [`Jit::call_donating`] needs no second set of parameters.
    #[doc(alias = "out")]
    pub fn call_into(
        &self,
        args: impl Args<A>,
        results: &mut B::With<Tensor>,
    ) -> Result<(), Error> {
        let (given, at) = (TypedArgs(&args), self.core.at);
        let mut leaves = TensorRefs::new();
        args.tensors(&mut leaves);
        let entry = self.core.program(&given, &leaves, &[], &at_args(&self.f, &args, at))?;
        run_into::<B>(entry, &leaves, at, results)
    }

    /// Runs the program on arguments that it takes over, and updates them in place. Tensors are donated if they are passed
    /// by value, and kept if they are passed by reference. The n-th result of a shape and dtype may be written to the memory
    /// of the n-th donated argument of this shape and dtype. If another handle of a donated tensor is alive, such as a
    /// clone, a reshaped tensor, or one that the closure captured, the tensor is copied first and keeps its elements.
    /// Results have the same bits as those of [`Jit::call`].
    ///
    /// So a training step needs memory for one set of parameters:
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let loss = |(w, x): (Var, Var)| (x * w - 1.0).square().mean();
    /// let step = jit(move |(w, x): (Var, Var)| w - 0.1 * grad(|w| loss((w, x)))(w));
    /// let x = Tensor::full(&[1000], 2.0)?;
    /// let mut w = Tensor::zeros(&[1000], Dtype::F64)?;
    /// # let memory = w.address();
    /// for _ in 0..10 {
    ///     w = step.call_donating((w, &x))?;
    /// }
    /// # assert!(w.to_vec::<f64>()?[0] > 0.0);
    /// # if cfg!(feature = "native") {
    /// #     assert_eq!(w.address(), memory);
    /// # }
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// A result takes over the memory of an argument if the program does not read the argument's elements later than it
    /// writes those of the result: in elementwise updates, in loops whose carry begins with the argument, and in updates
    /// of a part of the argument, such as [`at`](Var::at). The results of elementwise updates of a few elements are new
    /// tensors. [`Jit::explain_donating`] lists the arguments whose memory is taken over. Only machine code takes over
    /// memory; other engines drop donated arguments after the call.
    ///
    /// The program for donated arguments is another one than that of [`Jit::call`], and is compiled at the first call.
    ///
    /// # Errors
    /// As [`Jit::call`]. Donated arguments are lost if the call fails, also if it fails before it runs, as with a wrong
    /// shape; clones and arguments passed by reference are unchanged. Pass a clone if a failed call is to be repeated.
    ///
    /// A donated argument cannot be used after the call:
    ///
    /// ```compile_fail,E0382
    /// # use tapeloom::prelude::*;
    /// # fn step(x: Tensor) -> Result<(), tapeloom::Error> {
    /// let f = jit(|x: Var| 2.0 * x);
    /// let y = f.call_donating(x)?;
    /// println!("{x:?}"); // borrow of moved value: `x`
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Source: donated arguments in JAX, which are named by their numbers, and are no longer valid after the call.
    #[doc(alias = "donate")]
    #[doc(alias = "donate_argnums")]
    pub fn call_donating(&self, args: impl Args<A>) -> Result<B::With<Tensor>, Error> {
        let (given, at) = (TypedArgs(&args), self.core.at);
        let mut leaves = TensorRefs::new();
        args.tensors(&mut leaves);
        let donated = self.core.donated(given.owned());
        let entry = self.core.program(&given, &leaves, &donated, &at_args(&self.f, &args, at))?;
        let operands = leaves.into_iter().map(Cow::into_owned).collect();
        // From here on, `operands` has the only handles of the arguments, unless the caller has others.
        drop(args);
        tree_of::<B>(entry.output(), entry.run_donating(operands, at)?)
    }

    /// Copies arguments to the devices of XLA on which the program runs, as arguments of [`Jit::call_on_device`]. Each device
    /// gets the part that the partition specs of the arguments give it.
    ///
    /// # Errors
    /// [`Kind::Target`](tapeloom_ir::Kind) if the program is for another engine, if the client has fewer devices than the
    /// mesh, and for errors of the plugin; those of the partition specs ([`Jit::argument_shardings`]).
    #[cfg(feature = "xla")]
    #[doc(alias = "device_put")]
    pub fn upload(&self, args: impl Args<A>) -> Result<A::With<DeviceArray>, Error> {
        let given = TypedArgs(&args);
        let mut arrays = self.core.upload(&given.form(), &given.leaves())?.into_iter();
        let next = &mut || arrays.next().unwrap_or_else(DeviceArray::missing);
        Ok(A::with_leaves(&args.structure(), next))
    }

    /// Runs the program with arrays on devices of XLA, and returns its results, which stay there. The program is one for
    /// [`Target::Xla`]; nothing is copied between host and device, except for tensors that the closure captured, once. The
    /// call may return before the results are computed; a program that calls Rust functions ([`crate::host_calls`]) has ended
    /// when it returns, and one number is copied to each device.
    ///
    /// The program takes over the memory of the arguments of which no other handle is alive, for its results. To keep an
    /// argument, pass a clone of its handle. The program is compiled for each set of arguments that are taken over.
    ///
    /// [`crate::xla`] has an example.
    ///
    /// # Errors
    /// As [`Jit::call`]; [`Kind::Target`](tapeloom_ir::Kind) if the program is for another engine, and for errors of the
    /// plugin.
    ///
    /// An argument cannot be used after it was given to a call:
    ///
    /// ```compile_fail,E0382
    /// # use tapeloom::{prelude::*, xla::DeviceArray};
    /// # fn step(x: DeviceArray) -> Result<(), tapeloom::Error> {
    /// let f = jit(|x: Var| 2.0 * x);
    /// let y = f.call_on_device(x)?;
    /// println!("{x:?}"); // borrow of moved value: `x`
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "xla")]
    #[doc(alias = "donate")]
    #[doc(alias = "donate_argnums")]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "the program takes over the arguments' memory"
    )]
    pub fn call_on_device(
        &self,
        args: A::With<DeviceArray>,
    ) -> Result<B::With<DeviceArray>, Error> {
        let structure = args.structure();
        let structure = structure_of::<A, DeviceArray>(&structure)?;
        let (mut leaves, mut donated) = (Vec::new(), Vec::new());
        args.leaves(&mut |x: &DeviceArray| {
            leaves.push(x);
            donated.push(x.is_unique());
        });
        let closure = |handles: &[Handle]| {
            let (results, output) = apply(&|x| (self.f)(x), structure, handles, self.core.at);
            (results, Form::of::<B>(&output))
        };
        let form = Form::of::<A>(structure);
        let (results, output) = self.core.on_device(form, &leaves, donated, &closure)?;
        let Some(structure) = output.structure::<B>() else {
            return Err(Problem::internal("results of another type").into());
        };
        let mut results = results.into_iter();
        Ok(B::with_leaves(structure, &mut || results.next().unwrap_or_else(DeviceArray::missing)))
    }

    /// Compiles the program now, for arguments of the structure, shapes and dtypes of `args`. Calls of the returned
    /// program never compile.
    ///
    /// # Errors
    /// As [`Jit::call`].
    ///
    /// ```
    /// use tapeloom::{prelude::*, Kind};
    /// let f = jit(|(x, y): (Var, Var)| x * y).compile(([1.0, 2.0], 3.0))?;
    /// assert_eq!(f.call(([4.0, 5.0], 2.0))?.to_vec::<f64>()?, [8.0, 10.0]);
    /// let error = f.call(([4.0], 2.0)).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Arguments);
    /// assert!(error.to_string().contains("`argument.0` was f64[2] and is f64[1]"));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "lower")]
    pub fn compile(&self, args: impl Args<A>) -> Result<Compiled<A, B>, Error> {
        let (given, at) = (TypedArgs(&args), self.core.at);
        let closure = at_args(&self.f, &args, at);
        let entry = self.core.program(&given, &given.leaves(), &[], &closure)?.clone();
        Ok(Compiled { entry, at, signature: PhantomData })
    }

    /// Returns the same closure, run by the reference interpreter, which defines the meaning of every program. The
    /// interpreter is slow and meant for tests of compiled code.
    pub fn interpreted(mut self) -> Jit<A, B, F> {
        self.core.set_engine(Engine::Interpreter);
        self
    }

    /// Returns the same closure with a check for values that are not finite, in forward and reverse pass. At the first
    /// such value, a call ends with an error that has the operation and your line. The check runs in the reference
    /// interpreter, which is slow, so use it to find mistakes.
    ///
    /// ```
    /// use tapeloom::{prelude::*, Kind};
    /// let f = jit(grad(|x: Var| (x * x).sum().sqrt())).nan_check();
    /// assert_eq!(f.call([0.0, 4.0])?.to_vec::<f64>()?, [0.0, 1.0]);
    /// let error = f.call([0.0, 0.0]).unwrap_err();
    /// assert_eq!(error.kind(), Kind::NotFinite);
    /// assert!(error.to_string().contains("`div` gave inf, from 0.5 and 0.0"));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// The check reports a value that makes a result not finite, or from which a finite value is computed. It
    /// ignores constants, unused values, values that only decide something (in a comparison, an order, an index, a
    /// conversion to integers), the branch of a `cond` that does not run, the side of a `select` that is not
    /// chosen, and iterations beyond the trip count of a batch member.
    #[doc(alias = "debug_nans")]
    pub fn nan_check(mut self) -> Jit<A, B, F> {
        self.core.set_engine(Engine::Finite);
        self
    }

    /// Returns the same closure with a check that no [random](crate::random) key is used twice. If a key is used
    /// twice, compilation fails; the error has the lines of both draws. A key from outside a loop that is used in
    /// every iteration counts as used twice; a key that is used once in each branch of a [`cond`](crate::cond) does
    /// not. The closure is traced once more at compilation; calls take the same time as before.
    ///
    /// ```
    /// use tapeloom::{prelude::*, Kind};
    /// let noise = |key: Var| random::normal(key, [3], Dtype::F64);
    /// let twice = |seed: Var| noise(random::key(seed)) * noise(random::key(seed));
    /// let error = jit(twice).key_check().call(1i64).unwrap_err();
    /// assert_eq!(error.kind(), Kind::KeyReuse);
    ///
    /// let once = |seed: Var| {
    ///     let [a, b] = random::split(random::key(seed));
    ///     noise(a) * noise(b)
    /// };
    /// jit(once).key_check().call(1i64)?;
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn key_check(mut self) -> Jit<A, B, F> {
        self.core.set_key_check();
        self
    }

    /// Returns the same closure for another target than this machine's instructions: a [simulated
    /// accelerator](crate::accelerator), or the interpreter of kernels, which checks every memory access. Results
    /// of elementwise operations are equal bit by bit. Results of a contraction that the matrix library sums in
    /// another order are equal up to rounding.
    ///
    /// ```
    /// use tapeloom::{accelerator::Machine, prelude::*, Target};
    /// let f = |x: Var| (x * x).sin();
    /// let x = Tensor::from([1.0, 2.0, 3.0]);
    /// let simulated = jit(f).on(Target::Accelerator(Machine::cal()));
    /// assert_eq!(simulated.call(&x)?, jit(f).call(&x)?);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn on(mut self, target: Target) -> Jit<A, B, F> {
        self.core.set_target(target);
        self
    }

    /// Returns the same closure, divided among the devices of a mesh. [`Target::Xla`] runs it on as many devices of its
    /// client; the text of [`Jit::stablehlo`] is for as many. Other targets have one device, for which this is no change.
    ///
    /// The program has the meaning of the closure: it computes with whole arrays, and the compiler divides its work by the
    /// partition specs of arguments ([`Jit::argument_shardings`]), results ([`Jit::result_shardings`]) and values
    /// ([`Var::sharded`]), and inserts the communication. Sums are added in another order than on one device.
    ///
    /// ```
    /// use tapeloom::{Mesh, PartitionSpec, prelude::*};
    /// let spec = PartitionSpec::new;
    /// let loss = |w: Var, x: Var| (x.dot(w) - 1.0).square().mean();
    /// let g = jit(move |(w, x): (Var, Var)| grad(|w| loss(w, x))(w))
    ///     .mesh(Mesh::new([("data", 4)])?)
    ///     .argument_shardings((PartitionSpec::replicated(), spec(["data", "_"])));
    /// # #[cfg(feature = "stablehlo")] {
    /// let text = g.stablehlo((Tensor::zeros(&[3], Dtype::F64)?, Tensor::zeros(&[8, 3], Dtype::F64)?))?;
    /// assert!(text.contains("sdy.mesh @mesh = <[\"data\"=4]>"));
    /// assert!(text.contains("%1: tensor<8x3xf64> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, {}]>}"));
    /// # }
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Source: `jax.jit` with a mesh and shardings in JAX; the dialect `sdy` of Shardy.
    ///
    /// [`Target::Xla`]: crate::xla
    pub fn mesh(mut self, mesh: Mesh) -> Jit<A, B, F> {
        self.core.division().mesh = Some(mesh);
        self
    }

    /// Sets the partition specs of the arguments: a tree like that of the arguments, in which one spec may stand in place of
    /// a part of the tree, for all of its arrays. Without specs, every device has a copy of each argument.
    ///
    /// Calls report an error if the tree does not fit the arguments, or if a spec names a mesh axis that does not exist,
    /// or one whose size does not divide the axis of the array.
    ///
    /// ```
    /// use tapeloom::{Mesh, PartitionSpec, prelude::*};
    /// let f = jit(|(w, x): (Vec<Var>, Var)| x.dot(w[0]).dot(w[1]))
    ///     .mesh("data=4, model=2".parse()?)
    ///     .argument_shardings((PartitionSpec::replicated(), PartitionSpec::new(["data", "_"])));
    /// let w = vec![Tensor::zeros(&[3, 5], Dtype::F64)?, Tensor::zeros(&[5, 2], Dtype::F64)?];
    /// let error = f.stablehlo((&w, Tensor::zeros(&[6, 3], Dtype::F64)?)).unwrap_err();
    /// let expected = "`argument.1`, f64[6,3]: axis 0 of the array has 6 elements and cannot be divided into 4 equal parts";
    /// assert!(error.to_string().contains(expected), "{error}");
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "in_shardings")]
    pub fn argument_shardings(mut self, specs: impl Tree<PartitionSpec>) -> Jit<A, B, F> {
        self.core.division().arguments = Some(specs_of(&specs, ARGUMENT));
        self
    }

    /// Sets the partition specs of the results: a tree as that of [`Jit::argument_shardings`]. Without specs, every device
    /// has a copy of each result.
    ///
    /// ```
    /// use tapeloom::{Mesh, PartitionSpec, prelude::*};
    /// let rows = || PartitionSpec::new(["data"]);
    /// let f = jit(|x: Var| 2.0 * x).mesh(Mesh::new([("data", 2)])?);
    /// let f = f.argument_shardings(rows()).result_shardings(rows());
    /// let text = f.stablehlo([1.0, 2.0, 3.0, 4.0])?;
    /// assert!(text.contains("-> (tensor<4xf64> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}]>})"));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "out_shardings")]
    pub fn result_shardings(mut self, specs: impl Tree<PartitionSpec>) -> Jit<A, B, F> {
        self.core.division().results = Some(specs_of(&specs, RESULT));
        self
    }

    /// Returns the same closure, compiled for a machine model other than [`MachineModel::MEASURED`], for instance
    /// with a smaller cache or fewer registers. The model, and not the current computer, determines the program.
    /// Another model may change the order in which sums of floats are computed ([`MachineModel::has_bits_of`]).
    ///
    /// If a number of the model is impossible, each call returns an error.
    ///
    /// ```
    /// use tapeloom::{prelude::*, Kind, MachineModel};
    /// let f = |x: Var| (x.sin() * 2.0).sum();
    /// let small = MachineModel { cached_elements: 64, ..MachineModel::MEASURED };
    /// let e = jit(f).machine(small).explain([1.0, 2.0])?;
    /// assert!(e.to_string().contains("machine model: cached_elements 64"));
    /// let none = MachineModel { jammed_iterations: 0, ..small };
    /// assert_eq!(jit(f).machine(none).call([1.0, 2.0]).unwrap_err().kind(), Kind::Target);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "mtune")]
    pub fn machine(mut self, model: MachineModel) -> Jit<A, B, F> {
        self.core.set_machine(model);
        self
    }

    /// Runs the program on a simulated accelerator. Returns the results, and ticks, memory accesses, misses, traffic
    /// and energy of forward and reverse pass. The simulated program is that of [`Jit::call`], and the results are
    /// those of [`Jit::on`].
    ///
    /// The reverse phase begins at the first step of the program that reads a residual of an earlier step and saves
    /// none itself. If there is no such step, there is one phase, and `forward` counts everything
    /// ([`Statistics::phases`], [`Statistics::whole`]). That happens if both passes are fused into one loop, which
    /// saves no residuals, or if the reverse pass recomputes iterations within a byte budget.
    /// [`explain`](Jit::explain) shows the steps.
    ///
    /// # Errors
    /// As [`Jit::call`]; `target` if the configuration of the machine is impossible.
    ///
    /// ```
    /// use tapeloom::{accelerator::Machine, prelude::*};
    /// let logistic = |x: Var| fori_loop(100, |(_, x): (Var, Var)| 3.9 * x * (1.0 - x), x);
    /// let (_, statistics) = jit(grad(logistic)).simulate(0.3, Machine::cal())?;
    /// let (forward, reverse) = (statistics.forward, statistics.reverse);
    /// assert_eq!((forward.tape.stores, reverse.tape.loads), (200, 200));
    /// assert!(reverse.ticks > forward.ticks);
    /// println!("{statistics}");
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn simulate(
        &self,
        args: impl Args<A>,
        on: impl Into<RunConfig>,
    ) -> Result<(B::With<Tensor>, Statistics), Error> {
        let (given, closure) = (TypedArgs(&args), at_args(&self.f, &args, self.core.at));
        let leaves = given.leaves();
        let (results, form, statistics) =
            self.core.simulate(&given, &leaves, &closure, &on.into())?;
        Ok((tree_of::<B>(form, results)?, statistics))
    }

    /// Returns the same closure, compiled with rules of real arithmetic (reassociation, factoring) that are not
    /// exact in floating point. The program is faster and its results differ in the last digits. Compilation needs the Cargo
    /// feature `relaxed`, which is on by default.
    pub fn relaxed(mut self) -> Jit<A, B, F> {
        self.core.set_engine(Engine::Relaxed);
        self
    }

    /// Returns the same closure, whose loops pass 0 to the next iteration in place of each subnormal float: smaller
    /// than about 2.2e-308 in `f64`, or 1.2e-38 in `f32`.
    ///
    /// A recurrence that decays, such as the cotangents of a long stable loop, reaches the subnormal numbers and stays
    /// there. Some processors take many times as long for an operation on such a number. The comparison costs about
    /// three operations for each carried number.
    ///
    /// Only numbers that an iteration has computed are flushed: neither initial values, nor elements that it leaves
    /// unchanged, nor a loop's results that are not carried. The carries of the loops of derivatives are flushed as
    /// well. All engines give the same bits. XLA flushes the operands and results of all operations.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let tiny = jit(|x: Var| fori_loop(800, |(_, x): (Var, Var)| 0.4 * x, x));
    /// assert!(tiny.call(1e5)?.item::<f64>()? > 0.0);
    /// assert_eq!(tiny.flush_subnormals().call(1e5)?.item::<f64>()?, 0.0);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "denormals")]
    #[doc(alias = "set_flush_denormal")]
    pub fn flush_subnormals(mut self) -> Jit<A, B, F> {
        self.core.set_flush();
        self
    }

    /// Returns the same closure, whose calls run on at most `n` threads at the same time, the calling thread included; 0
    /// means as many as this process may use. Without this method, calls run on as many threads as the environment
    /// variable `TAPELOOM_THREADS` says, or on one.
    ///
    /// **Results have the same bits with any number of threads.** Long loops and large matrix products are cut into
    /// pieces, whose number follows from shapes alone; sums of pieces are added in order. Small ones are not cut, since
    /// waking a thread takes some microseconds. Each thread needs memory for the temporaries of a piece, which
    /// [`explain`](Jit::explain) counts in its peak.
    ///
    /// The threads are those of the current pool of [`rayon`](https://docs.rs/rayon): inside of `ThreadPool::install`,
    /// calls use that pool, otherwise the global one.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |x: Var| (x.sin() * x).sum();
    /// let x: Tensor = (0..1000).map(|i| 0.01 * i as f64).collect();
    /// let (one, two) = (jit(grad(f)), jit(grad(f)).threads(2));
    /// assert_eq!(one.call(&x)?, two.call(&x)?);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "parallel")]
    #[doc(alias = "num_threads")]
    #[doc(alias = "set_num_threads")]
    pub fn threads(mut self, n: usize) -> Jit<A, B, F> {
        self.core.set_threads(tapeloom_backend::threads(n));
        self
    }

    /// Returns the same closure with a limit of `n` iterations for each loop whose trip count is known only at run
    /// time. A call that would exceed the limit ends with an error that has the line of the loop. If the trip count
    /// is known when the loop starts, the error comes before the first iteration. Each execution of a loop is
    /// counted separately. The limit costs a few instructions per iteration.
    ///
    /// ```
    /// use tapeloom::{prelude::*, Kind};
    /// let halved = |x: Var| while_loop(|x: Var| x.gt(1.0), |x| x / 2, x);
    /// let f = jit(halved).max_steps(1000);
    /// assert_eq!(f.call(1024.0)?.item::<f64>()?, 1.0);
    /// let error = f.call(f64::INFINITY).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Limit);
    /// assert!(error.to_string().contains("a loop did not end after 1000 iterations"));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn max_steps(mut self, n: u64) -> Jit<A, B, F> {
        self.core.limits().max_steps = Some(n);
        self
    }

    /// Returns the same closure, whose calls end with an error soon after `cancel` is triggered, from any thread.
    /// Loops check the handle when they start and every 1,024 iterations.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tapeloom::{prelude::*, Kind};
    /// let cancel = Cancel::new();
    /// let forever = jit(|x: Var| while_loop(|x: Var| x.gt(0.0), |x| x + 1.0, x)).cancelled_by(&cancel);
    /// let error = std::thread::scope(|s| {
    ///     let call = s.spawn(|| forever.call(1.0));
    ///     std::thread::sleep(Duration::from_millis(50));
    ///     cancel.cancel();
    ///     call.join().unwrap().unwrap_err()
    /// });
    /// assert_eq!(error.kind(), Kind::Cancelled);
    /// ```
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Jit<A, B, F> {
        self.core.limits().cancel = Some(cancel.clone());
        self
    }

    /// Runs the program once. Returns the results, and a report with the number of iterations of each loop whose trip
    /// count is known only at run time and the memory of the call in bytes. The closure is traced and compiled again
    /// for this, with counters in its loops.
    ///
    /// # Errors
    /// As [`Jit::call`]; and [`Kind::Target`](tapeloom_ir::Kind) if [`Jit::on`] chose another target than machine
    /// code, because only machine code has the counters.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let collatz = |n: Var| while_loop(
    ///     |n: Var| n.gt(1),
    ///     |n: Var| select((n % 2).eq(0), n / 2, 3 * n + 1),
    ///     n,
    /// );
    /// let (one, report) = jit(collatz).report(27i64)?;
    /// assert_eq!(one.item::<i64>()?, 1);
    /// assert_eq!((report.loops[0].entered, report.loops[0].iterations), (1, 111));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn report(&self, args: impl Args<A>) -> Result<(B::With<Tensor>, CallReport), Error> {
        let closure = at_args(&self.f, &args, self.core.at);
        let (results, form, report) = self.core.report(&TypedArgs(&args).leaves(), &closure)?;
        Ok((tree_of::<B>(&form, results)?, report))
    }

    /// Runs the program, and returns its results and the time of its parts: loops, contractions, and calls of
    /// routines and Rust functions, each with its number of runs, estimated memory traffic, primitives and your lines.
    /// The closure is traced and compiled again for this, with timers behind these parts. Results have the same bits as
    /// those of [`Jit::call`]. A program that calls no Rust function runs twice, and the second run is measured, whose
    /// memory is in place already.
    ///
    /// A part is a loop of at least some 2 microseconds of estimated work, since reading the clock would slow down
    /// smaller ones by more than 2 per cent; smaller loops are counted with a neighbour. If one iteration of a loop
    /// whose iterations run in order has that much work, as in a scan, the statements inside the loop are parts. A
    /// loop whose iterations are independent is one part, with the loops inside it.
    ///
    /// The environment variable `TAPELOOM_PROFILE` names a file that receives such a table for each program of a
    /// process, summed over all calls.
    ///
    /// # Errors
    /// As [`Jit::call`]; and [`Kind::Target`](tapeloom_ir::Kind) for other engines than machine code, which have no
    /// timers: after [`Jit::on`] with another target, [`Jit::interpreted`] or [`Jit::nan_check`].
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |x: Var| {
    ///     let cheap = (x + 1.0).index(0).sum();
    ///     let slow = x.dot(x.t()).dot(x).sum();
    ///     cheap + slow
    /// };
    /// let x = Tensor::full(&[200, 200], 0.5)?;
    /// let (y, profile) = jit(f).profile(&x)?;
    /// assert_eq!(y, jit(f).call(&x)?);
    /// assert!(profile.rows.iter().any(|row| row.equations == ["dot"] && row.calls == 1));
    /// println!("{profile}"); // the slowest part first
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Source: the profiler of Halide, whose counters also stand around the loops of each stage; the picture
    /// ([`Profile::svg`]) is B. Gregg's flame graph.
    pub fn profile(&self, args: impl Args<A>) -> Result<(B::With<Tensor>, Profile), Error> {
        let closure = at_args(&self.f, &args, self.core.at);
        let (results, form, profile) = self.core.profile(&TypedArgs(&args).leaves(), &closure)?;
        Ok((tree_of::<B>(&form, results)?, profile))
    }

    /// Compiles the closure for these arguments and returns a description of the compilation: the program at each
    /// stage, kernels, memory with its exact peak, times, and the reason of each earlier compilation. The closure is
    /// traced and compiled again for this.
    ///
    /// # Errors
    /// As [`Jit::call`].
    #[doc(alias = "make_jaxpr")]
    pub fn explain(&self, args: impl Args<A>) -> Result<Explanation, Error> {
        let given = TypedArgs(&args);
        self.core.explain(&given, &given.leaves(), &[], &at_args(&self.f, &args, self.core.at))
    }

    /// Describes the compilation for [`Jit::call_donating`] with these arguments, as [`Jit::explain`] does for
    /// [`Jit::call`]. [`Explanation::donated`] lists the results in the memory of arguments, and
    /// [`peak_bytes`](Explanation::peak_bytes) counts this memory once.
    ///
    /// # Errors
    /// As [`Jit::call`].
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let step = jit(|(w, x): (Var, Var)| ((w * x).sum(), w - 0.1 * x));
    /// let (w, x) = (Tensor::full(&[1000], 1.0)?, Tensor::full(&[1000], 2.0)?);
    /// let e = step.explain_donating((w.clone(), &x))?;
    /// # if cfg!(feature = "native") {
    /// assert_eq!(e.donated(), [("argument.0".to_owned(), "result.1".to_owned())]);
    /// assert_eq!(e.peak_bytes(), step.explain((&w, &x))?.peak_bytes() - 8000);
    /// # }
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn explain_donating(&self, args: impl Args<A>) -> Result<Explanation, Error> {
        let (given, closure) = (TypedArgs(&args), at_args(&self.f, &args, self.core.at));
        let donated = self.core.donated(given.owned());
        self.core.explain(&given, &given.leaves(), &donated, &closure)
    }

    /// Calls the closure inside a trace. It is traced once for each kind of arguments in that trace. Each use is a call
    /// in the program, which is not inlined, as with [`outline`](crate::outline).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let square = jit(|x: Var| x * x);
    /// let f = jit(grad(|x: Var| square.apply(square.apply(x))));
    /// assert_eq!(f.call(2.0)?.item::<f64>()?, 32.0);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn apply(&self, args: A) -> B {
        call_once_traced("jit", self.core.number, self.core.at, &self.f, args)
    }

    /// Returns the number of compiled programs.
    pub fn programs(&self) -> usize {
        self.core.programs()
    }
}

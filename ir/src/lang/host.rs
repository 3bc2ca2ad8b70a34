//! Hosts: Rust functions that programs call.
//!
//! A program is text, and a Rust function is not. So a program refers to a *host*: a name with a Rust function.
//! Two hosts are equal if they are the same object, whatever their names; the text of a program shows the name
//! (`&spline`), with a suffix where two hosts share a name. A program that is read from text has hosts without
//! functions; each may be given a function once:
//!
//! ```
//! use tapeloom_ir::{Tensor, eval, parse_module};
//! let module = parse_module("func @f(%0: f64[]) -> (f64[]) {
//!   %1: f64[] = callback{host=&half, results=[f64[]]} %0
//!   return %1
//! }").map_err(|e| e[0].clone())?;
//! let f = module.iter().next().map(|(id, _)| id).ok_or("no function")?;
//! let missing = eval(&module, f, &[Tensor::from(3.0)]).unwrap_err();
//! assert!(missing.message.contains("`half` has no Rust function"));
//! for host in module.hosts() {
//!     host.bind(|x| Ok(vec![Tensor::from(x[0].item::<f64>()? / 2.0)]));
//! }
//! assert_eq!(eval(&module, f, &[Tensor::from(3.0)])?, [Tensor::from(1.5)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`HostCall`] is a call of a host: it declares the types of the results, and how a batch is evaluated. Every
//! engine calls a host by [`run`](HostCall::run), so that all behave alike: it catches panics, and rejects
//! results that differ from the declared types.

use crate::lang::problem::{Kind, Problem};
use crate::lang::types::{ArrayType, Type};
use crate::tensor::Tensor;
use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{self, AtomicU64};
use std::sync::{Arc, OnceLock};

/// The reason why a Rust function failed: any error type that `?` converts.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The results of a Rust function, or the reason why it failed.
pub type Answer = Result<Vec<Tensor>, Failure>;

/// The index of the batch member for which a Rust function is called; `None` outside a batch.
pub type Lane = Option<usize>;

/// A named Rust function. Clones share the function.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    name: Arc<str>,
    number: u64,
    functions: OnceLock<Functions>,
}

struct Functions {
    one: MemberFn,
    batch: Option<Batch>,
}

/// A Rust function that is called once per call or, in a batch, once per batch member. It gets the operands of that
/// call or member.
type MemberFn = Box<dyn Fn(Lane, &[Tensor]) -> Answer + Send + Sync>;

/// A Rust function that evaluates a whole batch at once. Its arguments are the batch size and the operands. Operands
/// and results have the batch members on axis 0.
pub type Batch = Box<dyn Fn(usize, &[Tensor]) -> Answer + Send + Sync>;

impl Host {
    /// Makes a host (a named Rust function) with the name `name`, whose Rust function is not set yet.
    pub fn unbound(name: &str) -> Host {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, atomic::Ordering::Relaxed);
        Host(Arc::new(Inner { name: name.into(), number, functions: OnceLock::new() }))
    }

    /// Makes a host (a named Rust function) with the name `name` and the Rust function `one`. `batch` evaluates a
    /// whole batch at once; without it, `one` is called for each member in turn.
    pub fn new(
        name: &str,
        one: impl Fn(Lane, &[Tensor]) -> Answer + Send + Sync + 'static,
        batch: Option<Batch>,
    ) -> Host {
        let host = Host::unbound(name);
        // The host has just been made and has no function yet, so setting the function cannot fail.
        let _ = host.0.functions.set(Functions { one: Box::new(one), batch });
        host
    }

    /// Sets the Rust function that calls of this host run, unless it has one already. Returns whether it was set.
    pub fn bind(&self, one: impl Fn(&[Tensor]) -> Answer + Send + Sync + 'static) -> bool {
        let one = Box::new(move |_: Lane, x: &[Tensor]| one(x));
        self.0.functions.set(Functions { one, batch: None }).is_ok()
    }

    /// Returns the name that stands for the host in the text of programs.
    pub fn name(&self) -> &str {
        &self.0.name
    }
}

impl PartialEq for Host {
    fn eq(&self, other: &Host) -> bool {
        self.0.number == other.0.number
    }
}

impl Eq for Host {}

impl Hash for Host {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.number.hash(state);
    }
}

impl PartialOrd for Host {
    fn partial_cmp(&self, other: &Host) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Host {
    fn cmp(&self, other: &Host) -> Ordering {
        self.0.number.cmp(&other.0.number)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "&{}", self.0.name)
    }
}

/// A call of a host, which is a named Rust function.
///
/// A call without results has an ordered effect: it happens once, in program order. A call with results is a
/// pure function: it may be repeated, merged with an equal one, or dropped.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct HostCall {
    /// The host (named Rust function) that is called.
    pub host: Host,
    /// The types of the results. If the call is over a batch, these are the types of one member's results.
    pub results: Vec<ArrayType>,
    /// The number of batch members; `None` if the call is not over a batch. Operands and results have the members
    /// on axis 0. Unless the host has a function for batches, it is called for one member after the other.
    pub lanes: Option<usize>,
    /// The indices of operands that all batch members share; they have no batch axis.
    pub shared: Vec<usize>,
}

impl HostCall {
    /// Returns whether the call has an ordered effect: whether it has no results.
    pub fn is_ordered(&self) -> bool {
        self.results.is_empty()
    }

    /// Returns the types of the results, with the batch axis if the call is over a batch.
    pub fn result_types(&self) -> Vec<ArrayType> {
        let whole = |ty: &ArrayType| match self.lanes {
            Some(n) => ArrayType::new(ty.dtype, ty.shape.with_leading(n)),
            None => ty.clone(),
        };
        self.results.iter().map(whole).collect()
    }

    /// Calls the host's Rust function on the operands, and returns the results.
    ///
    /// # Errors
    /// [`Kind::Callback`] if the host has no function, or its function fails, panics, or returns other types
    /// than declared.
    pub fn run(&self, operands: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
        let Some(functions) = self.host.0.functions.get() else {
            return Err(Problem::new(
                Kind::Callback,
                format!("`{}` has no Rust function in this program", self.host.name()),
                "a program that was parsed from text has only the names of Rust functions: bind a \
                 function",
            ));
        };
        let Some(lanes) = self.lanes else {
            return self.checked(&self.results, || (functions.one)(None, operands));
        };
        if let Some(batch) = &functions.batch {
            let all = operands.iter().enumerate().map(|(i, x)| match self.shared.contains(&i) {
                true => repeated(x, lanes),
                false => Ok(x.clone()),
            });
            let all: Vec<Tensor> = all.collect::<Result<_, _>>()?;
            return self.checked(&self.result_types(), || batch(lanes, &all));
        }
        let types = self.result_types();
        let mut results: Vec<Tensor> =
            types.iter().map(Tensor::zeros_of).collect::<Result<_, _>>()?;
        for lane in 0..lanes {
            let own = operands.iter().enumerate().map(|(i, x)| match self.shared.contains(&i) {
                true => Ok(x.clone()),
                false => x.row(lane),
            });
            let own: Vec<Tensor> = own.collect::<Result<_, _>>()?;
            let given = self.checked(&self.results, || (functions.one)(Some(lane), &own))?;
            for (all, one) in results.iter_mut().zip(given) {
                let bytes = one.ty().bytes();
                all.bytes_mut()[lane * bytes..][..bytes].copy_from_slice(one.bytes());
            }
        }
        Ok(results)
    }

    /// Calls `ask`, which runs the host's Rust function; catches panics, and checks that the results have the types
    /// `types`.
    fn checked(
        &self,
        types: &[ArrayType],
        ask: impl FnOnce() -> Answer,
    ) -> Result<Vec<Tensor>, Problem> {
        let name = self.host.name();
        let problem = |message, help| Err(Problem::new(Kind::Callback, message, help));
        let given = match catch_unwind(AssertUnwindSafe(ask)) {
            Ok(Ok(given)) => given,
            Ok(Err(failure)) => {
                let help = "the error that it returned ends the call of the program";
                return problem(format!("`{name}` failed: {failure}"), help);
            }
            Err(payload) => {
                let said = panic_text(&*payload);
                let help = "a callback that cannot answer returns an error rather than panic";
                return problem(format!("`{name}` panicked: {said}"), help);
            }
        };
        if given.iter().map(Tensor::ty).eq(types) {
            return Ok(given);
        }
        let found: Vec<Type> = given.iter().map(|x| x.ty().clone().into()).collect();
        let want: Vec<Type> = types.iter().map(|ty| ty.clone().into()).collect();
        let [want, found] = [want, found].map(|types| {
            let names: Vec<String> = types.iter().map(Type::to_string).collect();
            names.join(", ")
        });
        problem(
            format!("`{name}` was declared to return ({want}) and returned ({found})"),
            "declare these results, or convert and reshape the results",
        )
    }
}

/// Returns the text with which a Rust function panicked, from the panic's payload.
fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or(payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

/// Returns `lanes` copies of an array, along a new axis 0.
fn repeated(x: &Tensor, lanes: usize) -> Result<Tensor, Problem> {
    let ty = ArrayType::new(x.dtype(), x.ty().shape.with_leading(lanes));
    let mut all = Tensor::zeros_of(&ty)?;
    let bytes = x.ty().bytes();
    for lane in 0..lanes {
        all.bytes_mut()[lane * bytes..][..bytes].copy_from_slice(x.bytes());
    }
    Ok(all)
}

//! The reference interpreter: it defines the meaning of a program.
//!
//! Generated code is tested against the interpreter. A value is dropped after its last use, so the interpreter
//! holds only live values.

use crate::lang::function::{Atom, FuncId, Function, ValueId};
use crate::lang::module::Module;
use crate::lang::problem::{Kind, Problem};
use crate::lang::stack::deeper;
use crate::lang::value::Value;
use crate::tensor::Tensor;
use cranelift_entity::SecondaryMap;
use std::cell::Cell;

/// Runs a function on concrete arguments.
///
/// # Errors
/// [`Kind::Arguments`] if the arguments do not fit the parameters; any error of a primitive.
pub fn eval(module: &Module, function: FuncId, args: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
    let args: Vec<Value> = args.iter().cloned().map(Value::from).collect();
    Value::arrays(&eval_values(module, function, &args)?)
}

/// Runs a function on concrete values, as [`eval`] does; parameters and results may be tapes.
///
/// # Errors
/// Those of [`eval`].
pub fn eval_values(
    module: &Module,
    function: FuncId,
    args: &[Value],
) -> Result<Vec<Value>, Problem> {
    eval_owned(module, function, args.to_vec())
}

/// Runs a function on concrete values, like [`eval_values`], but takes ownership of the arguments: if nothing else
/// shares an array that the function updates, the update is in place.
///
/// # Errors
/// Those of [`eval`].
pub(crate) fn eval_owned(
    module: &Module,
    function: FuncId,
    args: Vec<Value>,
) -> Result<Vec<Value>, Problem> {
    deeper(|| run(module, module.function(function), args))
}

/// An observer of one run of a function: it runs each equation in place of the interpreter, and so sees operands
/// and outputs.
pub(crate) trait Observer {
    /// Runs equation `at.1` of the function `at.0` on these operands, and returns its outputs.
    fn equation(
        &mut self,
        module: &Module,
        at: (&Function, usize),
        operands: &[Value],
    ) -> Result<Vec<Value>, Problem>;

    /// Called at the end of the run; `results` are the atoms that the function returns.
    fn end(&self, results: &[Atom]);
}

/// A function that makes the observer of one run, given the run's parameters and arguments; `None` leaves the run
/// without an observer.
pub(crate) type Observe = fn(&[ValueId], &[Value]) -> Option<Box<dyn Observer>>;

thread_local! {
    static OBSERVE: Cell<Option<Observe>> = const { Cell::new(None) };
}

/// Calls `run`; each function that the interpreter runs meanwhile on this thread gets an observer from `observe`.
pub(crate) fn observed<T>(observe: Observe, run: impl FnOnce() -> T) -> T {
    /// A guard that restores the previous observer, even if `run` panics.
    struct Restore(Option<Observe>);
    impl Drop for Restore {
        fn drop(&mut self) {
            OBSERVE.set(self.0);
        }
    }
    let _restore = Restore(OBSERVE.replace(Some(observe)));
    run()
}

fn run(module: &Module, f: &Function, args: Vec<Value>) -> Result<Vec<Value>, Problem> {
    let params: Vec<ValueId> = f.all_params().collect();
    if params.len() != args.len() {
        return Err(Problem::new(
            Kind::Arguments,
            format!("@{} takes {} arguments, got {}", f.name, params.len(), args.len()),
            "",
        ));
    }
    let mut values: SecondaryMap<ValueId, Option<Value>> =
        SecondaryMap::with_capacity(f.types.len());
    let mut observer = OBSERVE.get().and_then(|observe| observe(&params, &args));
    for (i, (p, arg)) in params.iter().zip(args).enumerate() {
        if f.types[*p] != arg.ty() {
            return Err(Problem::new(
                Kind::Arguments,
                format!("argument {i} of @{} must be {}, got {}", f.name, f.types[*p], arg.ty()),
                "",
            ));
        }
        values[*p] = Some(arg);
    }
    let mut uses = f.use_counts();
    for (i, e) in f.equations.iter().enumerate() {
        let mut operands = Vec::with_capacity(e.operands.len());
        for a in &e.operands {
            operands.push(read(&values, *a)?);
        }
        for v in e.operands.iter().filter_map(|a| a.value()) {
            uses[v] -= 1;
            if uses[v] == 0 {
                values[v] = None;
            }
        }
        let outputs = match &mut observer {
            None => e.op.run_owned(module, operands),
            Some(observer) => observer.equation(module, (f, i), &operands),
        };
        let outputs = outputs.map_err(|p| p.at(f.location(i)))?;
        for (v, y) in e.outputs.iter().zip(outputs) {
            debug_assert_eq!(f.types[*v], y.ty(), "{}", e.op.name());
            if uses[*v] > 0 {
                values[*v] = Some(y);
            }
        }
    }
    if let Some(observer) = observer {
        observer.end(&f.results);
    }
    f.results.iter().map(|r| read(&values, *r)).collect()
}

fn read(values: &SecondaryMap<ValueId, Option<Value>>, a: Atom) -> Result<Value, Problem> {
    match a {
        Atom::Literal(l) => Ok(Tensor::from(l).into()),
        Atom::Value(v) => values[v]
            .clone()
            .ok_or_else(|| Problem::internal(format!("{v} is read before it is defined"))),
    }
}

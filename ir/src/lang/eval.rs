//! The reference interpreter: the meaning of a program, one equation after the other.
//!
//! Generated code is tested against this. A value is dropped after its last use, so that memory
//! stays within what the program needs at once.

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
/// [`Kind::Arguments`] when arguments do not fit the parameters; whatever a primitive reports.
pub fn eval(module: &Module, function: FuncId, args: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
    let args: Vec<Value> = args.iter().cloned().map(Value::from).collect();
    Value::arrays(&eval_values(module, function, &args)?)
}

/// As [`eval`], for functions that take or give tapes, too.
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

/// As [`eval_values`], of arguments that nobody else needs: an array that the function writes to is
/// written where it lies.
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

/// An observer of one run of a function: it runs each equation, and learns the results.
pub(crate) trait Observer {
    /// Runs an equation of it.
    fn equation(
        &mut self,
        module: &Module,
        at: (&Function, usize),
        operands: &[Value],
    ) -> Result<Vec<Value>, Problem>;

    /// The run ends with these results.
    fn end(&self, results: &[Atom]);
}

/// The observer of a run with these parameters and arguments; `None` where the run is not observed.
pub(crate) type Observe = fn(&[ValueId], &[Value]) -> Option<Box<dyn Observer>>;

thread_local! {
    static OBSERVE: Cell<Option<Observe>> = const { Cell::new(None) };
}

/// Runs something in which the runs of functions on this thread are observed.
pub(crate) fn observed<T>(observe: Observe, run: impl FnOnce() -> T) -> T {
    /// Restores what was there also where `run` panics.
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

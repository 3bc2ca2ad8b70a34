//! Rust functions for tests, which record their calls in a list of the thread on which the program runs.

use crate::loop_ir::{CallExternal, External, ExternalSignature, Origins, Program, Stmt, View};
use std::cell::RefCell;
use std::sync::Arc;
use tapeloom_ir::{ArrayType, Host, HostCall, Literal, Tensor};

/// Recorded calls: for each call the name of the function, and the elements of all its operands.
pub(crate) type RecordedCalls = Vec<(String, Vec<Literal>)>;

thread_local! {
    static CALLS: RefCell<RecordedCalls> = const { RefCell::new(Vec::new()) };
}

/// Returns the recorded calls on this thread since the last call of `take_recorded_calls`.
pub(crate) fn take_recorded_calls() -> RecordedCalls {
    CALLS.take()
}

fn record(name: &str, x: &[Tensor]) {
    let elements = x.iter().flat_map(Tensor::literals).collect();
    CALLS.with_borrow_mut(|calls| calls.push((name.to_owned(), elements)));
}

/// Binds a recording function without results to every external name of a program that was parsed from text.
pub(crate) fn bind_recorders(program: &Program) {
    for signature in program.externals() {
        let External::Host(call) = &signature.function else { continue };
        let name = call.host.name().to_owned();
        call.host.bind(move |x| {
            record(&name, x);
            Ok(Vec::new())
        });
    }
}

/// Returns a statement that calls a recording function on the elements of `view`, and writes the negated elements to
/// `negatives`, if that is given.
pub(crate) fn recording_call(
    name: &str,
    ty: ArrayType,
    view: View,
    negatives: Option<View>,
) -> Stmt {
    let (to, some) = (name.to_owned(), negatives.is_some());
    let answer = move |_, x: &[Tensor]| {
        record(&to, x);
        let negatives = || x[0].map_numbers(|x| -x);
        Ok(some.then(negatives).into_iter().collect())
    };
    let results = negatives.iter().map(|_| ty.clone()).collect();
    let call =
        HostCall { host: Host::new(name, answer, None), results, lanes: None, shared: Vec::new() };
    let function = External::Host(call);
    let signature = Arc::new(ExternalSignature { function, operands: vec![ty], location: None });
    Stmt::CallExternal(CallExternal {
        signature,
        operands: vec![view],
        outputs: negatives.into_iter().collect(),
        origins: Origins::default(),
    })
}

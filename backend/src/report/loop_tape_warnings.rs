//! Warnings about loops that save, in each iteration, a residual as large as one of their carries.
//!
//! If a loop changes a few elements of an array in each iteration and saves the whole array for the reverse pass, its
//! tape holds one array for each iteration, where a few numbers for each might be enough. Such a loop may be
//! right (a recurrent network needs its states), so the memory plan prints a line and compilation goes on:
//!
//! ```text
//! the loop at src/main.rs:7 saves mul at src/main.rs:8, f64[1000], which is as large as its carry: 8000 bytes for each iteration, 800000 for all
//! ```

use std::fmt;
use tapeloom_ir::prim::{Binding, Direction, TripCount};
use tapeloom_ir::{ArrayType, Equation, FuncId, Function, Loc, Module, OrderedSet, Type, ValueId};

/// A residual that each iteration of a loop saves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LargeResidual {
    /// The name of the primitive that computes the residual, or `the carry` if the residual is the value of the loop's
    /// carry at the start of the iteration.
    pub what: &'static str,
    /// The type of the residual that one iteration saves.
    pub ty: ArrayType,
    /// The user's source line of the equation that computes the residual.
    pub location: Loc,
    /// The user's source line of the loop.
    pub loop_location: Loc,
    /// The trip count of the loop; `None` if it is known only at run time.
    pub iterations: Option<usize>,
}

/// The most bytes that a residual may have in each iteration without a warning.
const LITTLE_BYTES: usize = 64;

/// Returns the residuals that cause a warning. Such a residual belongs to a loop that `function` runs, directly or in
/// its regions. The residual of one iteration has the type of one of the loop's carries, and a loop in the opposite
/// direction reads the residuals. Each function is visited once.
pub(crate) fn large_residuals(module: &Module, function: FuncId) -> Vec<LargeResidual> {
    let (mut found, mut seen, mut open) = (Vec::new(), OrderedSet::default(), vec![function]);
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let f = module.function(id);
        let read = read(f);
        for (i, e) in f.equations.iter().enumerate() {
            open.extend(e.op.regions().iter().filter(|r| r.role.runs()).map(|r| r.function));
            let Some((body, spec)) = e.op.as_loop() else { continue };
            let iteration = module.function(body);
            let (mut carried, mut like) = (OrderedSet::default(), OrderedSet::default());
            for (slot, ty) in spec.takes.iter().zip(iteration.param_types()) {
                if let Binding::Carry(r) = slot {
                    carried.insert(*r);
                    like.insert(ty);
                }
            }
            for (r, (result, ty)) in
                iteration.results.iter().zip(iteration.result_types()).enumerate()
            {
                let back = (e.outputs[r], spec.direction.flipped());
                if carried.contains(&r) || !like.contains(&ty) || !read.contains(&back) {
                    continue;
                }
                let Type::Array(ty) = ty else { continue };
                if ty.bytes() <= LITTLE_BYTES {
                    continue;
                }
                let makes = |e: &Equation| result.value().is_some_and(|v| e.outputs.contains(&v));
                let made = iteration.equations.iter().position(makes);
                found.push(LargeResidual {
                    what: made.map_or("the carry", |i| iteration.equations[i].op.name()),
                    ty,
                    location: made.and_then(|i| iteration.location(i)),
                    loop_location: f.location(i),
                    iterations: match spec.trip {
                        TripCount::Static(n) => Some(n),
                        TripCount::Runtime | TripCount::While { .. } => None,
                    },
                });
            }
        }
    }
    found
}

/// Returns the arrays from which a loop of the function reads one slice in each iteration, with that loop's direction.
fn read(f: &Function) -> OrderedSet<(ValueId, Direction)> {
    let mut read = OrderedSet::default();
    for e in &f.equations {
        let Some((_, spec)) = e.op.as_loop() else { continue };
        for (p, x) in spec.params().zip(&e.operands[spec.lead()..]) {
            if let (Binding::Xs, Some(x)) = (spec.takes[p], x.value()) {
                read.insert((x, spec.direction));
            }
        }
    }
    read
}

impl fmt::Display for LargeResidual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |loc: Loc| loc.map_or(String::new(), |l| format!(" at {}:{}", l.file(), l.line()));
        let (what, ty, bytes) = (self.what, &self.ty, self.ty.bytes());
        write!(f, "the loop{} saves {what}{}, {ty}", at(self.loop_location), at(self.location))?;
        write!(f, ", which is as large as its carry: {bytes} bytes for each iteration")?;
        match self.iterations {
            Some(n) => write!(f, ", {} for all", bytes.saturating_mul(n)),
            None => Ok(()),
        }
    }
}

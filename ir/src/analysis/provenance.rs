//! The provenance of a value, for tables of memory.
//!
//! The maker of a value is the equation that computed it. If a loop stacks a value from its iterations, the maker is
//! the equation of the loop's body that computes an element. If that equation is itself a loop, the same rule applies
//! to its body. An equation that only marks a value is not its maker:
//!
//! ```text
//! %4: f64[100,8] = loop{body=@step, ..} ..        @step: %2 = exp %0; %3 = barrier{name=act} %2
//!                                                 made by exp, and named act
//! ```

use crate::lang::function::{Equation, Function};
use crate::lang::module::Module;
use crate::lang::source_loc::Loc;
use crate::prim::{Lowering, Mark};
use std::sync::Arc;

/// The primitive that computed a value, with its source line, for tables of the memory that values take.
#[derive(Clone, Debug)]
pub struct Maker {
    /// The name of the primitive that computed the value.
    pub what: &'static str,
    /// The user's source line of that primitive.
    pub at: Loc,
    /// The mark of packing, if the value is stored in fewer bits than its dtype.
    pub packed: Option<Mark>,
    /// The name that the user gave the value, if any.
    pub named: Option<Arc<str>>,
}

/// Returns the maker of output `n` of equation `i` of `f`. This is the equation itself, unless it is a loop that stacks
/// the output from its iterations. Then it is the equation of the loop's body that computes an element, at any depth of
/// nested loops.
pub fn maker<'m>(module: &'m Module, mut f: &'m Function, mut i: usize, mut n: usize) -> Maker {
    let (mut packed, mut named) = (None, None);
    loop {
        let e = &f.equations[i];
        let (mut what, at) = (e.op.name(), f.location(i));
        let inside = match e.lower(module, f) {
            Lowering::Alias { mark: Some(mark), .. } => {
                match mark {
                    Mark::Packed | Mark::Rounded => packed = Some(mark),
                    Mark::Named(name) => named = Some(name),
                    Mark::Rematerialize
                    | Mark::AfterForward
                    | Mark::Residual
                    | Mark::Tape
                    | Mark::Draw(_)
                    | Mark::Split(_) => {}
                }
                e.operands[0].value().map(|v| (f, v))
            }
            Lowering::Alias { mark: None, sharding: Some(_) } => {
                e.operands[0].value().map(|v| (f, v))
            }
            Lowering::Loop { body, spec } if spec.carrier(n).is_none() => {
                let iteration = module.function(body);
                iteration.results.get(n).and_then(|a| a.value()).map(|v| (iteration, v))
            }
            Lowering::Elementwise(_)
            | Lowering::View { .. }
            | Lowering::Reshape
            | Lowering::Alias { mark: None, sharding: None }
            | Lowering::Iota { .. }
            | Lowering::DynamicSlice
            | Lowering::Gather { .. }
            | Lowering::DynamicUpdateSlice
            | Lowering::Scatter { .. }
            | Lowering::Reduce { .. }
            | Lowering::ArgReduce { .. }
            | Lowering::Cumulate { .. }
            | Lowering::ArgSort { .. }
            | Lowering::Contract { .. }
            | Lowering::Host(_)
            | Lowering::Routine(_)
            | Lowering::Call(_)
            | Lowering::Branch { .. }
            | Lowering::Loop { .. }
            | Lowering::Missing(_) => None,
        };
        if let Some((iteration, v)) = inside {
            let mut equations = iteration.equations.iter().enumerate();
            let place =
                |(j, e): (usize, &Equation)| Some((j, e.outputs.iter().position(|o| *o == v)?));
            if let Some((j, m)) = equations.find_map(place) {
                (f, i, n) = (iteration, j, m);
                continue;
            }
            if iteration.all_params().any(|p| p == v) {
                what = "the carry";
            }
        }
        return Maker { what, at, packed, named };
    }
}

//! The meaning of concurrent loops, and the check whether a loop may be concurrent.
//!
//! The iterations of a concurrent loop, its *pieces*, may run at the same time on several threads:
//!
//! ```text
//! private 64
//! buffer b2: f64[8] private 0
//! concurrent i0 in 4 {
//!   for i1 in 8 { .. store b2[i1], %0 }
//!   for i2 in 8 { %1: f64 = load b2[i2] .. store b1[i0*8 + i2], %2 }
//! }
//! ```
//!
//! Pieces share all memory except that of private buffers ([`Place::Private`]), of which each piece has its own. So a
//! piece must not access elements that another piece writes, and must write the elements of a private buffer before it
//! reads them. These two conditions are proved here, since machine code does not check them when it runs. The number
//! of pieces is part of the program: a result does not depend on the number of threads.
//!
//! Loops whose iterations have effects in program order are refused: calls of Rust functions and of kernels, dynamic
//! tapes, limits of iterations, and timers. The pass [`cut_pieces`](crate::passes::cut_pieces) makes loops concurrent.

use super::analysis::block_local::block_local;
use super::analysis::dependence::{may_run_concurrently, variables};
use super::{BufferId, Effect, Extent, Flow, Kernel, Parallelism, Place, Stmt, visit};
use cranelift_entity::PrimaryMap;
use tapeloom_ir::OrderedSet;
use tapeloom_ir::fault::{Fault, planted};

/// Returns the reason why the loop `stmt` of the entry kernel cannot be concurrent; `None` if it can.
pub(crate) fn refused(k: &Kernel, stmt: &Stmt) -> Option<String> {
    let Stmt::For { index, extent, lanes, carries, body, .. } = stmt else {
        return Some("it is no loop".to_owned());
    };
    let Extent::Constant(pieces) = *extent else {
        return Some("its trip count is known at run time only".to_owned());
    };
    if *lanes != 1 {
        return Some("it has lanes".to_owned());
    }
    if let Some(c) = carries.first() {
        return Some(format!("{c} is carried"));
    }
    let (mut ordered, mut private) = (None, OrderedSet::<BufferId>::default());
    visit(body, &mut |stmt| {
        let shape = stmt.shape();
        let why = match shape.effect {
            Effect::None => None,
            Effect::Call(_) => Some("there is a call inside"),
            Effect::External(_) => Some("there is a call of an external function inside"),
            Effect::Tape(_) => Some("a cursor moves inside"),
            Effect::Limit(_) => Some("a loop inside has an iteration limit"),
            Effect::Lap(_) => Some("a timer is read inside"),
        };
        let nested = matches!(shape.flow, Flow::For { parallelism: Parallelism::Concurrent, .. });
        ordered = ordered.or(why).or(nested.then_some("a loop inside is concurrent"));
        stmt.buffers(&mut |buffer| match k.buffers[buffer].place {
            Place::Private(_) => _ = private.insert(buffer),
            Place::Record { .. } => ordered = ordered.or(Some("a tape is accessed inside")),
            Place::Input(_)
            | Place::Output(_)
            | Place::Donated { .. }
            | Place::Workspace(_)
            | Place::Unplaced => {}
        });
    });
    if let Some(why) = ordered {
        return Some(why.to_owned());
    }
    if let (Parallelism::Fold | Parallelism::Serial, why) = variables(body) {
        return Some(why);
    }
    let private: Vec<BufferId> = private.into_iter().collect();
    let own = block_local(k, &PrimaryMap::new(), body, &private);
    if let Some((buffer, _)) = private.iter().zip(own).find(|(_, own)| !own) {
        return Some(format!("it is not proved that {buffer} is written before it is read"));
    }
    let apart =
        may_run_concurrently(k, *index, pieces, body, &|_| false) || planted(Fault::ClaimedApart);
    (!apart).then(|| "it is not proved that iterations access different elements".to_owned())
}

//! A simulated accelerator: cache, scratchpad, streams, and units that run operations as data comes.
//!
//! It is the machine of *TapeFlow: Streaming Gradient Tapes in Automatic Differentiation* (M. Hakimi and
//! A. Shriraman, CGO 2024), which shows what a laid-out tape is worth where the layout decides: on
//! hardware that moves data when it is told to. A gradient stores values forward and loads them backward,
//! in the opposite order, far apart. A cache keeps the wrong ones; a scratchpad that is drained and
//! filled by streams keeps what comes next.
//!
//! ```text
//!   program, run by somebody else ──operations──▶ Simulation ──▶ Statistics
//!                                                    │
//!        16 units   2 ports ▶ cache (LRU) ▶ memory ◀ streams ▶ scratchpad, 2 halves, 8 banks
//! ```
//!
//! Whoever runs a program tells a [`Simulation`] of every operation with [`Simulation::push`] and gets a
//! token for its result. Everything else is data: the [`Machine`], the [`System`] that says where the tape
//! goes, the [`Arrays`] and the [`Tape`] that say where things lie. So one program shows all systems.
//!
//! Values are computed elsewhere and have no part in times, with one exception: entries of the tape carry
//! their bits through scratchpad, streams and memory, and a load that finds other bits than were stored
//! ends the run with an error. Tests would otherwise believe a machine that loses its data.

mod arrays;
mod cache;
mod issue;
mod machine;
mod memory;
mod op;
mod opcode;
#[cfg(test)]
mod scan;
mod scratchpad;
mod simulation;
mod statistics;
mod stream;
mod system;
mod window;

pub use arrays::{Array, ArrayId, Arrays, Layout, Region, RegionId, Tape};
pub use machine::{CacheRow, Machine, TABLE_III};
pub use op::{Entry, Home, Layer, Op, Order, Token, Work};
pub use opcode::{Latencies, Opcode};
pub use simulation::Simulation;
pub use statistics::{Accesses, Cluster, Counts, Energy, Phase, State, Statistics};
pub use system::{Route, System};

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
//!
//! Here the squares of eight numbers are differentiated: the forward phase keeps the numbers, one layer of
//! eight entries, and the reverse phase gets them back.
//!
//! ```
//! use tapeloom_backend::accelerator::*;
//! let mut arrays = Arrays::bump(Arrays::BASE, 0, 0);
//! let [x, y, x_bar, y_bar] = ["x", "y", "x'", "y'"].map(|name| arrays.push(name, 8, 8));
//! let mut tape = Tape::at(Tape::BASE);
//! let kept = tape.push(1, 8);
//! // x[i] = i
//! let entry = |i: u64| Entry::word(Home::Tape(kept, 0, i), i, (i as f64).to_bits());
//! let layer = Layer { stream: 0, entries: 8, lies: false, order: Order::Mirrored };
//!
//! let machine = Machine::cal();
//! let mut run = Simulation::new(&machine, System::TFLOW, &arrays, &tape)?;
//! let mut push = |run: &mut Simulation<'_>, work, operands: &[Token]| {
//!     run.push(&Op { site: 0, work, operands })
//! };
//! push(&mut run, Work::Layer(layer), &[])?;
//! for i in 0..8 {
//!     let value = push(&mut run, Work::Load(x, i), &[])?;
//!     push(&mut run, Work::TapeStore(entry(i)), &[value])?;
//!     let square = push(&mut run, Work::Compute(Opcode::Mul), &[value, value])?;
//!     push(&mut run, Work::Store(y, i), &[square])?;
//! }
//! push(&mut run, Work::Barrier(0), &[])?;
//! run.reverse()?;
//! push(&mut run, Work::Layer(layer), &[])?;
//! for i in (0..8).rev() {
//!     let value = push(&mut run, Work::TapeLoad(entry(i)), &[])?;
//!     let ct = push(&mut run, Work::Load(y_bar, i), &[])?;
//!     let product = push(&mut run, Work::Compute(Opcode::Mul), &[value, ct])?;
//!     push(&mut run, Work::Store(x_bar, i), &[product])?;
//! }
//! push(&mut run, Work::Barrier(0), &[])?;
//! let statistics = run.finish()?;
//! assert_eq!(statistics.to_string(), "\
//! Tflow_32k             forward    reverse
//! ticks                      42         32
//! operations                  8          8
//! loads                       8          8
//! stores                      8          8
//! misses                      2          2
//! scratchpad loads            0          8
//! scratchpad stores           8          0
//! streamed entries            8          8
//! stream requests             1          1
//! layers                      1          1
//! lines moved: 6, as the paper counts 5; left to write: 2
//! bytes: input 128, output 128, tape 64
//! energy: 97280
//! ");
//! // Two lines of x and y, two of the cotangents, one that the stream brings back.
//! assert_eq!(statistics.paper_lines(), 5);
//! // y and the cotangent of x are still to be written back.
//! assert_eq!(statistics.left, 2);
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```
//!
//! Programs are told by an observer of the interpreter of kernels: [`simulate`] runs one with real values,
//! and a [`RunConfig`] says on what and where its arrays lie. `Target::Accelerator` is that for whole functions.

mod access_order;
mod address_slice;
mod arrays;
mod cache;
mod config;
mod instruction_window;
mod issue;
mod machine;
mod memory;
mod op;
mod opcode;
#[cfg(test)]
mod reference_issue;
mod scratchpad;
mod scratchpad_slots;
mod simulation;
mod statistics;
mod stream;
mod stream_schedule;
mod system;
mod tape_trace;
mod trace;

pub use crate::loop_ir::Place;
pub use arrays::{Array, ArrayId, Arrays, RegionId, Tape, TapeForm};
pub use config::{AddressMap, RunConfig};
pub use machine::{CacheRow, Machine, TABLE_III};
pub use op::{Entry, Home, Layer, Op, Order, Token, Work};
pub use opcode::{Latencies, Opcode};
pub use scratchpad::Brought;
pub use scratchpad_slots::Slot;
pub use simulation::Simulation;
pub use statistics::{Accesses, Cluster, Counts, Energy, State, Statistics};
pub use system::{Route, System};
pub use trace::simulate;
pub(crate) use trace::simulate_within;

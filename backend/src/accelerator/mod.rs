//! A simulated accelerator: cache, scratchpad, stream engines, and function units that run operations in dataflow
//! order.
//!
//! The machine is the one of the paper *TapeFlow: Streaming Gradient Tapes in Automatic Differentiation* (M. Hakimi and
//! A. Shriraman, CGO 2024). It shows the value of a tape layout on hardware that moves data explicitly. A gradient
//! stores values in the forward phase and loads them in the reverse phase, in the opposite order and much later. At
//! that time a cache no longer holds these values, while a scratchpad that stream engines fill and drain holds the
//! values that are needed next.
//!
//! ```text
//!   program, run by the interpreter ──operations──▶ Simulation ──▶ Statistics
//!                                                    │
//!        16 units   2 ports ▶ cache (LRU) ▶ memory ◀ streams ▶ scratchpad, 2 halves, 8 banks
//! ```
//!
//! The code that runs a program passes every operation to a [`Simulation`] with [`Simulation::push`], and gets a
//! token for the operation's result. Everything else is data: the [`Machine`], the [`System`] that states where the
//! tape is stored, and the [`Arrays`] and the [`Tape`] with all addresses. So the same program runs on all systems.
//!
//! Values are computed by the interpreter and have no influence on times. The machine does not hold them, with one
//! exception: entries of the tape carry their bits through scratchpad, streams and memory. A load that finds other
//! bits than were stored ends the run with an error. Otherwise, tests would not notice a machine that loses data.
//!
//! The example differentiates the squares of eight numbers. The forward phase stores the numbers as one layer of
//! eight entries, and the reverse phase loads them.
//!
//! ```
//! use tapeloom_backend::accelerator::*;
//! let mut arrays = Arrays::bump(Arrays::BASE, 0, 0);
//! let [x, y, x_bar, y_bar] = ["x", "y", "x'", "y'"].map(|name| arrays.push(name, 8, 8));
//! let mut tape = Tape::at(Tape::BASE);
//! let kept = tape.push(1, 8);
//! // x[i] = i
//! let entry = |i: u64| Entry::word(EntryIdentity::Tape(kept, 0, i), i, (i as f64).to_bits());
//! let layer = Layer { stream: 0, entries: 8, in_array: false, order: Order::Mirrored };
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
//! lines moved: 6, by the paper's count 5; left to write: 2
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
//! [`simulate`] runs a program with real values in the interpreter of the loop IR, and an observer of the interpreter
//! passes the operations to the simulation. A [`RunConfig`] states the machine and the addresses.
//! `Target::Accelerator` does the same for whole functions.

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
pub use op::{Entry, EntryIdentity, Layer, Op, Order, Token, Work};
pub use opcode::{Latencies, Opcode};
pub use scratchpad::InputTile;
pub use scratchpad_slots::Slot;
pub use simulation::Simulation;
pub use statistics::{Accesses, Cluster, Counts, Energy, State, Statistics};
pub use system::{Route, System};
pub use trace::simulate;
pub(crate) use trace::simulate_within;

//! Reported memory, compared with allocations: this binary's allocator counts.

mod record_memory;
mod routines;
mod tape_plan;

use tapeloom_tests::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

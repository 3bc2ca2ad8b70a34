//! Memory that the library reports, compared with the allocations that this binary's counting allocator sees.

mod calls;
mod record_memory;
mod routines;
mod tape_plan;
mod threads;

use tapeloom_tests::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

//! What is said of memory, against what is allocated: its allocator counts.

mod record_memory;
mod routines;
mod tape_plan;

use tapeloom_tests::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

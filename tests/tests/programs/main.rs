//! Programs written by hand, compared with their specified behaviour; pages of the book; and rules about the source.

mod associative_scan;
mod book;
mod budgets;
mod checkpoint;
mod closure_cost;
mod compile_fail;
mod custom_rules;
mod depth;
mod determinants;
mod differential_equations;
mod distributions;
mod effects;
mod files;
mod from_scratch;
mod host_calls;

mod layering;
mod limits;
mod linear_algebra;
mod loop_invariants;
mod many_sums;
mod networks;
mod outline;
mod pass_gains;
mod pullbacks;
mod randomness;
mod record;
mod record_errors;
mod register_pressure;
mod regressions;
mod rendered_errors;
mod searching;
mod slices;
mod sorting;
mod state_errors;
mod tidy;

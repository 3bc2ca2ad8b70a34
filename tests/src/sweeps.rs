//! Sweeps: the table of all tests over random cases or over a large grid of cases, with their numbers of cases.
//!
//! Each sweep is one row. `cargo test` runs the number of cases in the column `gate`, from a committed seed, so that a
//! run depends on the commit and never on the clock. `SWEEP=nightly cargo test --workspace` runs the nightly number of
//! cases from a fresh seed; it prints the first seed, and `SWEEP_SEED=s` starts at seed s. A failure names the seed of
//! its case; with that seed as `SWEEP_SEED`, the case is tried first.
//!
//! Grids have no seed and are run whole in both modes; their row states the minimum number of cases, so that a grid
//! that shrinks is noticed. `tests/measure/sweeps.py` measures the seconds of the gate, on one core with the
//! development profile, and writes them into the rows; nightly seconds scale with the number of cases.
//!
//! Tests of lower crates include this file as a module too, because they cannot depend on this crate. A rule of
//! `tests/tests/programs/tidy.rs` refuses a row that no test uses, and a loop over seeds without a row.

use std::io::Write;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The first seed of random cases in `cargo test`.
const SEED: u64 = 2000;

/// A row of the table of sweeps: the path of the test, its numbers of cases in `cargo test` (`gate`) and in the nightly
/// run, and the seconds that the cases in `cargo test` take on one core.
struct Row {
    test: &'static str,
    gate: u64,
    seconds: f64,
    nightly: u64,
}

macro_rules! sweeps {
    ($($name:ident = $test:literal, gate $gate:literal in $seconds:literal s, nightly $nightly:literal;)*) => {
        /// A test over many cases, random or from a grid, listed in the table below.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Sweep {
            $(#[doc = $test] $name,)*
        }

        impl Sweep {
            /// All sweeps.
            pub const ALL: &[Sweep] = &[$(Sweep::$name,)*];

            fn row(self) -> Row {
                match self {
                    $(Sweep::$name => Row {
                        test: $test, gate: $gate, seconds: $seconds, nightly: $nightly,
                    },)*
                }
            }
        }
    };
}

sweeps! {
    // Random cases: loop nests for vector code of 256 and 512 bits.
    WideNests = "codegen::simd::tests::random_nests", gate 345 in 2.0 s, nightly 40000;
    GuardedNests = "codegen::simd::guard_pages::nothing_outside_of_arrays_is_touched", gate 300 in 1.0 s, nightly 10000;
    // Random cases: programs from recipes (`random::fuzz`).
    Xla = "laws::xla::random_programs_agree", gate 150 in 0.1 s, nightly 3000;
    Objects = "programs::objects::random_programs_have_the_same_bits", gate 14 in 0.9 s, nightly 1000;
    ObjectRows = "programs::object_rows::random_programs_have_the_same_bits", gate 4 in 0.2 s, nightly 1000;
    RustSource = "programs::rust_source::printed_programs_have_the_results_of_calls", gate 2 in 8.3 s, nightly 150;
    StableHlo = "laws::stablehlo::random_programs_are_written", gate 100 in 0.2 s, nightly 6000;
    Text = "random::fuzz::text_says_everything", gate 200 in 0.1 s, nightly 6000;
    Values = "random::fuzz::passes_kernels_and_machine_code_keep_the_values", gate 120 in 1.9 s, nightly 6000;
    Marks = "random::fuzz::no_pass_looks_through_a_mark", gate 300 in 2.5 s, nightly 6000;
    Derivatives = "random::fuzz::forward_and_reverse_are_transposes", gate 40 in 2.3 s, nightly 3000;
    Batches = "random::fuzz::batch_is_map", gate 60 in 0.9 s, nightly 3000;
    WordsOfTwo = "random::fuzz::words_of_two_letters", gate 30 in 1.8 s, nightly 2000;
    KeptOrNot = "random::fuzz::policies_change_no_bit", gate 30 in 1.5 s, nightly 2000;
    Models = "random::machine_models::programs_mean_the_same_for_every_model", gate 30 in 2.3 s, nightly 1000;
    SmallCaches = "random::machine_models::gradients_are_right_where_nothing_stays_in_the_cache", gate 30 in 2.2 s, nightly 3000;
    Donated = "random::fuzz::donated_arguments_change_no_bit", gate 40 in 1.2 s, nightly 500;
    Recordings = "random::fuzz::recordings_are_their_programs", gate 100 in 0.4 s, nightly 3000;
    Callers = "random::fuzz::many_callers_get_the_results_of_one_thread", gate 16 in 1.2 s, nightly 100;
    Met = "random::fuzz::the_generator_draws_every_primitive", gate 1000 in 0.2 s, nightly 1000;
    // Random cases: programs with loops (`random::random_loops`).
    Policies = "random::random_loops::values_gradients_and_effects_are_those_of_every_policy", gate 12 in 3.0 s, nightly 300;
    Budgets = "random::random_loops::budgets_are_obeyed_or_refused_with_the_least_number", gate 4 in 3.7 s, nightly 300;
    Factors = "random::random_loops::budgets_of_programs_that_factor_matrices_are_obeyed_or_refused", gate 2 in 3.4 s, nightly 100;
    Orders = "random::random_loops::derivatives_of_gradients_are_those_of_every_policy", gate 8 in 2.3 s, nightly 200;
    Rounding = "random::random_loops::derivatives_under_rounding_are_near", gate 8 in 1.9 s, nightly 200;
    Thresholds = "random::random_loops::rounded_residuals_keep_all_decisions", gate 16 in 3.3 s, nightly 300;
    Figures = "random::random_loops::the_tape_table_is_complete", gate 12 in 1.1 s, nightly 300;
    Machines = "random::random_loops::simulated_machines_compute_the_same_bits", gate 6 in 1.8 s, nightly 150;
    LoopsOnXla = "random::random_loops::programs_of_xla_have_the_same_effects", gate 12 in 0.1 s, nightly 300;
    Pieces = "random::random_loops::threads_change_no_bit", gate 4 in 5.4 s, nightly 150;
    DonatedLoops = "random::random_loops::donated_arguments_change_no_bit", gate 4 in 1.3 s, nightly 40;
    Recurrences = "random::random_batches::pieces_have_the_results_of_whole_loops", gate 2 in 1.8 s, nightly 400;
    Chunks = "random::random_chunks::chunks_have_the_results_of_whole_batches", gate 2 in 2.5 s, nightly 100;
    Growth = "random::random_loops::workspace_does_not_grow_with_the_trip_count", gate 8 in 1.7 s, nightly 300;
    // Random cases: programs that write to arrays, and products.
    WritesMean = "random::state::random_programs_with_state_equal_plain_rust", gate 40 in 2.0 s, nightly 1000;
    WritesFirst = "random::state::random_programs_have_the_derivatives_of_their_pure_forms", gate 3 in 4.2 s, nightly 150;
    WritesHigher = "random::state::random_programs_have_higher_derivatives", gate 1 in 4.1 s, nightly 50;
    PaddedWindows = "random::padded_windows::transposes_of_products_of_windows_are_transposes", gate 60 in 1.4 s, nightly 3000;
    Narrowed = "random::narrowed_loops::narrowed_loops_compute_the_same", gate 200 in 2.3 s, nightly 10_000;
    Reads = "random::reads::parts_are_those_of_the_whole", gate 40 in 1.4 s, nightly 3000;
    Products = "random::small_gemm::random_compositions", gate 20 in 0.6 s, nightly 1000;
    Nests = "study::accelerator::programs::random_nests_read_streamed_words", gate 200 in 0.6 s, nightly 10_000;
    // Random cases: programs on which the properties of primitives are checked, and damaged program text.
    Laws = "laws::random::laws_hold_for_random_programs", gate 150 in 1.7 s, nightly 4000;
    Damage = "laws::mutations::broken_text_does_not_panic", gate 6 in 1.2 s, nightly 200;
    // Random cases: damaged files of tensors.
    DamagedFiles = "programs::files::damage::damaged_files_are_errors_or_arrays", gate 3000 in 0.1 s, nightly 300_000;
    // Random cases: the moments at which a training run is killed.
    Kills = "programs::files::killed::a_killed_run_ends_with_the_same_bits", gate 3 in 1.0 s, nightly 50;
    // Random cases of tests beside the code.
    Simplified = "it::simplify::random_programs_keep_their_meaning", gate 60 in 0.2 s, nightly 3000;
    Relaxed = "it::simplify::relaxed_programs_agree_to_rounding", gate 60 in 0.1 s, nightly 3000;
    Regions = "it::simplify::small_regions_are_put_together_again", gate 10 in 0.1 s, nightly 1000;
    Cuts = "it::cuts::every_cut_of_small_graphs_costs_as_much_or_more", gate 500 in 0.1 s, nightly 50_000;
    Kernels = "codegen::clif::random_tests::random_recursive_kernels", gate 160 in 10.8 s, nightly 5000;
    Passes = "codegen::clif::random_tests::passes_require_no_more_than_they_say", gate 60 in 1.1 s, nightly 1000;
    Timers = "profile::tests::timers_change_no_bit", gate 100 in 0.9 s, nightly 3000;
    KernelTexts = "loop_ir::text_tests::no_text_is_too_wrong", gate 2000 in 1.1 s, nightly 100_000;
    Elementwise = "codegen::clif::tests::random_kernels", gate 600 in 1.8 s, nightly 10_000;
    Calls = "loop_ir::tests::overlapping_results_of_calls_are_refused", gate 300 in 0.1 s, nightly 10_000;
    Jam = "passes::unroll_and_jam::tests::no_bit_changes", gate 600 in 0.6 s, nightly 20_000;
    Updates = "lower::in_place_tests::random_updates", gate 60 in 0.5 s, nightly 3000;
    Scheduled = "lower::tests::lowering_keeps_the_meaning_of_random_programs", gate 150 in 0.5 s, nightly 5000;
    Quotients = "ir::analysis::affine::quotients_and_remainders_are_those_of_numbers", gate 4000 in 0.1 s, nightly 200_000;
    Forms = "ir::analysis::affine::forms_are_the_numbers_that_they_say", gate 4000 in 0.1 s, nightly 200_000;
    Scans = "accelerator::reference_issue::queues_issue_like_a_scan_of_the_window", gate 60 in 0.2 s, nightly 3000;
    Thin = "runtime::small_gemm::tests::versions_agree_with_the_definition", gate 3000 in 2.7 s, nightly 100_000;
    // A list of lengths. `cargo test` runs only the beginning of the list, because the long transforms at its end take
    // three minutes.
    TransformLengths = "routines::fourier_accuracy::transforms_are_as_accurate_as_their_order", gate 76 in 0.5 s, nightly 93;
    // Grids of cases, which are run whole both by `cargo test` and in the nightly run.
    Samples = "laws::for_all", gate 1984 in 36.5 s, nightly 1984;
    Words = "laws::compose", gate 20 in 13.0 s, nightly 20;
    Rewrites = "laws::rewrites::both_sides_are_equal", gate 151 in 12.1 s, nightly 151;
    Edges = "laws::edges::edges_are_those_recorded_or_chosen", gate 153 in 4.3 s, nightly 153;
    Vocabulary = "laws::vocabulary::values", gate 234 in 33.2 s, nightly 234;
    WrittenOut = "random::unrolled", gate 37 in 27.3 s, nightly 37;
    Written = "random::state::mutated_programs_are_their_pure_forms", gate 11 in 1.0 s, nightly 11;
    Schedules = "random::schedules", gate 4 in 11.3 s, nightly 8;
    Solutions = "random::implicit", gate 7 in 12.0 s, nightly 7;
    Depth = "programs::depth", gate 13 in 13.0 s, nightly 13;
    TapeOfPrograms = "programs::budgets::budgets_are_obeyed_or_refused_with_the_least_number", gate 8 in 8.1 s, nightly 8;
    TapePlan = "memory::tape_plan", gate 10 in 20.7 s, nightly 10;
    Suite = "study::suite", gate 22 in 16.3 s, nightly 22;
    Studies = "study::tapeflow::residuals_of_kernels_equal_the_study", gate 9 in 5.0 s, nightly 9;
    Unrolled = "study::accelerator::programs::unrolled_loops_compute_the_same_bits_with_no_more_accesses", gate 9 in 4.3 s, nightly 9;
}

/// The mode of a test run: whether it is nightly, and the first seed of random cases.
struct Mode {
    nightly: bool,
    seed: u64,
}

impl Mode {
    /// Returns the mode that the environment variables `SWEEP` and `SWEEP_SEED` request, the same for all tests of a
    /// process.
    #[allow(clippy::panic, reason = "an unknown word does not mean `gate`")]
    fn of_the_run() -> &'static Mode {
        static MODE: OnceLock<Mode> = OnceLock::new();
        MODE.get_or_init(|| {
            let nightly = match std::env::var("SWEEP").ok().as_deref() {
                None | Some("gate") => false,
                Some("nightly") => true,
                Some(other) => panic!("SWEEP is `{other}`, and may be `gate` or `nightly`"),
            };
            let asked = std::env::var("SWEEP_SEED").ok();
            let seed = match asked.map(|s| s.parse()) {
                Some(Ok(seed)) => seed,
                Some(Err(e)) => panic!("SWEEP_SEED is no seed: {e}"),
                None if nightly => {
                    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                    // The nightly seed has at most six digits, so that people can copy it easily.
                    since.map_or(SEED, |since| since.as_nanos() as u64 / 1000 % 1_000_000)
                }
                None => SEED,
            };
            if nightly {
                // `eprintln` is no alternative: the test harness captures its output, and drops the output of tests
                // that pass.
                let said = writeln!(std::io::stderr(), "SWEEP=nightly SWEEP_SEED={seed}");
                drop(said);
            }
            Mode { nightly, seed }
        })
    }
}

impl Sweep {
    /// Returns the number of cases to draw in this test run, which is an ordinary or a nightly one.
    pub fn cases(self) -> u64 {
        let row = self.row();
        if Mode::of_the_run().nightly { row.nightly } else { row.gate }
    }

    /// Returns the first seed of random cases in this test run.
    pub fn seed(self) -> u64 {
        Mode::of_the_run().seed
    }

    /// Returns the seed of each case to draw, beginning with the first seed.
    pub fn seeds(self) -> impl Iterator<Item = u64> {
        (0..self.cases()).map(move |i| self.seed().wrapping_add(i))
    }

    /// Collects the cases of a grid, and checks their number.
    ///
    /// # Panics
    /// If there are fewer cases than the table says.
    #[track_caller]
    pub fn all<T>(self, cases: impl IntoIterator<Item = T>) -> Vec<T> {
        let cases: Vec<T> = cases.into_iter().collect();
        let (test, least) = (self.row().test, self.cases());
        assert!(cases.len() as u64 >= least, "{test}: {} cases of {least}", cases.len());
        cases
    }

    /// Returns the path of the test that runs this sweep's cases, or of the module if several tests do.
    pub fn test(self) -> &'static str {
        self.row().test
    }

    /// Returns the time that the test takes on one core, in seconds: with the number of cases that `cargo test` runs,
    /// and with the nightly number.
    pub fn seconds(self) -> [f64; 2] {
        let row = self.row();
        [row.seconds, row.seconds * row.nightly as f64 / row.gate as f64]
    }
}

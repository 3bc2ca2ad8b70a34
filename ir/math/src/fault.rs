//! Planted faults: wrong behaviour that can be switched on, to measure which faults the tests detect.
//!
//! The code calls `planted(Fault::X)` at the site of each fault and behaves wrongly if the call returns `true`.
//! In an ordinary build `planted` is the constant `false`, and the site compiles to nothing. A build with
//! `--cfg tapeloom_faults` reads the environment variable `TAPELOOM_FAULT` once; it names the fault that is
//! active for the life of the process. `cargo run --release -p tapeloom-tests --bin faults` makes such a build,
//! runs the tests against each fault and reports which test detects it. It first runs the tests that the table
//! below names: a module of tests by its path, `binary::module`.
//!
//! Model: mutation testing (DeMillo, Lipton, Sayward, 1978), with mutants chosen by hand after earlier bugs, so
//! that the measurement takes minutes.

macro_rules! faults {
    ($($variant:ident = $name:literal, $about:literal, $caught_by:literal;)*) => {
        /// A fault that can be planted into the code, to test the tests.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Fault {
            $(#[doc = $about] $variant,)*
        }

        impl Fault {
            /// All planted faults, in the order in which they are declared.
            pub const ALL: &[Fault] = &[$(Fault::$variant,)*];

            /// Returns the fault's name in the environment variable `TAPELOOM_FAULT`.
            pub fn name(self) -> &'static str {
                match self { $(Fault::$variant => $name,)* }
            }

            /// Returns a description of the wrong behaviour that the fault causes.
            pub fn about(self) -> &'static str {
                match self { $(Fault::$variant => $about,)* }
            }

            /// Returns the test, or the module of tests, that is known to detect the fault; it is run first.
            pub fn caught_by(self) -> &'static str {
                match self { $(Fault::$variant => $caught_by,)* }
            }
        }
    };
}

faults! {
    UpdateTakesOver = "update-takes-over", "an update takes its base over while a later update still reads it", "random::fuzz";
    FoldI32 = "fold-i32", "constant folding of i32 gets negative results wrong", "random::fuzz";
    SplitPoint = "split-point", "loops are split one too early", "random::fuzz";
    MinIdentity = "min-identity", "lanes of i32 start a minimum at 0", "laws::native";
    FoldedNan = "folded-nan", "the largest of many numbers forgets one that is nan", "laws::native";
    MemoryOverlap = "memory-overlap", "a buffer's memory is given away in the step that last reads it", "random::fuzz";
    LaneTail = "lane-tail", "the last iteration after full lanes of f64 is left out", "random::fuzz";
    ClampF32 = "clamp-f32", "lanes of f32 forget the upper bound of a clamp", "laws::edges";
    WideZero = "wide-zero", "wide code takes the sign of the first operand for an extreme", "laws::native";
    WideMerge = "wide-merge", "the last vector of wide code folds elements that are not active", "random::fuzz";
    WideSpill = "wide-spill", "values of wide code that have no register are not stored in the frame", "laws::native";
    WideConstant = "wide-constant", "constants of wide code are those before them", "random::fuzz";
    Partial = "partial", "the partial derivative of atan2 by its second operand has the wrong sign", "laws::conformance";
    RewriteRow = "rewrite-row", "the right-hand side of `(sub x (neg y))` is `(sub x y)`", "laws::rewrites";
    CotangentSum = "cotangent-sum", "a second cotangent replaces the first instead of being added", "random::fuzz";
    TwoTotals = "two-totals", "the cotangents of a value that a loop takes twice are added in two sums", "random::random_loops";
    CarryHoisted = "carry-hoisted", "equations of a loop that read a carry move in front of the loop", "random::random_loops";
    SliceAcrossSum = "slice-across-sum", "a slice in front of a reduction takes its part of the axis that is reduced, too", "programs::slices";
    ViewAxes = "view-axes", "compiled broadcasts and permutations take the axes of the operand in order", "random::fuzz";
    WindowBack = "window-back", "the transpose of a window reads its places in the same direction", "laws::convolutions";
    RemainderLeftOut = "remainder-left-out", "a sum over windows in phases leaves out the remainders with fewer terms", "laws::window_sums";
    PaddedTap = "padded-tap", "a kernel is padded to as many places for every remainder", "laws::window_sums";
    AllTaps = "all-taps", "sums over windows go through every place, zeros between elements as well", "laws::cost";
    ConvertSaturation = "convert-saturation", "floats beyond the largest i32 wrap around", "laws::filetests";
    TransposeRule = "transpose-rule", "the transpose of `gather` sets instead of adding", "random::fuzz";
    BatchRule = "batch-rule", "a batched `rev` reverses the axes before", "random::fuzz";
    PhasesMerged = "phases-merged", "functions that differ in phase alone are one", "laws::filetests";
    CseKey = "cse-key", "equations that differ in the order of their operands count as equal", "random::fuzz";
    Extraction = "extraction", "an extracted term with two operands has them swapped", "random::fuzz";
    GatherBound = "gather-bound", "indices beyond the end are clipped to the last but one element", "random::fuzz";
    LaneTailNarrow = "lane-tail-narrow", "the last iteration after full lanes of f32 is left out", "random::fuzz";
    PruneMask = "prune-mask", "the mask of a pruned function names the wrong parameters", "random::fuzz";
    Mark = "mark", "local rules take the operand of a mark for the mark", "random::fuzz::no_pass_looks_through_a_mark";
    ThinRest = "thin-rest", "products in wide vectors leave out the columns beyond the last whole one", "random::small_gemm";
    LaneOrder = "lane-order", "machine code combines partial values in another order than the kernel says", "laws::native";
    Frame = "frame", "a called kernel gets half of the workspace that it needs", "random::fuzz";
    VersionDropped = "version-dropped", "a buffer that an update takes over has one version for both values", "laws::filetests";
    TouchedZeroed = "touched-zeroed", "the zeros of a large result are not stored although an earlier statement has written to it", "laws::filetests";
    ExchangesMeet = "exchanges-meet", "the two buffers that a loop exchanges need memory where its body names them only", "random::fuzz";
    RoutineScratch = "routine-scratch", "a library routine gets one byte of scratch memory", "programs::linear_algebra";
    BackEdge = "back-edge", "a buffer whose elements an iteration reads from the one before has no memory in between", "laws::filetests";
    ScopeInParallel = "scope-in-parallel", "the body of a loop with independent iterations is the scope of buffers", "laws::filetests";
    BranchFills = "branch-fills", "a buffer that one branch fills is taken to be filled after the branch", "laws::filetests";
    SharedScratch = "shared-scratch", "threads that run pieces of a concurrent loop share the private memory of one of them", "laws::native";
    LeftOver = "left-over", "the iterations that are left over behind the pieces of a loop do not run", "laws::filetests";
    ClaimedApart = "claimed-apart", "pieces are taken to access different memory without a proof", "laws::filetests";
    Segment = "segment", "a carry that is kept is taken for that of the iteration after", "random::fuzz";
    WrongCut = "wrong-cut", "what is computed again reads what the value that is kept follows from, in its place", "random::random_loops";
    EffectTwice = "effect-twice", "what a user can see is computed again, too", "programs::budgets";
    Uncounted = "uncounted", "budgets do not count what inner loops record on the way back", "random::random_loops";
    Inside = "inside", "the table of the tape leaves out what loops in an iteration keep while it is undone", "memory::tape_plan";
    BitShort = "bit-short", "integers that are kept packed have a bit less than the largest needs", "random::random_loops";
    BitOrder = "bit-order", "the elements of a packed word are unpacked in reverse order", "random::random_loops";
    FactorsUncounted = "factors-uncounted", "a budget does not count the factors of matrices that it keeps", "programs::budgets";
    LateBits = "late-bits", "bits of iterations that fill no words wait as bytes until all iterations are done", "programs::budgets";
    AtOnce = "at-once", "the way back computes again all at once what it reads one after the other", "programs::budgets";
    OneConstant = "one-constant", "what loops read of a constant in both passes is one array", "programs::budgets";
    HeldWhole = "held-whole", "a slice that the tape keeps holds the memory of its whole array", "programs::budgets";
    Element = "element", "the elements of a loop that counts down are read counting up", "random::fuzz";
    GivenUp = "given-up", "an argument is given up though it is still read", "random::fuzz";
    BranchTaken = "branch-taken", "a truth value takes the other branch", "random::fuzz";
    Registers = "registers", "what a loop stores is taken for what was known before it", "random::fuzz";
    Effect = "effect", "an effect beside which nobody reads anything is dropped", "programs::budgets";
    RecordedUse = "recorded-use", "a recorded rule that gives its operand shares the cotangent of all other uses of it", "programs::record";
    RecordedTotal = "recorded-total", "the way back through a recording forgets what was added to an operand before", "random::unrolled";
    CallOrder = "call-order", "inlining hands the first two arguments over in the wrong order", "random::fuzz";
    TileEarly = "tile-early", "the simulated accelerator reads a half of its scratchpad before its tile has come", "study::accelerator";
    TileOverflow = "tile-overflow", "a tile of the simulated accelerator takes a layer that it has no room for", "study::accelerator";
    TileAgain = "tile-again", "words that a tile of an argument has already are looked for where it would have them once more", "study::accelerator";
    TileOrder = "tile-order", "layers that are read as they were stored come the last one first", "study::accelerator";
    BankTwice = "bank-twice", "a bank of the simulated scratchpad takes two accesses in a tick", "study::accelerator";
    Replacement = "replacement", "the simulated cache replaces its youngest line", "study::accelerator";
    UnrolledRest = "unrolled-rest", "a loop that goes down is unrolled from its first iteration, and the remainder, too", "study::accelerator";
    ReuseAlias = "reuse-alias", "a store at another address leaves what is known of an element", "study::accelerator";
    ApartLast = "apart-last", "of an array that is taken apart the way back begins with the last element but one", "study::accelerator";
    WindowMeets = "window-meets", "a part of an array is worked in where it lies while others read and write it", "random::fuzz";
    RepeatedMembers = "repeated-members", "of a batch in chunks, the first members are dropped in place of the repeated last one", "random::random_chunks";
    OwnOfTheIteration = "own-of-the-iteration", "a variable is taken for that of an iteration which may find what another one left", "random::fuzz";
    AheadOfWrites = "ahead-of-writes", "what a loop computes of an array that it writes is computed ahead of it", "study::suite";
    EmptiedElsewhere = "emptied-elsewhere", "a loop that empties an array is taken to read each place before it is emptied", "laws::filetests";
    RollingLast = "rolling-last", "what iterations hand on in variables is not stored behind the last of them", "laws::filetests";
    LoadEarly = "load-early", "a load of the simulated accelerator does not wait for the store before it", "study::accelerator";
    ValueEarly = "value-early", "what a kernel computes is there at once for the simulated accelerator", "study::accelerator";
    FifoMirrored = "fifo-mirrored", "what the way back reads in the order of its stores is streamed last in, first out", "study::accelerator";
    RecordsMixed = "records-mixed", "arrays of which each is read in order are streamed as records, which are not", "study::accelerator";
    EightInside = "eight-inside", "a function of eight arguments takes its straight part for all of them", "laws::native";
    LatePlaces = "late-places", "pieces of straight code hold reads of places of arrays that others read before", "programs::budgets";
    LastButOne = "last-but-one", "an array of rows is taken for its last one where another one is read", "random::narrowed_loops";
    JammedMeets = "jammed-meets", "iterations that write what others read go through their loops together", "laws::filetests";
    InterchangedStores = "interchanged-stores", "elements that differ from term to term are taken for one, which a register holds", "laws::filetests";
    PassesMixed = "passes-mixed", "what waits for the end of the forward pass shares loops with it", "programs::budgets";
    FactorHalf = "factor-half", "the derivative of a Cholesky factor takes the diagonal whole", "laws::conformance";
    SolveSides = "solve-sides", "the transpose of a triangular solve reads the triangle from the same side", "random::fuzz";
    UnrolledTriangle = "unrolled-triangle", "small systems with a transposed triangle are unrolled as if it were not", "random::fuzz";
    HalfSpectrum = "half-spectrum", "the last frequency of an even length counts twice in half a spectrum", "laws::conformance";
    RoutineAgain = "routine-again", "budgets compute decompositions again as if they were elementwise", "memory::routines";
    AgainFromWritten = "again-from-written", "a value is computed again from memory that an update has taken over", "random::machine_models";
    TakenEarly = "taken-early", "a result lies over an array of which the iteration still loads an element", "random::machine_models";
    DonatedEarly = "donated-early", "a result is written to the memory of a donated argument before the last load of the argument", "memory::calls";
    HeldTaken = "held-taken", "a result takes over the memory of a donated argument of which another handle is alive", "memory::calls";
    CopyDropped = "copy-dropped", "a donated argument with another handle is not copied to the memory of its result", "memory::calls";
    ResultTaken = "result-taken", "another array lies over a result that is no longer read", "random::machine_models";
    ProductDropped = "product-dropped", "of an array that a product reads or leaves, axes have no memory that loops meet at one index", "random::machine_models";
    TwoOrders = "two-orders", "a product that is read in two orders of axes is written in the first one for both", "laws::filetests";
    ArrangedAxes = "arranged-axes", "the copy of an operand is read with its axes permuted once more instead of back", "laws::products";
    CroppedSide = "cropped-side", "a convolution without the cotangent of its padding loses places at the other end", "laws::convolutions";
    ZeroOverZero = "zero-over-zero", "derivatives of eigenvectors take 0 by the difference of equal values for 0", "laws::spectra";
    GapOfRounding = "gap-of-rounding", "derivatives of eigenvectors divide by differences that are rounding errors", "laws::spectra";
    LibraryPlace = "library-place", "what goes wrong in an operation that is composed of others is said to happen in the library", "it::places";
    ZeroTangent = "zero-tangent", "a rule of the user's own is given zeros for the tangents and cotangents that are absent", "programs::custom_rules";
    FoldsShare = "folds-share", "all sums over one extent share a loop, however many accumulators it has", "programs::many_sums";
    Granule = "granule", "a layer of the simulated accelerator begins in the middle of a record", "study::accelerator";
}

/// Returns whether `fault` is active: always `false`, except in a build with `--cfg tapeloom_faults`.
#[cfg(not(tapeloom_faults))]
#[inline(always)]
pub const fn planted(_: Fault) -> bool {
    false
}

/// Returns whether `fault` is active, that is, named by `TAPELOOM_FAULT`.
#[cfg(tapeloom_faults)]
pub fn planted(fault: Fault) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("TAPELOOM_FAULT").ok());
    chosen.as_deref() == Some(fault.name())
}

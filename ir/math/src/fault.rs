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
    UpdateTakesOver = "update-takes-over", "an update overwrites its base in place while a later update still reads the base", "random::fuzz";
    FoldI32 = "fold-i32", "constant folding of i32 computes wrong negative results", "random::fuzz";
    SplitPoint = "split-point", "index-set splitting cuts loops one iteration too early", "random::fuzz";
    MinIdentity = "min-identity", "the lanes of a minimum of i32 start at 0", "laws::native";
    FoldedNan = "folded-nan", "folds to a maximum or minimum ignore nan", "laws::native";
    MemoryOverlap = "memory-overlap", "a buffer's lifetime begins one step late, so that it overlaps buffers which that step still reads", "random::fuzz";
    LaneTail = "lane-tail", "the remainder of a loop in lanes of f64 lacks its last iteration", "random::fuzz";
    ClampF32 = "clamp-f32", "a clamp in lanes of f32 ignores its upper bound", "laws::edges";
    WideZero = "wide-zero", "vector code gives a maximum or minimum the sign of its first operand", "laws::native";
    WideMerge = "wide-merge", "the last vector of a fold includes inactive elements", "random::fuzz";
    WideSpill = "wide-spill", "values of vector code that have no register are not spilled to the frame", "laws::native";
    WideConstant = "wide-constant", "vector code loads the constant before the one that it needs", "random::fuzz";
    Partial = "partial", "the partial derivative of atan2 with respect to its second operand has the wrong sign", "laws::conformance";
    RewriteRow = "rewrite-row", "the right-hand side of `(sub x (neg y))` is `(sub x y)`", "laws::rewrites";
    CotangentSum = "cotangent-sum", "a second cotangent replaces the first instead of being added", "random::fuzz";
    TwoTotals = "two-totals", "the cotangents of a value that is two operands of one loop are accumulated in two sums", "random::random_loops";
    CarryHoisted = "carry-hoisted", "equations that read a carry are hoisted out of the loop", "random::random_loops";
    SliceAcrossSum = "slice-across-sum", "a slice that moves in front of a reduction also slices the reduced axis", "programs::slices";
    ViewAxes = "view-axes", "compiled broadcasts and permutations map the operand's axes in ascending order", "random::fuzz";
    WindowBack = "window-back", "the transpose of a window reads elements in the direction of the window, not in the opposite direction", "laws::convolutions";
    RemainderLeftOut = "remainder-left-out", "a polyphase sum over windows leaves out the remainders that have fewer terms", "laws::window_sums";
    PaddedTap = "padded-tap", "a polyphase sum over windows pads all remainders to the same number of terms", "laws::window_sums";
    AllTaps = "all-taps", "sums over windows include the zeros between elements", "laws::cost";
    ConvertSaturation = "convert-saturation", "conversions to i32 wrap floats that are out of range", "laws::filetests";
    TransposeRule = "transpose-rule", "the transpose of `gather` overwrites elements instead of adding to them", "random::fuzz";
    BatchRule = "batch-rule", "a batched `rev` reverses, for each axis, the axis before it", "random::fuzz";
    PhasesMerged = "phases-merged", "functions that differ only in the phases of their equations are merged", "laws::filetests";
    CseKey = "cse-key", "equations that differ in the order of their operands count as equal", "random::fuzz";
    Extraction = "extraction", "extraction from the e-graph swaps the two operands of a term", "random::fuzz";
    GatherBound = "gather-bound", "indices beyond the end are clipped to the last but one element", "random::fuzz";
    LaneTailNarrow = "lane-tail-narrow", "the remainder of a loop in lanes of f32 lacks its last iteration", "random::fuzz";
    PruneMask = "prune-mask", "the mask of a pruned function names the wrong parameters", "random::fuzz";
    Mark = "mark", "local rules replace a mark by its operand", "random::fuzz::no_pass_looks_through_a_mark";
    ThinRest = "thin-rest", "small matrix products leave out the columns that fill no whole vector", "random::small_gemm";
    LaneOrder = "lane-order", "machine code combines the partial values of lanes in another order than the loop program defines", "laws::native";
    Frame = "frame", "a call reserves half of the workspace that its callee needs", "random::fuzz";
    VersionDropped = "version-dropped", "a buffer that is updated in place keeps its version", "laws::filetests";
    TouchedZeroed = "touched-zeroed", "the initial zeros of a large result are elided although an earlier statement has written to the result", "laws::filetests";
    ExchangesMeet = "exchanges-meet", "the two buffers that a loop exchanges count as live only where its body names them", "random::fuzz";
    RoutineScratch = "routine-scratch", "a library routine gets one byte of scratch memory", "programs::linear_algebra";
    BackEdge = "back-edge", "a buffer with elements that an iteration reads from the one before counts as dead between the iterations", "laws::filetests";
    ScopeInParallel = "scope-in-parallel", "the lifetimes of buffers end with an iteration, even if iterations may run at the same time", "laws::filetests";
    BranchFills = "branch-fills", "a buffer that only one branch fills counts as filled after both", "laws::filetests";
    SharedScratch = "shared-scratch", "threads that run pieces of a concurrent loop share the private memory of one thread", "laws::native";
    LeftOver = "left-over", "the remaining iterations after the pieces of a loop do not run", "laws::filetests";
    ClaimedApart = "claimed-apart", "pieces run concurrently without a proof that they access different memory", "laws::filetests";
    Segment = "segment", "a saved carry counts as the carry of the next iteration", "random::fuzz";
    WrongCut = "wrong-cut", "an operand of a saved value is saved instead, and recomputation reads it as the saved value", "random::random_loops";
    EffectTwice = "effect-twice", "recomputation performs effects a second time", "programs::budgets";
    Uncounted = "uncounted", "budgets do not count the residuals that inner loops record in the reverse pass", "random::random_loops";
    Inside = "inside", "the table of the tape leaves out the residuals of inner loops that exist only during one iteration of the reverse pass", "memory::tape_plan";
    BitShort = "bit-short", "packed integers have one bit less than the largest needs", "random::random_loops";
    BitOrder = "bit-order", "the elements of a packed word are unpacked in reverse order", "random::random_loops";
    FactorsUncounted = "factors-uncounted", "a budget does not count the saved factors of matrices", "programs::budgets";
    LateBits = "late-bits", "a budget does not count the unpacked copy of a stack that is packed after its loop", "programs::budgets";
    AtOnce = "at-once", "the reverse pass recomputes all values at its start, not each one before its first reader", "programs::budgets";
    OneConstant = "one-constant", "a constant array that loops read in the forward pass stays live until recomputed loops read it", "programs::budgets";
    HeldWhole = "held-whole", "a saved slice keeps its whole array in memory", "programs::budgets";
    Element = "element", "a loop that counts down reads the elements of its arrays in ascending order", "random::fuzz";
    GivenUp = "given-up", "a donated argument is overwritten although it is still read", "random::fuzz";
    BranchTaken = "branch-taken", "a bool selects the wrong branch", "random::fuzz";
    Registers = "registers", "the values of elements that were known before a loop stay known although the loop stores to them", "random::fuzz";
    Effect = "effect", "a loop or branch with effects is dropped if its results are not read", "programs::budgets";
    RecordedUse = "recorded-use", "a recorded rule that returns its operand shares the cotangent of the operand's other uses", "programs::record";
    RecordedTotal = "recorded-total", "the reverse pass through a recording replaces an operand's earlier cotangent instead of adding to it", "random::unrolled";
    CallOrder = "call-order", "inlining swaps the first two arguments", "random::fuzz";
    TileEarly = "tile-early", "the simulated accelerator reads a half of its scratchpad before the tile has arrived", "study::accelerator";
    TileOverflow = "tile-overflow", "a tile of the simulated accelerator accepts a layer that does not fit", "study::accelerator";
    TileAgain = "tile-again", "repeated reads of a word of a streamed argument use an entry of their own, which its tile does not have", "study::accelerator";
    TileOrder = "tile-order", "layers that are read in the order of their stores arrive in reverse order", "study::accelerator";
    BankTwice = "bank-twice", "a bank of the simulated scratchpad serves two accesses in one tick", "study::accelerator";
    Replacement = "replacement", "the simulated cache evicts the most recently used line", "study::accelerator";
    UnrolledRest = "unrolled-rest", "a loop with descending addresses is unrolled from its first iteration, although the remainder runs first", "study::accelerator";
    ReuseAlias = "reuse-alias", "a store at an address that may be equal does not invalidate the known value of an element", "study::accelerator";
    ApartLast = "apart-last", "the reverse pass over an array that is split begins at the last element but one", "study::accelerator";
    WindowMeets = "window-meets", "a part of an array is updated in place although other statements access it in the array", "random::fuzz";
    RepeatedMembers = "repeated-members", "in a batched loop in chunks, the first members are dropped instead of the repetitions of the last member", "random::random_chunks";
    OwnOfTheIteration = "own-of-the-iteration", "a variable becomes local to an iteration although iterations may read a value of an earlier one", "random::fuzz";
    AheadOfWrites = "ahead-of-writes", "values computed from an array are hoisted out of a loop that writes the array", "study::suite";
    EmptiedElsewhere = "emptied-elsewhere", "a loop that resets the elements of an array is assumed to read each of them before its reset", "laws::filetests";
    RollingLast = "rolling-last", "the elements that iterations pass on in variables are not stored after the loop", "laws::filetests";
    LoadEarly = "load-early", "a load of the simulated accelerator does not wait for the last store to its word", "study::accelerator";
    ValueEarly = "value-early", "operations of the simulated accelerator do not wait for the results that they read", "study::accelerator";
    FifoMirrored = "fifo-mirrored", "residuals that the reverse pass reads in the order of their stores are streamed last in, first out", "study::accelerator";
    RecordsMixed = "records-mixed", "arrays are streamed as records although only each array, and not the records, is read in order", "study::accelerator";
    EightInside = "eight-inside", "a function of eight arguments uses its branch-free part also for arguments outside the interval", "laws::native";
    LatePlaces = "late-places", "segments of straight-line code contain late reads of arrays at dynamic indices", "programs::budgets";
    LastButOne = "last-but-one", "an array of rows is replaced by its last row although another row is read", "random::narrowed_loops";
    JammedMeets = "jammed-meets", "iterations that depend on one another are jammed", "laws::filetests";
    InterchangedStores = "interchanged-stores", "a loop interchange keeps one element in a register although each term adds to another element", "laws::filetests";
    PassesMixed = "passes-mixed", "equations that must wait for the end of the forward pass are fused with loops of that pass", "programs::budgets";
    FactorHalf = "factor-half", "the derivative of a Cholesky factor does not halve the diagonal", "laws::conformance";
    SolveSides = "solve-sides", "the transpose of a triangular solve does not transpose the triangle", "random::fuzz";
    UnrolledTriangle = "unrolled-triangle", "small systems with a transposed triangle are unrolled without the transposition", "random::fuzz";
    HalfSpectrum = "half-spectrum", "in half a spectrum of an even length, the last frequency counts twice", "laws::conformance";
    RoutineAgain = "routine-again", "budgets recompute decompositions as if these cost as little as elementwise operations", "memory::routines";
    AgainFromWritten = "again-from-written", "a value is recomputed from memory that an update in place has overwritten", "random::machine_models";
    TakenEarly = "taken-early", "a result takes over the memory of an array before the iteration's last load from it", "random::machine_models";
    DonatedEarly = "donated-early", "a result is written to the memory of a donated argument before the last load of the argument", "memory::calls";
    HeldTaken = "held-taken", "a result takes over the memory of a donated argument that has another handle", "memory::calls";
    CopyDropped = "copy-dropped", "a donated argument with another handle is not copied to the memory of its result", "memory::calls";
    ResultTaken = "result-taken", "another array takes over the memory of a result after the last read of the result", "random::machine_models";
    ProductDropped = "product-dropped", "operands and results of matrix products lose the axes that all other loops access at one index", "random::machine_models";
    TwoOrders = "two-orders", "a product that is read in two axis orders is stored in the first order for both readers", "laws::filetests";
    ArrangedAxes = "arranged-axes", "the permuted copy of an operand is read with the permutation instead of its inverse", "laws::products";
    CroppedSide = "cropped-side", "the transpose of a convolution is cropped at the wrong end", "laws::convolutions";
    ZeroOverZero = "zero-over-zero", "derivatives of eigenvectors replace 0/0, from equal eigenvalues, by 0", "laws::spectra";
    GapOfRounding = "gap-of-rounding", "derivatives of eigenvectors divide by differences of eigenvalues that are rounding errors", "laws::spectra";
    LibraryPlace = "library-place", "errors in a composite operation are reported at a line of the library", "it::places";
    ZeroTangent = "zero-tangent", "a custom rule is called with zeros in place of absent tangents and cotangents", "programs::custom_rules";
    FoldsShare = "folds-share", "all sums over one extent are fused into one loop, whatever its number of accumulators", "programs::many_sums";
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

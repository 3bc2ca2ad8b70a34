//! Tables published by the authors of the TapeFlow paper: accesses, misses and cycles of their simulator.
//!
//! They are from the authors' development repository (2022). In them, tape reads and writes cost no time
//! (`TflowIdeal` here), and caches have two ways at every size. Mass spring is from another set of tables than the
//! rest.

/// A row of the TapeFlow authors' tables: a kernel's run with a cache of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Raw {
    /// The name of the kernel.
    pub kernel: &'static str,
    /// The size of the cache in bytes.
    pub cache: u64,
    /// Cache accesses, misses and cycles of the forward and of the reverse pass, with all accesses through the cache.
    pub enzyme: [[u64; 3]; 2],
    /// Cache accesses, misses and cycles of the forward and of the reverse pass, with a streamed tape.
    pub tflow: [[u64; 3]; 2],
    /// The cache lines moved without and with streams: cache fills, and lines streamed back, as the TapeFlow authors
    /// counted them.
    pub lines: [u64; 2],
}

impl Raw {
    /// Returns the number of accesses to the tape, in the forward and in the reverse pass.
    pub fn taped(&self) -> [u64; 2] {
        [0, 1].map(|phase| self.enzyme[phase][0] - self.tflow[phase][0])
    }

    /// Returns the speedup by streams: forward, reverse and in total.
    pub fn faster(&self) -> [f64; 3] {
        let ticks = |of: &[[u64; 3]; 2]| [of[0][2], of[1][2], of[0][2] + of[1][2]];
        let (enzyme, tflow) = (ticks(&self.enzyme), ticks(&self.tflow));
        [0, 1, 2].map(|i| enzyme[i] as f64 / tflow[i] as f64)
    }
}

/// Returns the TapeFlow authors' row for a kernel and a size of the cache in bytes, if there is one.
pub fn raw(kernel: &str, cache: u64) -> Option<&'static Raw> {
    RAW.iter().find(|raw| raw.kernel == kernel && raw.cache == cache)
}

const K: u64 = 1024;

/// All rows of the TapeFlow authors' tables.
pub const RAW: &[Raw] = &[
    Raw {
        kernel: "gravity",
        cache: K,
        enzyme: [[130_815, 40_966, 1_032_356], [261_375, 133_765, 1_492_304]],
        tflow: [[98_175, 36_857, 907_784], [163_455, 73_008, 1_324_752]],
        lines: [174_731, 122_042],
    },
    Raw {
        kernel: "gravity",
        cache: 2 * K,
        enzyme: [[130_815, 40_952, 1_032_356], [261_375, 120_676, 1_446_398]],
        tflow: [[98_175, 36_857, 907_784], [163_455, 72_985, 1_325_452]],
        lines: [161_628, 122_019],
    },
    Raw {
        kernel: "gravity",
        cache: 32 * K,
        enzyme: [[130_815, 40_806, 1_031_447], [261_375, 108_052, 1_396_375]],
        tflow: [[98_175, 36_726, 907_593], [163_455, 67_018, 1_307_709]],
        lines: [148_858, 115_921],
    },
    Raw {
        kernel: "nn",
        cache: K,
        enzyme: [[23_550, 4_995, 56_883], [23_735, 3_871, 78_453]],
        tflow: [[15_710, 3_842, 54_945], [15_837, 2_995, 64_823]],
        lines: [8_866, 7_753],
    },
    Raw {
        kernel: "nn",
        cache: 2 * K,
        enzyme: [[23_550, 4_929, 56_721], [23_735, 3_795, 78_363]],
        tflow: [[15_710, 3_842, 54_942], [15_837, 2_988, 64_728]],
        lines: [8_724, 7_746],
    },
    Raw {
        kernel: "nn",
        cache: 32 * K,
        enzyme: [[23_550, 3_299, 51_326], [23_735, 2_649, 71_676]],
        tflow: [[15_710, 2_063, 49_172], [15_837, 1_965, 58_514]],
        lines: [5_948, 4_944],
    },
    Raw {
        kernel: "logsum",
        cache: K,
        enzyme: [[11_251, 2_656, 62_197], [31_252, 6_256, 161_969]],
        tflow: [[10_001, 1_250, 61_368], [20_002, 3_746, 138_522]],
        lines: [8_912, 6_340],
    },
    Raw {
        kernel: "logsum",
        cache: 2 * K,
        enzyme: [[11_251, 2_656, 62_197], [31_252, 6_252, 161_969]],
        tflow: [[10_001, 1_250, 61_368], [20_002, 3_744, 138_522]],
        lines: [8_908, 6_338],
    },
    Raw {
        kernel: "logsum",
        cache: 32 * K,
        enzyme: [[11_251, 2_656, 62_197], [31_252, 4_647, 148_907]],
        tflow: [[10_001, 1_250, 61_368], [20_002, 2_499, 126_902]],
        lines: [7_303, 5_093],
    },
    Raw {
        kernel: "matdescent",
        cache: K,
        enzyme: [[321_717, 40_775, 1_503_511], [482_808, 60_614, 2_088_725]],
        tflow: [[321_317, 40_725, 1_503_370], [322_008, 37_778, 1_444_376]],
        lines: [101_389, 98_475],
    },
    Raw {
        kernel: "matdescent",
        cache: 2 * K,
        enzyme: [[321_717, 40_771, 1_503_510], [482_808, 44_816, 2_016_108]],
        tflow: [[321_317, 40_721, 1_503_370], [322_008, 20_693, 1_375_426]],
        lines: [85_587, 81_258],
    },
    Raw {
        kernel: "matdescent",
        cache: 32 * K,
        enzyme: [[321_717, 20_238, 1_324_458], [482_808, 19_887, 1_955_004]],
        tflow: [[321_317, 20_188, 1_324_337], [322_008, 105, 1_312_413]],
        lines: [40_125, 36_297],
    },
    Raw {
        kernel: "mttkrp",
        cache: K,
        enzyme: [[32_768, 15_055, 75_691], [53_248, 14_888, 110_605]],
        tflow: [[20_480, 652, 30_341], [40_960, 1_262, 43_143]],
        lines: [29_943, 3_387],
    },
    Raw {
        kernel: "mttkrp",
        cache: 2 * K,
        enzyme: [[32_768, 14_498, 74_361], [53_248, 13_310, 108_253]],
        tflow: [[20_480, 207, 28_665], [40_960, 158, 41_837]],
        lines: [27_808, 1_838],
    },
    Raw {
        kernel: "mttkrp",
        cache: 32 * K,
        enzyme: [[32_768, 12_637, 69_057], [53_248, 12_012, 100_019]],
        tflow: [[20_480, 177, 28_548], [40_960, 78, 41_478]],
        lines: [24_649, 1_728],
    },
    Raw {
        kernel: "somier",
        cache: K,
        enzyme: [[23_040, 15_928, 87_742], [23_040, 13_294, 63_498]],
        tflow: [[18_432, 10_275, 69_947], [18_432, 7_016, 37_361]],
        lines: [29_222, 17_803],
    },
    Raw {
        kernel: "somier",
        cache: 2 * K,
        enzyme: [[23_040, 7_648, 59_616], [23_040, 7_272, 51_514]],
        tflow: [[18_432, 1_919, 41_046], [18_432, 1_007, 24_108]],
        lines: [14_920, 3_438],
    },
    Raw {
        kernel: "somier",
        cache: 32 * K,
        enzyme: [[23_040, 3_714, 49_750], [23_040, 2_854, 36_950]],
        tflow: [[18_432, 1_364, 38_677], [18_432, 354, 22_235]],
        lines: [6_568, 2_230],
    },
    Raw {
        kernel: "lenet",
        cache: K,
        enzyme: [[218_419, 67_619, 713_803], [336_421, 65_721, 764_679]],
        tflow: [[174_475, 30_825, 574_566], [281_651, 24_511, 557_290]],
        lines: [133_340, 60_754],
    },
    Raw {
        kernel: "lenet",
        cache: 2 * K,
        enzyme: [[218_419, 44_894, 620_997], [336_421, 41_776, 729_091]],
        tflow: [[174_475, 5_248, 468_238], [281_651, 2_364, 527_090]],
        lines: [86_670, 13_030],
    },
    Raw {
        kernel: "lenet",
        cache: 32 * K,
        enzyme: [[218_419, 8_943, 532_852], [336_421, 7_060, 607_488]],
        tflow: [[174_475, 1_392, 449_295], [281_651, 1_007, 520_273]],
        lines: [16_003, 7_817],
    },
    Raw {
        kernel: "pathfinder",
        cache: K,
        enzyme: [[88_011, 47_291, 264_509], [209_583, 61_858, 585_933]],
        tflow: [[48_807, 5_238, 106_289], [169_191, 43_725, 460_723]],
        lines: [109_149, 52_587],
    },
    Raw {
        kernel: "pathfinder",
        cache: 2 * K,
        enzyme: [[88_011, 46_401, 257_037], [209_583, 51_037, 552_077]],
        tflow: [[48_807, 3_970, 103_404], [169_191, 37_381, 444_204]],
        lines: [97_438, 44_975],
    },
    Raw {
        kernel: "pathfinder",
        cache: 32 * K,
        enzyme: [[88_011, 9_132, 153_541], [209_583, 8_029, 397_441]],
        tflow: [[48_807, 3_452, 102_193], [169_191, 6_563, 329_621]],
        lines: [17_161, 13_639],
    },
    Raw {
        kernel: "mass spring",
        cache: K,
        enzyme: [[17_968, 8_721, 49_319], [29_292, 9_911, 97_063]],
        tflow: [[11_356, 2_052, 25_987], [22_680, 2_735, 60_895]],
        lines: [18_632, 6_119],
    },
    Raw {
        kernel: "mass spring",
        cache: 2 * K,
        enzyme: [[17_968, 6_935, 46_278], [29_292, 7_606, 90_682]],
        tflow: [[11_356, 1_036, 22_897], [22_680, 1_635, 58_371]],
        lines: [14_541, 4_003],
    },
    Raw {
        kernel: "mass spring",
        cache: 32 * K,
        enzyme: [[17_968, 4_205, 35_450], [29_292, 3_910, 77_192]],
        tflow: [[11_356, 364, 20_781], [22_680, 309, 54_033]],
        lines: [8_115, 2_005],
    },
];

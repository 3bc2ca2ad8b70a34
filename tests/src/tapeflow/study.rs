//! The nine kernels as the TapeFlow study ran them: sizes, unroll factors, and addresses of arrays.
//!
//! All kernels use the machine parameters of [`Machine::cal`](tapeloom::accelerator::Machine). None was chosen to fit a
//! figure. The authors' compiler unrolls inner loops, and a layer is one execution of such an unrolled block. The
//! unroll factors of five kernels follow from the numbers of layers in the paper: 10,400 layers, for example, are 400
//! (400 / 16 + 1), hence a factor of 16. Loops are unrolled for the claims about unrolling, and run as written for all
//! others.

use crate::suite::{Form, KERNELS, Kernel, READINGS};
use tapeloom::accelerator::{AddressMap, Place};

/// A kernel of the TapeFlow paper, with the sizes at which the paper ran it and the figures that the paper states.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// The name of the kernel in the suite.
    pub name: &'static str,
    /// The form of the kernel in the suite.
    pub form: Form,
    /// The extents in the tables of runs that the TapeFlow paper's authors published.
    pub size: &'static [usize],
    /// The number of values that a block of unrolled code stores, if the unroll factor is known.
    pub block: u64,
    /// The unroll factors; empty if unknown or 1.
    pub unroll: &'static [u64],
    /// The extents in the TapeFlow paper's second table.
    pub table: &'static [usize],
    /// The extents at which fully unrolled code fills about one instruction window; empty if there are none.
    pub small: &'static [usize],
    /// The kernel's row in the TapeFlow paper's second table: the size of the tape in kB, and the number of layers.
    pub paper: [u64; 2],
    /// The number of values on the tape by our count of the TapeFlow authors' code.
    pub values: u64,
    /// Whether the TapeFlow paper's number of layers can be derived from the authors' code, so that our number must
    /// equal it.
    pub certain: bool,
}

/// The nine kernels of the TapeFlow paper, with the sizes at which the paper ran them and the figures that it states.
pub const STUDIES: [Study; 9] = [
    Study {
        name: "gravity",
        form: Form::Mutated,
        size: &[256],
        block: 64,
        unroll: &[],
        table: &[256],
        small: &[16],
        paper: [180, 15_616],
        values: 32_640,
        certain: false,
    },
    Study {
        name: "nn",
        form: Form::Mutated,
        size: &[784, 10],
        block: 16,
        unroll: &[16],
        table: &[784, 10],
        small: &[64, 4],
        paper: [63, 490],
        values: 7_869,
        certain: true,
    },
    Study {
        name: "logsum",
        form: Form::Mutated,
        size: &[10_000],
        block: 16,
        unroll: &[8],
        table: &[10_000],
        small: &[256],
        paper: [160, 1_251],
        values: 20_000,
        certain: true,
    },
    Study {
        name: "matdescent",
        form: Form::Mutated,
        size: &[400, 400],
        block: 16,
        unroll: &[16],
        table: &[400, 400],
        small: &[16, 16],
        paper: [1_280, 10_400],
        values: 160_800,
        certain: true,
    },
    Study {
        name: "mttkrp",
        form: Form::Mutated,
        size: &[8, 8, 8, 8],
        block: 24,
        unroll: &[8],
        table: &[8, 8, 8, 8],
        small: &[4, 4, 4, 4],
        paper: [104, 512],
        values: 12_288,
        certain: true,
    },
    Study {
        name: "somier",
        form: Form::Mutated,
        size: &[10],
        block: 9,
        unroll: &[],
        table: &[8],
        small: &[5],
        paper: [34, 216],
        values: 4_608,
        certain: false,
    },
    Study {
        name: "lenet",
        form: Form::Mutated,
        size: &[32],
        block: 64,
        unroll: &[],
        table: &[32],
        small: &[],
        paper: [430, 11_895],
        values: 54_770,
        certain: true,
    },
    Study {
        name: "pathfinder",
        form: Form::Mutated,
        size: &[100, 100],
        block: 64,
        unroll: &[],
        table: &[100, 100],
        small: &[16, 16],
        paper: [328, 5_842],
        values: 40_392,
        certain: false,
    },
    Study {
        name: "mass spring",
        form: Form::Mutated,
        size: &[16, 16, 40],
        block: 64,
        unroll: &[],
        table: &[16, 16, 40],
        small: &[4, 4, 8],
        paper: [10, 46_000],
        values: 6_612,
        certain: false,
    },
];

impl Study {
    /// Returns the kernel in the suite.
    pub fn kernel(&self) -> &'static Kernel {
        self.find(self.form).unwrap_or(&KERNELS[0])
    }

    /// Returns the study of the form `Form::Measured`, if the kernel has that form, or `None`. The form exists where
    /// the TapeFlow authors' tables count more accesses and longer dependence chains than their program has.
    pub fn measured(self) -> Option<Study> {
        self.find(Form::Measured).map(|kernel| Study { form: kernel.form, ..self })
    }

    fn find(&self, form: Form) -> Option<&'static Kernel> {
        KERNELS.iter().chain(READINGS).find(|k| k.form == form && k.name == self.name)
    }

    /// Returns the addresses of the arrays: adjacent, with words of eight bytes on the tape.
    ///
    /// For MTTKRP the addresses of the TapeFlow paper's authors are known. There, each array is in a structure with a
    /// header of 48 bytes. The structures start 864 bytes apart, whatever their size, in the order A, B, D, C and their
    /// cotangents. Only the last structure starts 8 bytes behind the one before.
    pub fn map(&self) -> AddressMap {
        let mut map = AddressMap { word: 8, ..AddressMap::default() };
        if self.name == "mttkrp" {
            let order = [
                Place::Output(0),
                Place::Input(0),
                Place::Input(2),
                Place::Input(1),
                Place::Input(3),
                Place::Output(1),
                Place::Output(3),
                Place::Output(2),
            ];
            let at = |k: u64| map.base + 48 + if k < 7 { 864 * k } else { 864 * 6 + 8 };
            map.fixed = (0..).map(at).zip(order).map(|(at, place)| (place, at)).collect();
        }
        map
    }
}

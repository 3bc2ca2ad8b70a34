//! The figures of the authors' simulator, and ours.

use super::kernel::{replay, run};
use super::kernels::mttkrp::Mttkrp;
use crate::accelerator::*;

#[test]
fn mttkrp_replayed_misses_what_the_authors_simulator_misses() {
    let machine = replay();
    let of = |system| {
        let s = run(&Mttkrp, &machine, system);
        let misses = (s.forward.cached().misses, s.reverse.cached().misses);
        (misses, s.paper_lines(&machine), s.full_lines(&machine))
    };
    assert_eq!(of(System::ENZYME), ((12_452, 12_002), 24_454, 36_903));
    assert_eq!(of(System::TFLOW), ((74, 54), 128 + 1_536, 3_200));
    assert_eq!(of(System::ENZYME_PAD).1, 2_782);
    assert_eq!(of(System::AOS).1, 2_772);
}

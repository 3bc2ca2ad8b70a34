//! Plans can be shared between threads; routines without plans give errors.

use tapeloom_routines::{Float, Routine};
use tapeloom_routines::{Plan, Unavailable};

#[test]
fn threads_share_plans() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<Plan>();
}

#[test]
fn an_array_that_cannot_exist_has_no_plan() {
    for n in [usize::MAX, 1 << 40, 1 << 31] {
        for routine in [
            Routine::Cholesky { n },
            Routine::Lu { m: n, n: 1 },
            Routine::RealFft { rows: 1, n, columns: 1 },
        ] {
            let error = routine.plan(Float::F64).unwrap_err();
            assert_eq!(error, Unavailable::TooLarge { routine });
        }
    }
}

#[cfg(not(feature = "linalg"))]
#[test]
fn without_the_feature_every_plan_is_an_error_that_names_it() {
    let n = 3;
    for routine in [Routine::Cholesky { n }, Routine::RealFft { rows: 1, n, columns: 1 }] {
        let error = routine.plan(Float::F32).unwrap_err();
        assert!(error.to_string().contains("`linalg`"), "{error}");
        assert!(error.to_string().contains(routine.name()), "{error}");
    }
}

/// For arrays near the limit of memory, the computed size of scratch memory must not overflow.
#[cfg(feature = "linalg")]
#[test]
fn the_scratch_of_the_largest_arrays_does_not_overflow() {
    for n in [40_000, 1 << 29, 1_000_000_000] {
        for routine in crate::hostile::routines(n) {
            match routine.plan(Float::F64) {
                Ok(plan) => assert!(plan.scratch_bytes() <= isize::MAX.unsigned_abs()),
                Err(error) => assert_eq!(error, Unavailable::TooLarge { routine }),
            }
        }
    }
}

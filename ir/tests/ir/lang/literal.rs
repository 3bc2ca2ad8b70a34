//! Tests of `literal`.

use tapeloom_ir::{Dtype, Literal};

#[test]
fn text_round_trips() {
    let numbers = [0.0, -0.0, 1.0, -2.5, 1e300, 1e-300, f64::NAN, f64::INFINITY, -f64::INFINITY];
    for dtype in Dtype::ALL {
        for x in numbers {
            let l = Literal::of(dtype, x);
            assert_eq!(l.to_string().parse::<Literal>().unwrap(), l, "{l}");
        }
    }
    for wrong in ["", "-", "inf", "nan", "+1", "1x", "4294967296u32", "0x7f", "-1u32", "1bool"] {
        assert!(wrong.parse::<Literal>().is_err(), "{wrong}");
    }
}

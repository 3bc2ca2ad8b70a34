//! Tests of `power`.

use tapeloom_ir::Code;
use tapeloom_ir::prim::power;

/// Returns the cost of a power in flops.
fn flops(n: i32) -> u32 {
    Code::IntegerPow(n).row().flops
}

#[test]
fn costs_are_counted_products() {
    for n in 1..200 {
        let mut products = 0;
        power(1u32, n, |_, _| {
            products += 1;
            1
        });
        assert_eq!(flops(n as i32), products.max(1), "power {n}");
        assert_eq!(flops(-(n as i32)), products.max(1) + 4, "power -{n}");
    }
    assert_eq!(flops(0), 1);
}

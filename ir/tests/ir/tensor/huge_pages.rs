//! Tests of `huge_pages`.

use tapeloom_ir::{Dtype, Tensor};

/// Returns the flags (`VmFlags` of Linux) of the memory mapping that contains the address `at`.
fn flags(at: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    for line in maps.lines() {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16).ok();
        if let Some((Some(from), Some(to))) = range.map(|(a, b)| (number(a), number(b))) {
            inside = (from..to).contains(&at);
        }
        if inside && line.starts_with("VmFlags:") {
            return line.to_owned();
        }
    }
    String::new()
}

#[test]
fn large_arrays_lie_in_large_pages() {
    if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        return;
    }
    let x = Tensor::zeros(&[1 << 22], Dtype::F64).unwrap();
    let middle = x.bytes().as_ptr() as usize + x.bytes().len() / 2;
    assert!(flags(middle).split(' ').any(|flag| flag == "hg"), "{}", flags(middle));
}

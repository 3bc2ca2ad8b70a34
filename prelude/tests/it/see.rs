//! The text that `debug_print` prints.

use lines::lines;
use tapeloom::Tensor;

#[path = "../../src/host_calls/lines.rs"]
mod lines;

#[test]
fn lines_name_leaf_member_and_place() {
    let place = std::panic::Location::caller();
    let paths = ["loss.0".to_owned(), "loss.1".to_owned()];
    let x = [Tensor::from(0.5), Tensor::from([[1, 2], [3, 4]])];
    let text = lines(&paths, Some(3), &x, Some(place));
    let want = format!(
        "loss.0 of member 3 = 0.5 ({place})\nloss.1 of member 3 =\n[[1, 2],\n [3, 4]] ({place})\n"
    );
    assert_eq!(text, want);
    assert_eq!(lines(&paths[..1], None, &x, None), "loss.0 = 0.5\n");
}

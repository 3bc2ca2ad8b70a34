//! Meshes and partition specs.

use tapeloom_ir::{Mesh, PartitionSpec};

fn mesh() -> Mesh {
    Mesh::new([("data", 2), ("model", 3)]).unwrap()
}

#[test]
fn meshes_print_and_parse() {
    for text in ["data=4, model=2", "x=1", ""] {
        assert_eq!(text.parse::<Mesh>().unwrap().to_string(), text);
    }
    for text in [
        "data",
        "data=0",
        "data=x",
        "data=2, data=2",
        "_=2",
        "open=2",
        "a b=2",
        "a.b=2",
        "f64=2",
        "a=2000000",
    ] {
        assert!(text.parse::<Mesh>().is_err(), "{text}");
    }
}

/// Each element of an array is in exactly one of the distinct parts, at the index that `stretches` reports.
#[test]
fn parts_cover_an_array_once() {
    for (shape, words) in [
        (&[6, 4][..], &["data", "_"][..]),
        (&[6, 6], &["model", "data"]),
        (&[2, 6, 3], &["_", "data.model", "_"]),
        (&[2, 6, 3], &["_", "model.data"]),
        (&[6], &["open"]),
        (&[4, 3, 2], &["data", "model", "_"]),
        (&[0, 6], &["data", "model"]),
        (&[], &[]),
    ] {
        let parts = PartitionSpec::new(words.iter().copied()).parts(shape, &mesh()).unwrap();
        let mut seen = vec![0; shape.iter().product()];
        for device in parts.distinct() {
            let mut filled = 0;
            parts.stretches(device, &mut |from, to, n| {
                assert_eq!(to, filled);
                filled += n;
                seen[from..from + n].iter_mut().for_each(|count| *count += 1);
            });
            assert_eq!(filled, parts.shape().iter().product::<usize>());
        }
        assert!(seen.iter().all(|count| *count == 1), "{shape:?} {words:?}: {seen:?}");
    }
}

#[test]
fn devices_have_the_parts_of_their_numbers() {
    let starts = |words: &[&str]| {
        let parts = PartitionSpec::new(words.iter().copied()).parts(&[6, 6], &mesh()).unwrap();
        (0..6).map(|d| parts.start(d).to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(starts(&["model"]), [[0, 0], [2, 0], [4, 0], [0, 0], [2, 0], [4, 0]]);
    assert_eq!(starts(&["data", "model"]), [[0, 0], [0, 2], [0, 4], [3, 0], [3, 2], [3, 4]]);
    assert_eq!(starts(&["_", "model.data"]), [[0, 0], [0, 2], [0, 4], [0, 1], [0, 3], [0, 5]]);
}

#[test]
fn wrong_specs_are_errors() {
    for (words, expected) in [
        (&["data", "data"][..], "twice"),
        (&["data.data"], "twice"),
        (&["rows"], "no axis `rows`"),
        (&["modle"], "no axis `modle`"),
        (&["data", "_", "_"], "3 axes, and the array has 2"),
        (&["_", "model"], "4 elements and cannot be divided into 3"),
        (&["data+model"], "no name of a mesh axis"),
        (&[""], "no name of a mesh axis"),
    ] {
        let spec = PartitionSpec::new(words.iter().copied());
        let problem = spec.parts(&[6, 4], &mesh()).unwrap_err().to_string();
        assert!(problem.contains(expected), "{words:?}: {problem}");
    }
}

//! The list of public functions, and the test that covers the edges of each.
//!
//! The list is read from the source of `prelude/src/ops` and of elementwise functions with rules elsewhere. A new function fails a test until its edges are recorded,
//! or a reason is given below why it has none of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Public functions whose values at edges (ties, zeros, infinities, nan) are not recorded: the reason, and their names.
pub const NOT_RECORDED: &[(&str, &str)] = &[
    (
        "moves or copies elements, and computes nothing with them",
        "array_split atleast_1d atleast_2d atleast_3d block_diag broadcast_arrays \
         broadcast_to column_stack compress concat delete diag diagflat diagonal dstack \
         dynamic_slice dynamic_update_slice expand_dims fftshift fill_diagonal flatten flip \
         get hstack ifftshift index_axis insert matrix_transpose meshgrid meshgrid_ij \
         move_axis pad pad_dilated pad_like permute put_along_axis repeat reshape resize \
         roll rot90 set slice slice_axis slice_step split split_at squeeze stack swap_axes \
         t tile toeplitz tril triu unstack vstack",
    ),
    (
        "makes an array from numbers of the host",
        "arange constant diag_indices eye fftfreq full full_like geomspace iota linspace \
         logspace ones ones_like tri zeros zeros_like",
    ),
    (
        "chooses by a bool or an integer, without changing the chosen elements",
        "select select_first select_nth sharded stop_gradient",
    ),
    (
        "has bool or integer operands or results, which have no edges except those of the recorded \
         comparisons",
        "all all_close any array_equal bincount convert count_ones count_true digitize \
         histogram histogram2d is_in leading_zeros one_hot searchsorted searchsorted_right",
    ),
    (
        "sums of products, whose edges are those of `mul` and `sum`",
        "average central_diff cov cross diff diff_n dot dot_general einsum einsum_left_to_right \
         inner kron matmul matrix_power multi_dot outer poly_from_roots polyval tensordot trace \
         trapezoid vander vdot vecdot",
    ),
    ("a quotient of recorded functions: of sums by `sqrt`", "corrcoef"),
    ("`elu_with` of 1", "elu"),
    ("sums of `lgamma`", "multigammaln"),
    (
        "reductions of rows with one number, whose edges are those of `sum`, `prod`, `max`, `min` and `softmax`; \
         values and derivatives are compared in `laws::vocabulary`",
        "segment_max segment_mean segment_min segment_prod segment_softmax segment_sum",
    ),
    (
        "products, `sigmoid` and `tanh`, and initial weights of such cells; see `programs::networks`",
        "gru gru_cell lstm lstm_cell",
    ),
    ("`div_floor` and `mod_floor` side by side", "div_mod"),
    ("`mul` by a recorded `sigmoid`", "glu"),
    (
        "a recorded function in reverse order",
        "cumlogsumexp_reverse cummax_reverse cummin_reverse cumprod_reverse cumsum_reverse",
    ),
    (
        "sums of products, whose edges are those of `mul` and `sum`, in either direction",
        "linear_recurrence linear_recurrence_reverse",
    ),
    (
        "the recorded `sort` and `argsort`, or the recorded `median` and `quantile`, of other arguments",
        "lexsort median_axis percentile percentile_axis quantile_axis sort_key_val top_k",
    ),
    ("a lookup and a straight line between two elements", "interp"),
    ("sums of remainders, whose edges are those of `mod_floor`", "unwrap_phase"),
    ("`layer_norm` of groups of an axis", "group_norm"),
    ("sums of products over roots of such sums", "cosine_similarity"),
    ("composed of `softmax` and `log_softmax`", "cross_entropy dot_product_attention"),
    (
        "values, derivatives and edges are those of `special.rs`, and of `ir/math` with its tests",
        "bessel_j0 bessel_j1 bessel_jn bessel_y0 bessel_y1 bessel_yn betainc boxcox dawsn erfc_inv \
         erfcx exp1 expi expn gammainc gammaincc hyp1f1 i0 i0e i1 i1e spence zeta",
    ),
    ("splits numbers into bits; compared with Rust's functions in `special.rs`", "bitcast frexp"),
    (
        "layers with a state or random numbers, whose values and edges are in `programs::networks`",
        "apply dropout epsilon glorot_normal glorot_uniform he_normal he_uniform lecun_normal \
         lecun_uniform momentum orthogonal train",
    ),
    ("sets options of attention, and computes nothing", "bias causal mask new scale"),
];

/// Macros invoked at the start of a line that define traits of operators and iterators, not public functions of arrays.
const OTHER_MACROS: &[&str] =
    &["axis", "axes", "elsewhere", "folds", "index", "left", "logic", "macro_rules", "ranges"];

/// Returns the names of all public functions and methods in `prelude/src/ops`, `nn` and `stats/relative_entropy.rs`.
pub fn public_functions() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let prelude = Path::new(env!("CARGO_MANIFEST_DIR")).join("../prelude/src");
    let entropies = prelude.join("stats/relative_entropy.rs");
    let rooms = ["ops", "nn"].into_iter().flat_map(|room| files(&prelude.join(room)));
    for file in rooms.chain([entropies]) {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut inside = "";
        for line in text.lines() {
            let invoked = line.split_once('!').filter(|(name, _)| word(name));
            match invoked {
                Some((name, rest)) if !OTHER_MACROS.contains(&name) => {
                    assert!(rest == " {", "{}: how does `{line}` end?", file.display());
                    inside = name;
                }
                _ if line == "}" => inside = "",
                _ => found.extend(function(inside, line.trim()).map(str::to_owned)),
            }
        }
    }
    found
}

/// Returns the name of the public function that a line declares, by `fn` or as a row of the macro `inside`.
fn function<'t>(inside: &str, line: &'t str) -> Option<&'t str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = match (inside, words.as_slice()) {
        (_, _) if line.starts_with("//") || line.starts_with('#') => None,
        (_, ["pub", "fn", name, ..]) => name.split(['(', '<']).next(),
        ("unary" | "two" | "comparisons", [name, "=", _]) => Some(*name),
        ("reductions", [name, axis, ..]) if axis.ends_with("_axis") => Some(*name),
        ("operators", [_, name, ..]) => Some(*name),
        ("initial", [name, _, _]) => name.strip_suffix(':'),
        ("" | "unary" | "two" | "comparisons" | "reductions" | "cumulative" | "initial", _) => None,
        (other, _) => panic!("`{other}!` is unknown here: list the public functions that it makes"),
    };
    name.filter(|n| word(n))
}

fn word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found
}

/// Returns the Rust name of a recorded function: the part of the recorded name before further arguments.
pub fn base(name: &str) -> &str {
    name.split('(').next().unwrap_or(name)
}

//! Prints rows of table cells as text in aligned columns; escapes text for pictures.

use std::fmt;

/// Returns a text in which the characters `&`, `<` and `>`, which have a meaning in SVG, are escaped.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Prints rows of `N` cells as text, with each column padded to its widest cell.
pub(crate) fn table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    lines: &[[String; N]],
) -> fmt::Result {
    let width = |i: usize| lines.iter().map(|line| line[i].len()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for line in lines {
        let cells: Vec<String> =
            line.iter().zip(widths).map(|(cell, w)| format!("{cell:w$}")).collect();
        writeln!(f, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

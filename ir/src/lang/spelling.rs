//! Finds names similar to an unknown name, for error messages.

/// Returns the known name that is most similar to `name`, if at most a third of the letters of `name` differ. Of
/// equally similar names, returns the first in alphabetical order.
///
/// ```
/// use tapeloom_ir::closest_name;
/// assert_eq!(closest_name("recieve", ["send", "receive"]), Some("receive"));
/// assert_eq!(closest_name("recieve", ["send"]), None);
/// ```
pub fn closest_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = name.len() / 3;
    let near = known.into_iter().filter(|k| k.len().abs_diff(name.len()) <= 4 * most);
    let near = near.map(|k| (distance(name, k), k)).min()?;
    (near.0 <= most).then_some(near.1)
}

/// Returns the edit distance of two words: the least number of letters to insert, remove or replace.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

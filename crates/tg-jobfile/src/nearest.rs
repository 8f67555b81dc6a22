//! The known name that a misspelt one is nearest to.

/// The nearest of `known`, if it is near: a third of the letters differ at most.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer names are not compared: no field is nearly so long.
    const NAME_MAX: usize = 64;
    if name.len() > NAME_MAX {
        return None;
    }
    let name = simple(name);
    let distances = known
        .into_iter()
        .map(|it| (distance(&name, &simple(it)), it));
    let (least, found) = distances.min_by_key(|(distance, _)| *distance)?;
    (least <= name.len().div_ceil(3).min(3)).then_some(found)
}

/// Letters and digits of a name: how words are joined and capitals do not count.
fn simple(name: &str) -> Vec<char> {
    let joined = name.chars().filter(|it| it.is_alphanumeric());
    joined.flat_map(char::to_lowercase).collect()
}

/// Letters to add, remove, change or swap with their neighbour.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut rows = vec![(0..=other.len()).collect::<Vec<usize>>()];
    for (i, left) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, right) in other.iter().enumerate() {
            let changed = rows[i][j] + usize::from(left != right);
            let mut least = changed.min(row[j] + 1).min(rows[i][j + 1] + 1);
            let is_swapped = i > 0 && j > 0 && one[i - 1] == *right && *left == other[j - 1];
            if is_swapped {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_are_near_and_others_are_not() {
        let known = ["accelerators", "memory", "max_price", "num_nodes", "run"];
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(nearest(name, known), expected, "{name}");
        };
        check("accelerator", Some("accelerators"));
        check("acelerators", Some("accelerators"));
        check("MaxPrice", Some("max_price"));
        check("num-nodes", Some("num_nodes"));
        check("memroy", Some("memory"));
        check("rnu", Some("run"));
        check("something_else", None);
        check("x", None);
        check("", None);
    }
}

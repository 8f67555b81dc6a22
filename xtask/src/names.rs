//! Names of types that are defined more than once: a reader who meets one cannot know which is meant.

use std::collections::BTreeMap;

/// The definitions of each name, as the crates in which they stand.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<String, Vec<String>>);

impl Names {
    /// Adds what a source of a crate defines. Tests do not count, nor associated types.
    pub fn add(&mut self, owner: &str, text: &str) {
        let end = text.find("#[cfg(test)]\nmod").unwrap_or(text.len());
        for name in text[..end].lines().filter_map(defined) {
            let owners = self.0.entry(name.to_owned()).or_default();
            owners.push(owner.to_owned());
        }
    }

    /// A line for each name that is defined more than once: `Name: crate crate ...`, a crate for each definition.
    #[must_use]
    pub fn repeated(&self) -> Vec<String> {
        let repeated = self.0.iter().filter(|(_, owners)| owners.len() > 1);
        let line = |(name, owners): (&String, &Vec<String>)| {
            let mut owners = owners.clone();
            owners.sort_unstable();
            format!("{name}: {}", owners.join(" "))
        };
        repeated.map(line).collect()
    }
}

/// The name of the type or trait that a line begins to define.
fn defined(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let (kind, rest) = line.split_once(' ')?;
    if !["struct", "enum", "trait", "union"].contains(&kind) {
        return None;
    }
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_and_others_are_not() {
        for (line, name) in [
            ("pub struct Walk<'a> {", Some("Walk")),
            ("    enum Step {", Some("Step")),
            ("pub(in crate::plan) struct Place;", Some("Place")),
            ("pub trait Paged: Sized {", Some("Paged")),
            ("    structure: u8,", None),
            ("pub fn struct_of() {", None),
            ("// struct Gone", None),
        ] {
            assert_eq!(defined(line), name, "{line}");
        }
    }

    #[test]
    fn a_name_of_two_definitions_is_listed_with_its_crates() {
        let mut names = Names::default();
        names.add("b", "struct Walk;\nstruct Own;\n");
        names.add(
            "a",
            "enum Walk {}\n#[cfg(test)]\nmod tests {\nstruct Own;\n}\n",
        );
        assert_eq!(names.repeated(), ["Walk: a b"]);
    }
}

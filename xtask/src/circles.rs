//! Which files of a crate import each other in a circle: none of them can be read, or changed, before the others.
//!
//! A file imports another if it names something that stands there: in a `use`, or by a path that begins with `crate`,
//! `super`, `self` or a module below it. What a module re-exports counts as where it comes from. Tests do not count, nor
//! what a crate's root exports. The source is read as text, so a path made by a macro of another file is not seen.

use std::collections::{BTreeMap, BTreeSet};

/// A module's path below its crate's root, which is empty.
pub type Module = Vec<String>;

/// The files of a crate that count, as the paths in them.
#[derive(Debug, Default)]
pub struct Files(BTreeMap<Module, Vec<Path>>);

impl Files {
    /// Adds a file; `place` is relative to the crate's `src`. Files of tests are left out.
    pub fn add(&mut self, place: &str, text: &str) {
        let mut module: Module = place
            .trim_end_matches(".rs")
            .split('/')
            .map(str::to_owned)
            .collect();
        if matches!(
            module.last().map(String::as_str),
            Some("mod" | "lib" | "main")
        ) {
            module.pop();
        }
        let is_test = |name: &String| name == "tests" || name.ends_with("_tests");
        if !module.iter().any(is_test) {
            self.0.insert(module, paths(&without_tests(text)));
        }
    }

    /// The circles, each with its files in order.
    #[must_use]
    pub fn circles(&self) -> Vec<Vec<String>> {
        let imports: BTreeMap<&Module, BTreeSet<&Module>> = self
            .0
            .iter()
            .map(|(module, paths)| (module, self.imports(module, paths)))
            .collect();
        let reached: BTreeMap<&Module, BTreeSet<&Module>> = imports
            .keys()
            .map(|module| (*module, reached_from(module, &imports)))
            .collect();
        let mut circles = BTreeSet::new();
        for (module, all) in &reached {
            let back = all.iter().filter(|other| reached[*other].contains(module));
            let circle: Vec<String> = back.map(|module| name(module)).collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }

    /// The imports that are part of a circle: both files, and a path by which the first names the second.
    #[must_use]
    pub fn arrows(&self) -> Vec<[String; 3]> {
        let circles = self.circles();
        let mut found = BTreeSet::new();
        for (module, paths) in &self.0 {
            let own = name(module);
            let Some(circle) = circles.iter().find(|circle| circle.contains(&own)) else {
                continue;
            };
            for path in paths
                .iter()
                .filter(|p| !(p.is_exported && module.is_empty()))
            {
                let file = self.file_of(module, &path.parts, 0).map(name);
                let file = file.filter(|file| *file != own && circle.contains(file));
                found.extend(file.map(|file| [own.clone(), file, path.parts.join("::")]));
            }
        }
        found.into_iter().collect()
    }

    /// What a crate's folders are its layers for: each import of a file in one layer that stands on a higher one, as both
    /// files. Layers come from the lowest on.
    #[must_use]
    pub fn climbing(&self, layers: &[&str]) -> Vec<[String; 2]> {
        let layer = |module: &Module| {
            let folder = module.first()?;
            layers.iter().position(|layer| layer == folder)
        };
        let mut found = Vec::new();
        for (module, paths) in &self.0 {
            let imports = self.imports(module, paths).into_iter();
            let higher =
                imports.filter(|other| layer(module).is_some() && layer(other) > layer(module));
            found.extend(higher.map(|other| [name(module), name(other)]));
        }
        found
    }

    /// The files that a file imports.
    fn imports<'a>(&'a self, module: &Module, paths: &[Path]) -> BTreeSet<&'a Module> {
        paths
            .iter()
            .filter(|path| !(path.is_exported && module.is_empty()))
            .filter_map(|path| self.file_of(module, &path.parts, 0))
            .filter(|found| *found != module)
            .collect()
    }

    /// The file where what a path names stands.
    fn file_of<'a>(&'a self, from: &Module, path: &[String], depth: usize) -> Option<&'a Module> {
        let (mut at, mut rest) = (from.clone(), path);
        match rest.first()?.as_str() {
            "crate" => (at, rest) = (Module::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            child => {
                at.push(child.to_owned());
                if !self.0.contains_key(&at) {
                    return None;
                }
                rest = &rest[1..];
            }
        }
        while let [part, after @ ..] = rest {
            at.push(part.clone());
            if !self.0.contains_key(&at) {
                at.pop();
                break;
            }
            rest = after;
        }
        let (found, paths) = self.0.get_key_value(&at)?;
        let exported = rest.first().filter(|item| *item != "*" && depth < 8);
        let exported = exported.and_then(|item| {
            let exports = |path: &&Path| path.is_exported && path.parts.last() == Some(item);
            self.file_of(found, &paths.iter().find(exports)?.parts, depth + 1)
        });
        Some(exported.unwrap_or(found))
    }
}

fn reached_from<'a>(
    module: &'a Module,
    imports: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut open = vec![module];
    while let Some(module) = open.pop() {
        for next in imports.get(module).into_iter().flatten() {
            if found.insert(*next) {
                open.push(next);
            }
        }
    }
    found
}

fn name(module: &Module) -> String {
    match module.as_slice() {
        [] => "lib".to_owned(),
        parts => parts.join("/"),
    }
}

/// A source without comments and without what is compiled for tests alone. A module of tests is the end of its file.
fn without_tests(text: &str) -> String {
    let code = text.lines();
    let code: Vec<&str> = code
        .map(|line| line.split_once("//").map_or(line, |(code, _)| code))
        .collect();
    let code = code.join("\n");
    let mut rest = code.as_str();
    let mut kept = String::new();
    let marks = ["#[cfg(test)]", "#[cfg(all(test"];
    while let Some(at) = marks.iter().filter_map(|mark| rest.find(mark)).min() {
        kept.push_str(&rest[..at]);
        let item = without_attributes(&rest[at..]);
        let head = item.split_once('{').map_or(item, |(head, _)| head);
        if words(head).contains(&"mod") && !head.contains(';') {
            return kept;
        }
        rest = after_item(item);
    }
    kept + rest
}

/// What follows the attributes that a source begins with.
fn without_attributes(mut text: &str) -> &str {
    while text.starts_with("#[") {
        let mut depth = 0usize;
        let end = text.find(|c| {
            depth += usize::from(c == '[');
            depth -= usize::from(c == ']');
            c == ']' && depth == 0
        });
        text = end.map_or("", |end| text[end + 1..].trim_start());
    }
    text
}

/// What follows the item, statement or field that a source begins with.
fn after_item(text: &str) -> &str {
    let (mut depth, mut braces) = (0usize, 0usize);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '{' => braces += 1,
            '}' if braces == 0 => return &text[at..],
            '}' => {
                braces -= 1;
                if braces == 0 && depth == 0 {
                    let after = &text[at + 1..];
                    return after.trim_start().strip_prefix(';').unwrap_or(after);
                }
            }
            ';' | ',' if depth + braces == 0 => return &text[at + 1..],
            _ => {}
        }
    }
    ""
}

/// A path in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Path {
    parts: Vec<String>,
    /// Whether it is of a `pub use`, in whatever way `pub`.
    is_exported: bool,
}

/// Every path of a source, those of `use` trees spread out.
fn paths(code: &str) -> Vec<Path> {
    let words = words(code);
    let mut found = Vec::new();
    // Braces of modules that are written in this file: `super` in them is this file.
    let (mut open, mut modules) = (0usize, Vec::new());
    let mut at = 0;
    while at < words.len() {
        match words[at..] {
            ["mod", name, "{", ..] if is_name(name) => modules.push(open),
            ["{", ..] => open += 1,
            ["}", ..] => {
                open = open.saturating_sub(1);
                if modules.last() == Some(&open) {
                    modules.pop();
                }
            }
            _ => {}
        }
        let before = found.len();
        // A statement begins here: strings have the word too.
        let begins = at == 0 || [";", "{", "}", "]", ")", "pub"].contains(&words[at - 1]);
        if words[at] == "use" && begins {
            let is_exported = at > 0 && ["pub", ")"].contains(&words[at - 1]);
            at = tree(&words, at + 1, &[], &mut |parts| {
                found.push(Path { parts, is_exported });
            });
        } else if is_name(words[at]) && words.get(at + 1) == Some(&"::") {
            let mut parts = vec![words[at].to_owned()];
            while words.get(at + 1) == Some(&"::") && words.get(at + 2).is_some_and(|w| is_name(w))
            {
                parts.push(words[at + 2].to_owned());
                at += 2;
            }
            found.push(Path {
                parts,
                is_exported: false,
            });
            at += 1;
        } else {
            at += 1;
        }
        for Path { parts, .. } in &mut found[before..] {
            for _ in &modules {
                if parts.first().is_some_and(|part| part == "super") {
                    parts[0] = "self".to_owned();
                }
                if parts.len() > 1 && parts[0] == "self" && parts[1] == "super" {
                    parts.remove(0);
                }
            }
        }
    }
    found
}

/// Spreads out the `use` tree that begins at a word; gives the word after it.
fn tree(
    words: &[&str],
    mut at: usize,
    before: &[String],
    found: &mut dyn FnMut(Vec<String>),
) -> usize {
    let mut parts = before.to_vec();
    while let Some(&word) = words.get(at) {
        match word {
            "::" => at += 1,
            "{" => {
                at += 1;
                while let Some(&word) = words.get(at) {
                    match word {
                        "}" => return at + 1,
                        ";" => return at,
                        "," => at += 1,
                        _ => at = tree(words, at, &parts, found),
                    }
                }
                return at;
            }
            "as" => at += 2,
            "," | "}" | ";" => break,
            word => {
                parts.push(word.to_owned());
                at += 1;
            }
        }
    }
    if parts.last().is_some_and(|part| part == "self") && parts.len() > 1 {
        parts.pop();
    }
    found(parts);
    at
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::` and single other characters.
fn words(code: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let in_name = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            c if in_name(c) => rest.find(|c| !in_name(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            c => c.len_utf8(),
        };
        let (word, after) = rest.split_at(length);
        if !first.is_whitespace() {
            words.push(word);
        }
        rest = after;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let mut all = Files::default();
        for (place, text) in files {
            all.add(place, text);
        }
        all.circles()
    }

    #[test]
    fn two_files_that_name_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A;"),
            ("a.rs", "use crate::b::{B, C as D};"),
            ("b.rs", "fn f() -> crate::a::A { super::a::A }"),
            ("c.rs", "use crate::{a::A, b};"),
        ];
        assert_eq!(circles(&files), [["a", "b"]]);
    }

    #[test]
    fn what_is_exported_stands_where_it_comes_from() {
        let files = [
            ("a.rs", "use crate::b::Thing;"),
            ("b.rs", "pub use crate::c::Thing; use crate::a::X;"),
            ("c.rs", ""),
        ];
        assert_eq!(circles(&files), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_module_in_a_file_is_that_file() {
        let files = [
            ("a/mod.rs", "mod deep; fn f() { deep::g() }"),
            (
                "a/deep.rs",
                "mod inside { use super::g; use super::super::f; } use crate::b::h;",
            ),
            ("b.rs", "mod inside { use super::i; }"),
        ];
        assert_eq!(circles(&files), [["a", "a/deep"]]);
        let files = [files[0], ("a/deep.rs", "mod inside { use super::g; }")];
        assert_eq!(circles(&files), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_module_and_one_below_it_may_be_a_circle() {
        let files = [
            ("a/mod.rs", "mod deep; fn f() { deep::g() }"),
            ("a/deep.rs", "use super::f;"),
            ("b.rs", "// use crate::a::f;\n#[cfg(test)]\nuse crate::a;"),
        ];
        assert_eq!(circles(&files), [["a", "a/deep"]]);
    }

    #[test]
    fn what_stands_after_an_item_for_tests_counts() {
        let item = |item: &str| {
            let a = format!("#[cfg(test)]\n{item}\nfn f() {{ crate::b::g() }}");
            circles(&[("a.rs", a.as_str()), ("b.rs", "use crate::a::f;")])
        };
        for of_tests in [
            "mod tests;",
            "use crate::c::{D, E};",
            "pub(crate) type Cell = [u32; 2];",
            "#[allow(unused, reason = \"x[0]\")]\nfn lie(a: A, b: B) { if a { b } }",
            "impl A { fn a() {} fn b() {} }",
        ] {
            assert_eq!(item(of_tests), [["a", "b"]], "{of_tests}");
        }
        // What is for tests does not count, nor what follows a module of them.
        for of_tests in ["mod tests {", "pub(crate) mod tests {"] {
            assert_eq!(item(of_tests), Vec::<Vec<String>>::new(), "{of_tests}");
        }
        let files = [
            ("a.rs", "struct A { #[cfg(test)] b: B<crate::b::C>, d: D }"),
            ("b.rs", "use crate::a::A;"),
        ];
        assert_eq!(circles(&files), Vec::<Vec<String>>::new());
    }

    #[test]
    fn an_import_of_a_higher_floor_is_named() {
        let mut files = Files::default();
        for (place, text) in [
            ("low/mod.rs", "pub mod a;"),
            ("low/a.rs", "use crate::high::b::B; use crate::other::O;"),
            ("high/mod.rs", "pub mod b;"),
            ("high/b.rs", "use crate::low::c::C;"),
            ("low/c.rs", ""),
            ("other.rs", "use crate::high::b::B;"),
        ] {
            files.add(place, text);
        }
        assert_eq!(files.climbing(&["low", "high"]), [["low/a", "high/b"]]);
    }
}

//! Checks of the repository's structure: crate edges, circles, names, leftovers, file sizes, crate docs, links.
//!
//! Each check is a function from text to findings, so that it is tested on text; [`check`] walks the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::circles::Files;
use crate::manifest::Manifest;
use crate::names::Names;

/// Longest source file, in lines. Longer ones are split, or named in `LONG_FILES` with a reason.
pub const FILE_LINES_MAX: usize = 1000;

/// Files that may be longer than [`FILE_LINES_MAX`].
const LONG_FILES: &[&str] = &[];

/// Folders that hold no source of ours.
const SKIPPED_FOLDERS: &[&str] = &[
    "target",
    "node_modules",
    "__pycache__",
    "tensorgrid-data",
    "tensorgrid-demo",
    "corpus",
    "artifacts",
];

/// What may not stay in Rust source, and what to do instead. Written in two halves, so that this file passes.
const BANNED: &[(&str, &str)] = &[
    (concat!("FIX", "ME"), "fix it, or write an issue"),
    (concat!("TO", "DO"), "do it, or write an issue"),
    (concat!("db", "g!("), "remove it"),
    (
        concat!("#[ig", "nore"),
        "assert today's behaviour with a note instead",
    ),
    (
        concat!("#[should_", "panic"),
        "return an error and assert it, or catch the panic",
    ),
];

/// Paths of one machine that may not stay in any text.
const MACHINE_PATHS: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
];

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where, relative to the root; with a line where there is one.
    pub place: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl Finding {
    fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Allowed neighbours: a name (or a prefix ending in `*`) and who is allowed (`*` for everyone).
pub type Table = BTreeMap<String, BTreeSet<String>>;

/// Reads `name: allowed allowed ...` lines; `#` starts a comment.
#[must_use]
pub fn table(text: &str) -> Table {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| line.split_once(':'))
        .map(|(name, allowed)| {
            let allowed = allowed.split_whitespace().map(str::to_owned).collect();
            (name.trim().to_owned(), allowed)
        })
        .collect()
}

/// Every source below a crate's `src`: the crate, the place in `src`, the text.
fn sources(root: &Path) -> Result<Vec<(String, String, String)>> {
    let mut found = Vec::new();
    for path in files(root)? {
        let place = relative(root, &path);
        let inside = place.strip_prefix("crates/").unwrap_or(&place);
        if let Some((name, file)) = inside.split_once("/src/")
            && file.ends_with(".rs")
        {
            found.push((name.to_owned(), file.to_owned(), read(&path)?));
        }
    }
    Ok(found)
}

/// Compares what was found with a table of what is there still, a line each: neither new nor gone.
fn beside_table(
    root: &Path,
    table: &str,
    found: &BTreeSet<String>,
    (new, gone): (&str, &str),
) -> Result<Vec<Finding>> {
    let text = read(&root.join(table))?;
    let is_line = |line: &&str| !line.starts_with('#') && !line.is_empty();
    let known: BTreeSet<&str> = text.lines().filter(is_line).collect();
    let added = found.iter().filter(|line| !known.contains(line.as_str()));
    let added = added.map(|line| Finding::new(line, new));
    let ended = known.iter().filter(|line| !found.contains(**line));
    let gone = format!("{gone}: say so in {table}");
    let ended = ended.map(|line| Finding::new(*line, &gone));
    Ok(added.chain(ended).collect())
}

/// Every import that is part of a circle, a line each: `crate: file -> file (path)`.
///
/// # Errors
/// If a file or folder cannot be read.
pub fn arrows_in_circles(root: &Path) -> Result<Vec<String>> {
    let lines = files_of_crates(root)?
        .into_iter()
        .flat_map(|(name, files)| {
            let arrows = files.arrows().into_iter();
            arrows.map(move |[from, to, path]| format!("{name}: {from} -> {to} ({path})"))
        });
    Ok(lines.collect())
}

fn files_of_crates(root: &Path) -> Result<BTreeMap<String, Files>> {
    let mut crates: BTreeMap<String, Files> = BTreeMap::new();
    for (name, file, text) in sources(root)? {
        crates.entry(name).or_default().add(&file, &text);
    }
    Ok(crates)
}

/// Checks that no files of a crate import each other in a circle, but for those of the table: `crate: file file ...`, a
/// line for each circle that is still there; and that no file imports one of a higher layer.
///
/// # Errors
/// If a file or folder cannot be read.
pub fn check_circles(root: &Path) -> Result<Vec<Finding>> {
    let crates = files_of_crates(root)?;
    let found = crates.iter().flat_map(|(name, files)| {
        let circles = files.circles().into_iter();
        circles.map(move |circle| format!("{name}: {}", circle.join(" ")))
    });
    let words = (
        "these files import each other in a circle; move what they share below them",
        "this circle is there no more, or smaller",
    );
    let mut findings = beside_table(root, "xtask/circles.txt", &found.collect(), words)?;
    let layers = read(&root.join("xtask/layers.txt"))?;
    let layers = layers.lines().filter(|line| !line.starts_with('#'));
    let layers = layers.filter_map(|line| line.split_once(": "));
    let climbing = layers.flat_map(|(name, layers)| {
        let layers: Vec<&str> = layers.split_whitespace().collect();
        let arrows = crates.get(name).map(|files| files.climbing(&layers));
        let arrows = arrows.unwrap_or_default().into_iter();
        arrows.map(move |[from, to]| {
            let message = format!("{from} imports {to}, which stands on a higher layer");
            Finding::new(name, message)
        })
    });
    findings.extend(climbing);
    Ok(findings)
}

/// Checks that no name stands for two types, but for those of the table: `Name: crate crate ...`, a crate for each
/// definition that is still there.
///
/// # Errors
/// If a file or folder cannot be read.
pub fn check_names(root: &Path) -> Result<Vec<Finding>> {
    let mut names = Names::default();
    for (name, file, text) in sources(root)? {
        let is_test =
            |part: &str| part.trim_end_matches(".rs") == "tests" || part.ends_with("_tests.rs");
        if !file.split('/').any(is_test) {
            names.add(&name, &text);
        }
    }
    let words = (
        "these types share one name; give the new one a name of its own",
        "this name has fewer definitions, or other ones",
    );
    beside_table(
        root,
        "xtask/names.txt",
        &names.repeated().into_iter().collect(),
        words,
    )
}

/// Checks the whole repository at `root`.
///
/// # Errors
/// If a file or folder cannot be read.
pub fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = check_crates(root)?;
    findings.extend(check_circles(root)?);
    findings.extend(check_names(root)?);
    for path in files(root)? {
        let place = relative(root, &path);
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        findings.extend(text_findings(&place, &text));
        if place.ends_with(".md") {
            let folder = path.parent().unwrap_or(root);
            findings.extend(link_findings(&place, &text, |target| {
                folder.join(target).exists()
            }));
        }
    }
    Ok(findings)
}

/// Checks every crate's manifest and first line.
fn check_crates(root: &Path) -> Result<Vec<Finding>> {
    let edges = table(&read(&root.join("xtask/edges.txt"))?);
    let heavy = table(&read(&root.join("xtask/heavy.txt"))?);
    let mut folders = vec![root.join("xtask")];
    for entry in std::fs::read_dir(root.join("crates"))? {
        let folder = entry?.path();
        if folder.join("Cargo.toml").exists() {
            folders.push(folder);
        }
    }
    folders.sort();
    let name_of = |folder: &PathBuf| Some(folder.file_name()?.to_str()?.to_owned());
    let mut findings = gone_findings(&edges, &folders.iter().filter_map(name_of).collect());
    for folder in folders {
        let place = relative(root, &folder);
        let manifest = Manifest::parse(&read(&folder.join("Cargo.toml"))?);
        let folder_name = folder.file_name().and_then(|name| name.to_str());
        if folder_name != Some(manifest.name.as_str()) {
            findings.push(Finding::new(
                &place,
                "the folder is not named like its crate",
            ));
        }
        findings.extend(manifest_findings(&manifest, &edges, &heavy));
        let roots = ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file));
        for source in roots.iter().filter(|path| path.exists()) {
            if !read(source)?.starts_with("//! ") {
                findings.push(Finding::new(
                    relative(root, source),
                    "the crate's first line is not a one-line doc (`//! ...`)",
                ));
            }
        }
    }
    Ok(findings)
}

/// Names of the table of edges that are no crates.
#[must_use]
pub fn gone_findings(edges: &Table, crates: &BTreeSet<String>) -> Vec<Finding> {
    let names: BTreeSet<&String> = edges.keys().chain(edges.values().flatten()).collect();
    let gone = names
        .into_iter()
        .filter(|name| *name != "*" && !crates.contains(*name));
    gone.map(|name| Finding::new(name, "is named in xtask/edges.txt and is no crate"))
        .collect()
}

/// Checks one manifest against the tables.
#[must_use]
pub fn manifest_findings(manifest: &Manifest, edges: &Table, heavy: &Table) -> Vec<Finding> {
    let name = &manifest.name;
    let mut findings = Vec::new();
    if manifest.description.is_empty() {
        findings.push(Finding::new(name, "has no description in Cargo.toml"));
    }
    if !manifest.workspace_lints {
        findings.push(Finding::new(name, "does not take the workspace's lints"));
    }
    let Some(allowed) = edges.get(name) else {
        findings.push(Finding::new(name, "has no line in xtask/edges.txt"));
        return findings;
    };
    let dependencies = manifest.dependencies.iter();
    let illegal: Vec<&str> = dependencies
        .clone()
        .filter(|dependency| edges.contains_key(*dependency))
        .filter(|dependency| !allowed.contains(*dependency) && !allowed.contains("*"))
        .map(String::as_str)
        .collect();
    if !illegal.is_empty() {
        let list = illegal.join(", ");
        findings.push(Finding::new(
            name,
            format!("{name} may not depend on [{list}]"),
        ));
    }
    for dependency in dependencies {
        let holder = heavy
            .iter()
            .find(|(pattern, _)| matches(pattern, dependency));
        if let Some((_, holders)) = holder
            && !holders.contains(name)
        {
            let list: Vec<&str> = holders.iter().map(String::as_str).collect();
            findings.push(Finding::new(
                name,
                format!(
                    "{name} may not hold {dependency}: only [{}] may",
                    list.join(", ")
                ),
            ));
        }
    }
    findings
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(pattern == name, |prefix| name.starts_with(prefix))
}

/// Checks one file's text: leftovers, machine paths, length.
#[must_use]
pub fn text_findings(place: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_source = [".rs", ".py", ".sol", ".md"]
        .iter()
        .any(|end| place.ends_with(end));
    let lines = text.lines().count();
    if is_source && lines > FILE_LINES_MAX && !LONG_FILES.contains(&place) {
        findings.push(Finding::new(
            place,
            format!("{lines} lines, at most {FILE_LINES_MAX} are allowed: split it"),
        ));
    }
    for (index, line) in text.lines().enumerate() {
        let here = || format!("{place}:{}", index + 1);
        if place.ends_with(".rs") {
            for (word, advice) in BANNED.iter().filter(|(word, _)| line.contains(word)) {
                findings.push(Finding::new(here(), format!("{word} is banned: {advice}")));
            }
        }
        for path in MACHINE_PATHS.iter().filter(|path| line.contains(*path)) {
            findings.push(Finding::new(
                here(),
                format!("{path} is a path of one machine"),
            ));
        }
    }
    findings
}

/// Checks the relative links of a Markdown file. `exists` says whether a relative target is there.
#[must_use]
pub fn link_findings(place: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for rest in line.split("](").skip(1) {
            let Some((link, _)) = rest.split_once(')') else {
                continue;
            };
            let target = link.split(['#', ' ']).next().unwrap_or(link);
            let is_elsewhere = target.is_empty() || target.contains(':');
            if !is_elsewhere && !exists(target) {
                let here = format!("{place}:{}", index + 1);
                findings.push(Finding::new(here, format!("dead link to {target}")));
            }
        }
    }
    findings
}

/// Every file of the repository, sorted; hidden folders are skipped, `.ci` apart.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("list the folder {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let hidden = name.starts_with('.') && name != ".ci";
            let kind = entry.file_type()?;
            if kind.is_dir() && !hidden && !SKIPPED_FOLDERS.contains(&&*name) {
                folders.push(entry.path());
            } else if kind.is_file() && !hidden && name != "Cargo.lock" {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .to_string_lossy()
        .replace('\\', "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, dependencies: &[&str]) -> Manifest {
        Manifest {
            name: name.to_owned(),
            description: "Text.".to_owned(),
            dependencies: dependencies.iter().map(|&name| name.to_owned()).collect(),
            workspace_lints: true,
        }
    }

    fn edge_messages(name: &str, dependencies: &[&str]) -> Vec<String> {
        let edges =
            table("tg-types:\ntg-exec: tg-types\ntg-sdk: tg-types # comment\ntensorgrid: *");
        let heavy = table("axum: tg-api\np3-*: tg-proof tg-prover");
        manifest_findings(&manifest(name, dependencies), &edges, &heavy)
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn allowed_edges_pass() {
        assert!(edge_messages("tg-sdk", &["tg-types", "serde"]).is_empty());
        assert!(edge_messages("tensorgrid", &["tg-types", "tg-exec"]).is_empty());
    }

    #[test]
    fn an_edge_outside_the_table_is_named() {
        assert_eq!(
            edge_messages("tg-sdk", &["tg-types", "tg-exec"]),
            ["tg-sdk may not depend on [tg-exec]"]
        );
    }

    #[test]
    fn a_heavy_crate_elsewhere_is_named() {
        assert_eq!(
            edge_messages("tg-sdk", &["axum", "p3-field"]),
            [
                "tg-sdk may not hold axum: only [tg-api] may",
                "tg-sdk may not hold p3-field: only [tg-proof, tg-prover] may"
            ]
        );
    }

    #[test]
    fn a_crate_without_a_line_is_named() {
        assert_eq!(
            edge_messages("tg-new", &[]),
            ["has no line in xtask/edges.txt"]
        );
    }

    #[test]
    fn a_line_or_an_edge_of_no_crate_is_named() {
        let crates = ["tg-types", "tg-sdk"].map(str::to_owned).into();
        let gone = |text| {
            let findings = gone_findings(&table(text), &crates).into_iter();
            findings.map(|finding| finding.place).collect::<Vec<_>>()
        };
        assert_eq!(gone("tg-types:\ntg-sdk: tg-types\ntg-sdk: *"), [""; 0]);
        assert_eq!(gone("tg-types:\ntg-net: tg-types"), ["tg-net"]);
        assert_eq!(gone("tg-sdk: tg-types tg-net"), ["tg-net"]);
    }

    #[test]
    fn leftovers_are_found_with_their_line() {
        let text = format!("fn f() {{}}\n// {}: later\n", concat!("TO", "DO"));
        let findings = text_findings("crates/a/src/lib.rs", &text);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].place, "crates/a/src/lib.rs:2");
        assert!(text_findings("notes.txt", &text).is_empty());
    }

    #[test]
    fn long_files_are_found() {
        let text = "//\n".repeat(FILE_LINES_MAX + 1);
        assert_eq!(text_findings("a.rs", &text).len(), 1);
        assert!(text_findings("a.json", &text).is_empty());
        assert!(text_findings("a.rs", &text[3..]).is_empty());
    }

    #[test]
    fn machine_paths_are_found() {
        let text = format!("see {}someone/x", concat!("/ho", "me/"));
        assert_eq!(text_findings("README.md", &text).len(), 1);
    }

    #[test]
    fn dead_links_are_found() {
        let text = "[a](there.md#part) [b](gone.md) [c](https://x.y/z) [d](#here)";
        let findings = link_findings("README.md", text, |target| target == "there.md");
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].message, "dead link to gone.md");
    }
}

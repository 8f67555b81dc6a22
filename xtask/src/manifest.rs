//! Reads what the checks need from a `Cargo.toml`: its name, its description, and whom it depends on.
//!
//! This is a reader of the subset of TOML that this workspace writes (one dependency a line, or a table of its
//! own), so that the checks need no dependency and build in a second.

/// What a crate's manifest says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The package's name.
    pub name: String,
    /// The package's one-line description.
    pub description: String,
    /// Names of normal and build dependencies, of every target.
    pub dependencies: Vec<String>,
    /// Whether it takes the workspace's lints.
    pub workspace_lints: bool,
}

impl Manifest {
    /// Reads a manifest's text.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut manifest = Self::default();
        let mut section = String::new();
        for line in text.lines().map(str::trim) {
            if let Some(header) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                section = header.trim().to_owned();
                if let Some((table, name)) = section.rsplit_once('.')
                    && is_dependency_table(table)
                {
                    manifest.dependencies.push(unquote(name));
                }
                continue;
            }
            let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else {
                continue;
            };
            manifest.take(&section, key.trim(), value.trim());
        }
        manifest
    }

    fn take(&mut self, section: &str, key: &str, value: &str) {
        match (section, key) {
            ("package", "name") => self.name = unquote(value),
            ("package", "description") => self.description = unquote(value),
            ("lints", "workspace") => self.workspace_lints = value == "true",
            _ if is_dependency_table(section) => {
                let name = key.split('.').next().unwrap_or(key);
                self.dependencies
                    .push(renamed(value).unwrap_or_else(|| unquote(name)));
            }
            _ => {}
        }
    }
}

/// Whether a table holds dependencies that count: development dependencies do not.
fn is_dependency_table(table: &str) -> bool {
    let last = table.rsplit('.').next().unwrap_or(table);
    matches!(last, "dependencies" | "build-dependencies") && !table.starts_with("workspace")
}

/// The real name in `{ package = "name" }`.
fn renamed(value: &str) -> Option<String> {
    let rest = value
        .split_once("package")?
        .1
        .trim_start()
        .strip_prefix('=')?;
    let quoted = rest.trim_start().strip_prefix('"')?;
    Some(quoted.split_once('"')?.0.to_owned())
}

fn unquote(text: &str) -> String {
    text.trim().trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_and_dependencies() {
        let manifest = Manifest::parse(
            r#"
[package]
name = "tg-sdk"
description = "A client."

[lints]
workspace = true

[dependencies]
serde.workspace = true
tg-types = { workspace = true }
short = { package = "tg-exec", version = "1" }
# tg-node.workspace = true

[dev-dependencies]
tg-ledger.workspace = true

[target.'cfg(unix)'.dependencies]
libc = "1"

[build-dependencies.cc]
version = "1"
"#,
        );
        assert_eq!(manifest.name, "tg-sdk");
        assert_eq!(manifest.description, "A client.");
        assert!(manifest.workspace_lints);
        assert_eq!(
            manifest.dependencies,
            ["serde", "tg-types", "tg-exec", "libc", "cc"]
        );
    }

    #[test]
    fn the_workspace_table_is_not_a_dependency() {
        let manifest = Manifest::parse("[workspace.dependencies]\naxum = \"1\"\n");
        assert!(manifest.dependencies.is_empty());
    }
}

//! Settings of a process as a TOML file: read with the line of every mistake, and written as a sample with what each
//! setting means. Both follow from one declaration, so neither can forget a setting.

use std::path::Path;
use tg_console::files;

use serde::Serialize;
use serde::de::DeserializeOwned;

use tg_console::outcome::{Exit, Failure};

/// Most bytes of a file of settings.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One setting of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// Its key in the file.
    pub(crate) key: &'static str,
    /// What it means: the lines of its comment.
    pub(crate) meaning: &'static [&'static str],
}

/// All settings of a process.
pub(crate) trait Settings: Serialize + DeserializeOwned {
    /// The settings in the order in which they are written; a table comes last.
    const ALL: &'static [Setting];
}

/// Declares the settings of a process: the comment of each field is the comment in the sample.
macro_rules! settings {
    ($(#[doc = $about:literal])* $name:ident { $($(#[doc = $meaning:literal])+ $key:ident: $kind:ty,)* }) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            $($(#[doc = $meaning])+ pub(crate) $key: $kind,)*
        }

        impl $crate::network::settings::Settings for $name {
            const ALL: &'static [$crate::network::settings::Setting] = &[
                $($crate::network::settings::Setting {
                    key: stringify!($key),
                    meaning: &[$($meaning),+],
                },)*
            ];
        }
    };
}
pub(crate) use settings;

/// Reads a file of settings.
pub(crate) fn read<S: Settings>(path: &Path) -> Result<S, Failure> {
    let bytes = files::read(path, FILE_BYTES_MAX)?;
    let place = path.display().to_string();
    let text = String::from_utf8(bytes).map_err(|_| wrong(&place, "it is not UTF-8"))?;
    parse(&text, &place)
}

fn wrong(place: &str, what: &str) -> Failure {
    Failure::new(Exit::Usage, anyhow::anyhow!("{place}: {what}"))
}

/// Reads settings; `place` names the file.
fn parse<S: Settings>(text: &str, place: &str) -> Result<S, Failure> {
    let at = |offset: Option<usize>| match offset {
        Some(offset) => {
            let before = text.as_bytes().iter().take(offset);
            let line = 1 + before.filter(|byte| **byte == b'\n').count();
            format!("{place}, line {line}")
        }
        None => place.to_owned(),
    };
    let failed = |error: &toml::de::Error| {
        let start = error.span().map(|span| span.start);
        wrong(&at(start), error.message())
    };
    let table = toml::de::DeTable::parse(text).map_err(|error| failed(&error))?;
    for key in table.get_ref().keys() {
        let name: &str = key.get_ref();
        if S::ALL.iter().any(|setting| setting.key == name) {
            continue;
        }
        let failure = wrong(
            &at(Some(key.span().start)),
            &format!("there is no setting {name:?}"),
        );
        let known = S::ALL.iter().map(|setting| setting.key);
        return Err(match nearest(name, known) {
            Some(known) => failure.hint(format!("is it {known}?")),
            None => failure.hint("--sample shows all settings"),
        });
    }
    toml::from_str(text).map_err(|error| failed(&error))
}

/// The settings as a file, each below what it means.
pub(crate) fn render<S: Settings>(settings: &S) -> Result<String, Failure> {
    let values = toml::Table::try_from(settings)?;
    let mut text = String::new();
    for setting in S::ALL {
        for line in setting.meaning {
            text.push('#');
            text.push_str(line);
            text.push('\n');
        }
        match values.get(setting.key) {
            Some(value) => {
                let mut one = toml::Table::new();
                one.insert(setting.key.to_owned(), value.clone());
                text.push_str(&toml::to_string(&one)?);
            }
            None => text.push_str(&format!("# {} =\n", setting.key)),
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    Ok(text)
}

/// The known key that is written most like a wrong one, if any is like it at all.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.map(|key| (distance(name, key), key));
    let (distance, key) = distances.min()?;
    (distance <= key.len().max(3) / 2).then_some(key)
}

/// How many letters must be put in, left out or replaced to make one word of another.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, second) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *second);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeMap;

    use super::*;

    settings! {
        /// Settings of this test.
        Few {
            /// Where it listens.
            /// In two lines.
            listen: std::net::SocketAddr,
            /// How many.
            count: Option<u32>,
            /// By name.
            names: BTreeMap<String, String>,
        }
    }

    fn few() -> Few {
        Few {
            listen: "127.0.0.1:7".parse().unwrap(),
            count: None,
            names: [("a b".to_owned(), "c".to_owned())].into(),
        }
    }

    #[test]
    fn what_is_written_has_its_comments_and_is_read_again() {
        let text = render(&few()).unwrap();
        assert_eq!(
            text,
            "# Where it listens.\n# In two lines.\nlisten = \"127.0.0.1:7\"\n\n# How many.\n# count =\n\n# By name.\n\
             [names]\n\"a b\" = \"c\"\n"
        );
        assert_eq!(parse::<Few>(&text, "f").unwrap(), few());
        let some = Few {
            count: Some(3),
            ..few()
        };
        assert_eq!(parse::<Few>(&render(&some).unwrap(), "f").unwrap(), some);
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_the_nearest_key() {
        let told = |text: &str| {
            let failure = parse::<Few>(text, "f.toml").unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            format!("{:#} | {}", failure.error, failure.hint.unwrap_or_default())
        };
        let unknown = told("# c\nlisten = \"127.0.0.1:7\"\nconut = 3\n[names]\n");
        assert_eq!(
            unknown,
            "f.toml, line 3: there is no setting \"conut\" | is it count?"
        );
        assert!(told("zzzzzzzzzz = 1").ends_with("shows all settings"));
        let address = told("\nlisten = \"nowhere\"\n[names]\n");
        assert!(address.starts_with("f.toml, line 2: "), "{address}");
        let missing = told("listen = \"127.0.0.1:7\"\n");
        assert!(missing.contains("names"), "{missing}");
        let broken = told("listen = \"127\n");
        assert!(broken.starts_with("f.toml, line 1: "), "{broken}");
        let twice = told("count = 1\ncount = 2\n");
        assert!(twice.starts_with("f.toml, line 2: "), "{twice}");
    }

    #[test]
    fn words_are_as_far_apart_as_letters_differ() {
        for (one, other, apart) in [
            ("", "abc", 3),
            ("listen", "lisen", 1),
            ("api", "ipa", 2),
            ("same", "same", 0),
        ] {
            assert_eq!(distance(one, other), apart);
            assert_eq!(distance(other, one), apart);
        }
    }
}

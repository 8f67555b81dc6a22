//! Where groups of endpoints are kept: a file for each beside the key that pays them, written whole or not at all, for this user only.

use std::fs::File;
use std::path::{Path, PathBuf};

use tg_sdk::endpoint::record::{GROUP_FILE_BYTES_MAX, GroupRecord, is_name};
use tg_types::Amount;

use crate::grid::connect_args::KeyArguments;
use crate::grid::endpoint_args::GroupsArguments;
use tg_console::files;
use tg_console::outcome::{Exit, Failure, OrFail as _};

/// The folder of accounts of development networks, which have no key file.
const DEVELOPMENT: &str = "tensorgrid-endpoints";

/// Groups that are listed at most.
const GROUPS_MAX: usize = 1_000;

/// A folder of groups.
#[derive(Debug, Clone)]
pub(super) struct GroupFiles {
    folder: PathBuf,
}

/// The file of a group.
#[derive(Debug, Clone)]
pub(super) struct GroupFile {
    path: PathBuf,
}

impl GroupFiles {
    /// The folder of a key, or the one that was named.
    pub(super) fn of(key: &KeyArguments, groups: &GroupsArguments) -> Self {
        let folder = match (&groups.groups, &key.key) {
            (Some(folder), _) => folder.clone(),
            (None, Some(key)) => {
                let mut name = key.as_os_str().to_owned();
                name.push(".endpoints");
                name.into()
            }
            (None, None) => Path::new(DEVELOPMENT).join(&key.account),
        };
        Self { folder }
    }

    /// The file of a group that does not exist yet.
    pub(super) fn new_file(&self, name: &str) -> Result<GroupFile, Failure> {
        if !is_name(name) {
            let text = format!("`{}` cannot name a group", name.escape_debug());
            return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(
                "letters, digits, `-`, `_` and `.`, 64 at most, beginning with a letter or a digit and not with 0x: --name NAME",
            ));
        }
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let doing = format!("make the folder {}", self.folder.display());
        builder.create(&self.folder).or_fail(Exit::Failed, doing)?;
        let file = self.file(name);
        if file.path.exists() {
            let text = format!("there is a group called {name} already");
            return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(format!(
                "--name NAME calls this one something else; `tensorgrid endpoint close {name}` ends the other one"
            )));
        }
        Ok(file)
    }

    fn file(&self, name: &str) -> GroupFile {
        GroupFile {
            path: self.folder.join(format!("{name}.json")),
        }
    }

    /// The group of a name or an id, if there is one.
    pub(super) fn find(&self, name: &str) -> Result<Option<(GroupFile, GroupRecord)>, Failure> {
        if !is_name(name) {
            return Ok(None);
        }
        let file = self.file(name);
        if file.path.exists() {
            let record = file.read()?;
            return Ok(Some((file, record)));
        }
        let mut records = self.all()?.into_iter();
        let found = records.find(|it| it.id == name);
        Ok(found.map(|it| (self.file(&it.name), it)))
    }

    /// The same of one that has to be there.
    pub(super) fn named(&self, name: &str) -> Result<(GroupFile, GroupRecord), Failure> {
        self.find(name)?.ok_or_else(|| {
            let text = format!(
                "there is no group `{}` in {}",
                name.escape_debug(),
                self.folder.display()
            );
            Failure::new(Exit::NotFound, anyhow::anyhow!(text))
                .hint("`tensorgrid endpoint list` shows the groups; --groups names another folder")
        })
    }

    /// All groups, by their names.
    pub(super) fn all(&self) -> Result<Vec<GroupRecord>, Failure> {
        if !self.folder.exists() {
            return Ok(Vec::new());
        }
        let doing = format!("list {}", self.folder.display());
        let entries = std::fs::read_dir(&self.folder).or_fail(Exit::Usage, doing.clone())?;
        let mut paths = Vec::new();
        for entry in entries.take(8 * GROUPS_MAX) {
            let path = entry.or_fail(Exit::Usage, doing.clone())?.path();
            if path.extension().is_some_and(|it| it == "json") {
                paths.push(path);
            }
        }
        paths.sort();
        let files = paths.into_iter().take(GROUPS_MAX);
        files.map(|path| GroupFile { path }.read()).collect()
    }
}

impl GroupFile {
    /// What is kept.
    pub(super) fn read(&self) -> Result<GroupRecord, Failure> {
        let bytes = files::read(&self.path, GROUP_FILE_BYTES_MAX)?;
        let text = format!("{} is not the record of a group", self.path.display());
        GroupRecord::read(&bytes).or_fail(Exit::Usage, text)
    }

    /// Keeps a record. Money that another command added meanwhile stays added.
    pub(super) fn keep(&self, record: &GroupRecord) -> Result<(), Failure> {
        let _turn = self.turn()?;
        let mut record = record.clone();
        if self.path.exists() {
            record.money = record.money.max(self.read()?.money);
        }
        files::write_private(&self.path, &record.to_bytes())
    }

    /// Adds money; how much there is then.
    pub(super) fn add(&self, money: Amount) -> Result<GroupRecord, Failure> {
        let _turn = self.turn()?;
        let mut record = self.read()?;
        record.money = record.money.saturating_add(money);
        files::write_private(&self.path, &record.to_bytes())?;
        Ok(record)
    }

    /// Held as long as a command asks the group: two that count apart what is owed would both be refused.
    pub(super) fn in_use(&self) -> Result<File, Failure> {
        let held = files::try_lock(&self.path.with_extension("use"))?;
        held.ok_or_else(|| {
            let text = format!("another command uses the group of {}", self.path.display());
            Failure::new(Exit::Unavailable, anyhow::anyhow!(text)).hint(
                "a group counts what it owes in one place: ask with --parallel or --each in one command, or open a second group",
            )
        })
    }

    /// Removes the group, of which nothing is left.
    pub(super) fn remove(&self) -> Result<(), Failure> {
        let doing = format!("remove {}", self.path.display());
        std::fs::remove_file(&self.path).or_fail(Exit::Failed, doing)?;
        for ending in ["use", "turn"] {
            // It may not be there, and does no harm.
            let _gone = std::fs::remove_file(self.path.with_extension(ending));
        }
        Ok(())
    }

    /// Held while the file is read and written.
    fn turn(&self) -> Result<File, Failure> {
        files::lock(&self.path.with_extension("turn"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_sdk::endpoint::record::GroupTerms;
    use tg_sdk::endpoint::scaling::ScalingRules;
    use tg_types::{Address, JobNeeds, ModelId};

    fn record(name: &str) -> GroupRecord {
        GroupRecord::new(GroupTerms {
            name: name.to_owned(),
            id: "g12345678".to_owned(),
            account: Address::new([1; 20]),
            model: ModelId::new([2; 32]),
            model_name: "mlp-digits".to_owned(),
            rules: ScalingRules {
                min: 1,
                max: 2,
                queue_max: 8,
                queue_ms: 2_000,
                idle_ms: 60_000,
            },
            money: Amount::from_tgrid(9),
            minute_max: None,
            run_max: None,
            same_provider: false,
            until_ms: 1_000,
            needs: JobNeeds::ANY_MACHINE,
        })
        .unwrap()
    }

    #[test]
    fn a_group_is_kept_found_and_removed_and_added_money_stays() {
        let folder = tempfile::tempdir().unwrap();
        let files = GroupFiles {
            folder: folder.path().join("key.endpoints"),
        };
        assert_eq!(files.all().unwrap(), Vec::new());
        assert!(files.find("a").unwrap().is_none());
        let file = files.new_file("a").unwrap();
        let record = record("a");
        file.keep(&record).unwrap();
        assert!(files.new_file("a").is_err());
        assert!(files.new_file("../a").is_err());
        for name in ["a", "g12345678"] {
            assert_eq!(files.find(name).unwrap().unwrap().1, record);
        }
        file.add(Amount::from_tgrid(1)).unwrap();
        // Whoever uses it does not know yet.
        file.keep(&record).unwrap();
        assert_eq!(file.read().unwrap().money, Amount::from_tgrid(10));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&file.path), 0o600);
            assert_eq!(mode(&files.folder), 0o700);
        }
        let using = file.in_use().unwrap();
        assert!(file.in_use().is_err());
        drop(using);
        file.remove().unwrap();
        assert!(files.find("a").unwrap().is_none());
        assert_eq!(std::fs::read_dir(&files.folder).unwrap().count(), 0);
    }
}

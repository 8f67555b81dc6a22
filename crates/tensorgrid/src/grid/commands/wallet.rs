//! `tensorgrid wallet new`, `show`, `backup` and `passphrase`, and the hint that a key file has no backup.

use std::path::{Path, PathBuf};
use tg_console::files;

use tg_types::Wallet;

use super::{block_on, json_of, session};
use crate::grid::account_args::{
    WalletBackupArguments, WalletCommand, WalletNewArguments, WalletPassphraseArguments,
    WalletShowArguments,
};
use crate::grid::connect_args::KeyArguments;
use tg_console::accounts;
use tg_console::keys::{self, Passphrase};
use tg_console::outcome::{Exit, Failure, Outcome, line, say};

/// Runs a command about key files.
pub(crate) fn run(command: &WalletCommand, as_json: bool) -> Outcome {
    match command {
        WalletCommand::New(arguments) => new(arguments, as_json),
        WalletCommand::Show(arguments) => show(arguments, as_json),
        WalletCommand::Backup(arguments) => backup(arguments, as_json),
        WalletCommand::Passphrase(arguments) => passphrase(arguments, as_json),
        // It speaks to a grid, which these do not.
        WalletCommand::Session(command) => block_on(session::run(command, as_json)),
    }
}

fn new(arguments: &WalletNewArguments, as_json: bool) -> Outcome {
    let path = &arguments.file;
    let passphrase = Passphrase::read_optional(arguments.passphrase_file.as_ref())?;
    if path.exists() {
        let text = format!("{} exists, and is left as it is", path.display());
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint("name another file"));
    }
    let wallet = keys::draw_wallet()?;
    keys::write(path, &wallet.secret(), passphrase.as_ref())?;
    let address = wallet.address().to_string();
    if as_json {
        return json_of(&serde_json::json!({
            "file": path.display().to_string(), "address": address, "passphrase": passphrase.is_some(),
        }));
    }
    line(format_args!("{address} has its key in {}", path.display()))?;
    let how = match passphrase {
        Some(_) => "",
        None => " --backup-passphrase-file FILE",
    };
    say(format_args!(
        "next: tensorgrid wallet backup COPY --key {}{how}",
        path.display()
    ));
    Ok(())
}

fn show(arguments: &WalletShowArguments, as_json: bool) -> Outcome {
    let Some(path) = &arguments.key.key else {
        let name = &arguments.key.account;
        let address = accounts::wallet(name).address().to_string();
        if as_json {
            return json_of(&serde_json::json!({ "account": name, "address": address }));
        }
        return Ok(line(format_args!(
            "{address} is the account {name} of development networks: its key follows from its name"
        ))?);
    };
    let wallet = read(&arguments.key, path)?;
    let (address, is_locked) = (wallet.address().to_string(), keys::is_locked(path));
    let copy = backup_of(path);
    if as_json {
        return json_of(&serde_json::json!({
            "file": path.display().to_string(), "address": address, "passphrase": is_locked, "backup": copy,
        }));
    }
    line(address)?;
    line(match is_locked {
        true => "the key is under a passphrase",
        false => "the key is not under a passphrase: whoever reads the file has the money",
    })?;
    line(match copy {
        Some(copy) => format!("backup: {copy}"),
        None => "no backup was made by `tensorgrid wallet backup`".to_owned(),
    })?;
    Ok(())
}

fn backup(arguments: &WalletBackupArguments, as_json: bool) -> Outcome {
    let path = key_file(&arguments.key)?;
    let wallet = read(&arguments.key, path)?;
    let named = arguments.backup_passphrase_file.as_ref();
    let named = named.or(arguments.key.passphrase.passphrase_file.as_ref());
    let Some(passphrase) = Passphrase::read_optional(named)? else {
        let text = "a copy is kept under a passphrase, and none is named";
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
            .hint("--backup-passphrase-file FILE names the file that holds it"));
    };
    let to = &arguments.to;
    if to.exists() {
        let text = format!("{} exists, and is left as it is", to.display());
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint("name another file"));
    }
    keys::write(to, &wallet.secret(), Some(&passphrase))?;
    let again = keys::read_wallet(to, Some(&passphrase))?;
    if again.secret() != wallet.secret() {
        let text = format!("{} does not hold the key that was written", to.display());
        return Err(Failure::new(Exit::Failed, anyhow::anyhow!(text)).hint("try another disk"));
    }
    let place = std::path::absolute(to).unwrap_or_else(|_| to.clone());
    mark(path, &format!("{}\n", place.display()));
    let address = wallet.address().to_string();
    if as_json {
        return json_of(&serde_json::json!({
            "file": to.display().to_string(), "address": address, "verified": true,
        }));
    }
    Ok(line(format_args!(
        "the key of {address} is in {} too, under a passphrase, and was read back",
        to.display()
    ))?)
}

/// Puts a key under another passphrase than before, or one or none.
fn passphrase(arguments: &WalletPassphraseArguments, as_json: bool) -> Outcome {
    let path = key_file(&arguments.key)?;
    let wallet = read(&arguments.key, path)?;
    let passphrase = Passphrase::read_optional(arguments.new_passphrase_file.as_ref())?;
    keys::replace(path, &wallet.secret(), passphrase.as_ref())?;
    let address = wallet.address().to_string();
    if as_json {
        return json_of(&serde_json::json!({
            "file": path.display().to_string(), "address": address, "passphrase": passphrase.is_some(),
        }));
    }
    line(match &passphrase {
        Some(_) => format!("the key of {address} is under the new passphrase"),
        None => format!(
            "the key of {address} is under no passphrase: whoever reads the file has the money"
        ),
    })?;
    if let Some(copy) = backup_of(path) {
        say(format_args!(
            "{copy} keeps the passphrase that it was made with"
        ));
    }
    Ok(())
}

/// The key file that is named.
fn key_file(arguments: &KeyArguments) -> Result<&Path, Failure> {
    arguments.key.as_deref().ok_or_else(|| {
        let text = "no key file is named; keys of development accounts follow from their names";
        Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint("--key FILE")
    })
}

pub(super) fn read(arguments: &KeyArguments, path: &Path) -> Result<Wallet, Failure> {
    let passphrase = arguments.passphrase.passphrase_file.as_ref();
    let passphrase = Passphrase::read_optional(passphrase)?;
    keys::read_wallet(path, passphrase.as_ref())
}

/// The file beside a key file that says whether it has a backup.
fn note(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".backup");
    PathBuf::from(name)
}

/// Writes that file; where it cannot be written the hint is only shown again.
fn mark(path: &Path, text: &str) {
    let _ignored = std::fs::write(note(path), text);
}

/// Where the backup of a key file is, as far as this machine knows.
pub(super) fn backup_of(path: &Path) -> Option<String> {
    let bytes = files::read(&note(path), 4_096).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Says once, after the first paid job of a key file, that it has no backup.
pub(super) fn hint(arguments: &KeyArguments) {
    let Some(path) = &arguments.key else {
        return;
    };
    if note(path).exists() {
        return;
    }
    say(format_args!(
        "next: tensorgrid wallet backup COPY --key {} --backup-passphrase-file FILE, since nobody can make a lost key again",
        path.display()
    ));
    mark(path, "");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::grid::connect_args::PassphraseArguments;

    fn key(path: &Path, passphrase: Option<&Path>) -> KeyArguments {
        KeyArguments {
            key: Some(path.to_owned()),
            account: "requestor".to_owned(),
            passphrase: PassphraseArguments {
                passphrase_file: passphrase.map(Path::to_owned),
            },
        }
    }

    #[test]
    fn a_key_changes_its_passphrase_and_stays_the_same_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("one"), "correct horse\n").unwrap();
        std::fs::write(path("two"), "battery staple\n").unwrap();
        let made = WalletNewArguments {
            file: path("key"),
            passphrase_file: None,
            no_encryption: true,
        };
        new(&made, true).unwrap();
        let address = keys::read_wallet(&path("key"), None).unwrap().address();
        let change = |from: Option<&str>, to: Option<&str>| {
            let from = from.map(path);
            let asked = WalletPassphraseArguments {
                new_passphrase_file: to.map(path),
                no_encryption: to.is_none(),
                key: key(&path("key"), from.as_deref()),
            };
            passphrase(&asked, true).map_err(|failure| failure.exit)
        };
        let opens = |by: Option<&str>| {
            let by = by.map(|name| Passphrase::read(&path(name)).unwrap());
            let wallet = keys::read_wallet(&path("key"), by.as_ref());
            wallet.is_ok_and(|it| it.address() == address)
        };
        assert_eq!(change(None, Some("one")), Ok(()));
        assert!(opens(Some("one")) && !opens(None));
        // The passphrase of before is needed, and what is refused changes nothing.
        for wrong in [None, Some("two")] {
            assert_eq!(change(wrong, Some("two")), Err(Exit::Usage));
        }
        assert!(opens(Some("one")));
        assert_eq!(change(Some("one"), Some("two")), Ok(()));
        assert!(opens(Some("two")) && !opens(Some("one")));
        assert_eq!(change(Some("two"), None), Ok(()));
        assert!(opens(None));
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 3, "nothing is left beside it");
    }

    #[test]
    fn a_backup_is_the_same_key_under_a_passphrase_and_is_asked_for_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("secret"), "correct horse\n").unwrap();
        let made = WalletNewArguments {
            file: path("key"),
            passphrase_file: None,
            no_encryption: true,
        };
        new(&made, true).unwrap();
        assert_eq!(new(&made, true).unwrap_err().exit, Exit::Usage);
        hint(&key(&path("key"), None));
        assert!(note(&path("key")).exists());
        assert_eq!(backup_of(&path("key")), None);
        let mut asked = WalletBackupArguments {
            to: path("copy"),
            backup_passphrase_file: None,
            key: key(&path("key"), None),
        };
        assert_eq!(backup(&asked, true).unwrap_err().exit, Exit::Usage);
        assert!(!path("copy").exists());
        asked.backup_passphrase_file = Some(path("secret"));
        backup(&asked, true).unwrap();
        assert_eq!(backup(&asked, true).unwrap_err().exit, Exit::Usage);
        let passphrase = Passphrase::read(&path("secret")).unwrap();
        let copy = keys::read_wallet(&path("copy"), Some(&passphrase)).unwrap();
        let first = keys::read_wallet(&path("key"), None).unwrap();
        assert_eq!(copy.address(), first.address());
        assert!(keys::is_locked(&path("copy")) && !keys::is_locked(&path("key")));
        assert!(backup_of(&path("key")).unwrap().ends_with("copy"));
    }
}

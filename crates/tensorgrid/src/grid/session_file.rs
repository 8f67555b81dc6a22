//! Session keys of machines: their files (the secret, and the account for which it signs, a line each), and which key a process that runs all day
//! signs with.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tg_console::files;
use tg_console::outcome::{Exit, Failure};
use tg_sdk::text::FromText as _;
use tg_types::{Address, Digest, SessionWallet};

/// Most bytes of such a file.
const FILE_BYTES_MAX: u64 = 4_096;

/// Writes a key, readable for this user only.
pub(crate) fn write(path: &Path, wallet: &SessionWallet) -> Result<(), Failure> {
    let secret = Digest::new(wallet.secret()).to_string();
    let text = format!("{secret}\n{}\n", wallet.account());
    files::write_secret(path, &text)
}

/// Reads one.
pub(crate) fn read(path: &Path) -> Result<SessionWallet, Failure> {
    let bytes = files::read(path, FILE_BYTES_MAX)?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    let mut lines = text.lines().map(str::trim);
    let secret = lines.next().and_then(Digest::from_hex);
    let account = lines.next().and_then(Address::from_text);
    let (Some(secret), Some(account)) = (secret, account) else {
        let text = format!("{} is not the file of a session key", path.display());
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
            .hint("`tensorgrid wallet session new FILE` makes one"));
    };
    Ok(SessionWallet::from_secret(secret.as_bytes(), account))
}

/// Reads one that signs for an account.
pub(crate) fn read_of(path: &Path, account: Address) -> Result<SessionWallet, Failure> {
    let session = read(path)?;
    if session.account() == account {
        return Ok(session);
    }
    let text = format!(
        "the session key in {} signs for {}, not for {account}",
        path.display(),
        session.account()
    );
    Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)))
}

/// Which session key signs for a process that runs all day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionSetting {
    /// Keys that the process makes of its account's key, registers and replaces.
    Own,
    /// None: the account's own key signs.
    Off,
    /// The one of a file, as long as it is registered.
    File(PathBuf),
}

impl SessionSetting {
    /// What a setting or a flag says: `own`, `off`, or a file.
    pub(crate) fn of(text: &str) -> Self {
        match text {
            "own" => Self::Own,
            "off" => Self::Off,
            path => Self::File(path.into()),
        }
    }

    /// The same with a file that counts from a folder.
    pub(crate) fn placed(self, folder: &Path) -> Self {
        match self {
            Self::File(path) => Self::File(folder.join(path)),
            Self::Own | Self::Off => self,
        }
    }

    /// The same with a file that counts from the root.
    pub(crate) fn absolute(self) -> std::io::Result<Self> {
        Ok(match self {
            Self::File(path) => Self::File(std::path::absolute(path)?),
            Self::Own | Self::Off => self,
        })
    }
}

impl FromStr for SessionSetting {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::of(text))
    }
}

impl fmt::Display for SessionSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("own"),
            Self::Off => f.write_str("off"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_setting_is_own_off_or_a_file() {
        for (text, setting) in [
            ("own", SessionSetting::Own),
            ("off", SessionSetting::Off),
            ("./off", SessionSetting::File("./off".into())),
        ] {
            assert_eq!(SessionSetting::of(text), setting);
            assert_eq!(setting.to_string(), text);
        }
        let folder = Path::new("/etc/grid");
        let placed = |text: &str| SessionSetting::of(text).placed(folder).to_string();
        assert_eq!(placed("own"), "own");
        assert_eq!(placed("a.session"), "/etc/grid/a.session");
        assert_eq!(placed("/a.session"), "/a.session");
    }

    #[test]
    fn a_file_of_another_account_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.session");
        let account = Address::new([1; 20]);
        let wallet = SessionWallet::from_secret(&[7; 32], account);
        write(&path, &wallet).unwrap();
        assert_eq!(read_of(&path, account).unwrap().public(), wallet.public());
        let refused = read_of(&path, Address::new([2; 20])).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
    }
}

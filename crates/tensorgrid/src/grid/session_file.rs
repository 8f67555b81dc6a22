//! Files of session keys: the secret, and the account for which it signs, a line each.

use std::path::Path;

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

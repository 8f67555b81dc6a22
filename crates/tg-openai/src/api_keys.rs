//! API keys of the OpenAI routes: each is bound to an account that pays, up to a limit.
//!
//! The file has digests of keys, never a key; what each has spent is written beside it before an order is made, so that a
//! restart forgives nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tg_sdk::{Client, MachineSession, SessionChange, SessionPolicy};
use tg_types::{
    Address, Amount, Digest, SessionScope, SessionWallet, TransactionKind, Wallet, with_sources,
};

use tg_console::outcome::{Exit, Failure, OrFail, Outcome, say};
use tg_console::{accounts, files, keys};

/// The key of a development network that was given no file. Everybody knows it, as everybody can sign for its account.
pub const DEVELOPMENT_KEY: &str = "tensorgrid-development";

/// What may be spent with it until the grid is started again.
const DEVELOPMENT_LIMIT: Amount = Amount::from_tgrid(1_000);

/// Most bytes of a file of keys.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One key as the file has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    /// What it is called.
    name: String,
    /// BLAKE3 of the key, in hexadecimal.
    digest: String,
    /// Most that its orders may cost together, in TGRID.
    limit: String,
    /// File with the key of the account that pays, from the folder of this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wallet: Option<PathBuf>,
    /// Development account that pays if there is no such file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    account: Option<String>,
}

/// The file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    keys: Vec<KeyEntry>,
}

/// A key with the account that it is bound to.
#[derive(Debug)]
struct BoundKey {
    digest: Digest,
    wallet: Wallet,
    limit: Amount,
}

/// The keys, and what each has spent.
#[derive(Debug)]
pub struct ApiKeys {
    bound: BTreeMap<String, BoundKey>,
    /// The session keys that sign orders, by account; those without one sign by their own key.
    sessions: BTreeMap<Address, MachineSession>,
    spent: Mutex<BTreeMap<String, Amount>>,
    /// Where what was spent is written; nowhere for the key of a development network.
    spent_file: Option<PathBuf>,
}

/// The limit of a key does not allow an order.
#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    /// It is reached.
    #[error(
        "the key {name} may spend {limit} TGRID, has spent {spent}, and this costs up to {asked}"
    )]
    Limit {
        /// The key.
        name: String,
        /// Most that it may spend.
        limit: Amount,
        /// What it has spent.
        spent: Amount,
        /// What this costs at most.
        asked: Amount,
    },
    /// What was spent cannot be written.
    #[error("what the key has spent cannot be written: {0}")]
    Write(String),
}

impl ApiKeys {
    /// Reads a file of keys; without one, there is the key of a development network.
    ///
    /// # Errors
    /// If the file cannot be read, or a key in it is wrong.
    pub fn open(file: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = file else {
            return Ok(Self::development());
        };
        let listed = read(path)?;
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        let mut bound = BTreeMap::new();
        for entry in listed.keys {
            let (name, key) = (entry.name.clone(), bind(&entry, folder)?);
            if bound.insert(name.clone(), key).is_some() {
                let text = format!("{} has two keys called {name}", path.display());
                return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
            }
        }
        let spent_file = spent_file(path);
        let spent = read_spent(&spent_file)?;
        Ok(Self {
            bound,
            sessions: BTreeMap::new(),
            spent: Mutex::new(spent),
            spent_file: Some(spent_file),
        })
    }

    fn development() -> Self {
        let key = BoundKey {
            digest: digest(DEVELOPMENT_KEY),
            wallet: accounts::wallet(accounts::REQUESTOR),
            limit: DEVELOPMENT_LIMIT,
        };
        Self {
            bound: BTreeMap::from([("development".to_owned(), key)]),
            sessions: BTreeMap::new(),
            spent: Mutex::default(),
            spent_file: None,
        }
    }

    /// Has orders signed by session keys that are made for each account once it orders, registered, and replaced.
    #[must_use]
    pub fn with_sessions(mut self) -> Self {
        let wallets = self.bound.values().map(|it| it.wallet.clone());
        let made = wallets.map(|wallet| {
            let session = MachineSession::of_account(wallet, SessionScope::Order);
            (session.account(), session)
        });
        self.sessions = made.collect();
        self
    }

    /// Has the orders of one account signed by a session key that somebody registered.
    ///
    /// # Errors
    /// If no key is bound to the account for which it signs.
    pub fn with_session(mut self, session: SessionWallet) -> Result<Self, Failure> {
        let account = session.account();
        let mut bound = self.bound.values();
        if !bound.any(|it| it.wallet.address() == account) {
            let text = format!("the session key is of {account}, to which no API key is bound");
            return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
        }
        let session = MachineSession::given(session, SessionScope::Order);
        self.sessions.insert(account, session);
        Ok(self)
    }

    /// The session key that signs the orders of an account now; nothing if its own key does.
    pub(super) fn session(&self, account: &Address) -> Option<SessionWallet> {
        let session = self.sessions.get(account)?;
        // All that is signed for callers is of one scope.
        session.signing(TransactionKind::SubmitJob)
    }

    /// Looks after the session keys of accounts that ordered something.
    pub(super) async fn tend_sessions(&self, client: &Client) {
        for session in self.sessions.values().filter(|it| it.is_wanted()) {
            let account = session.account();
            match session.tend(client, &self.policy(&account)).await {
                Ok(Some(SessionChange::Signs(key))) => {
                    say(format_args!(
                        "session key {key} signs the orders of {account}"
                    ));
                }
                Ok(Some(SessionChange::Lost)) => say(format_args!(
                    "no session key of {account} is registered: its own key signs"
                )),
                Ok(None) => {}
                Err(error) => say(format_args!(
                    "look after the session key of {account}: {}",
                    with_sources(&error)
                )),
            }
        }
    }

    /// What a session key of an account may cost: as much as the limits of the API keys that are bound to it leave. What they get back counts
    /// against it for good, so it is replaced when it has a quarter of that.
    fn policy(&self, account: &Address) -> SessionPolicy {
        let bound = self.bound.iter();
        let own = bound.filter(|(_, key)| key.wallet.address() == *account);
        let left = own.map(|(name, _)| self.left(name));
        let cap = left.fold(Amount::ZERO, Amount::saturating_add);
        SessionPolicy::new(cap, cap.checked_mul_div_ceil(1, 4).unwrap_or(cap))
    }

    /// The name of a key, or nothing if there is none.
    pub fn caller(&self, key: &str) -> Option<String> {
        let digest = digest(key);
        let mut known = self.bound.iter();
        known
            .find(|(_, bound)| bound.digest == digest)
            .map(|(name, _)| name.clone())
    }

    /// The wallet that pays for a caller.
    pub fn wallet(&self, caller: &str) -> Option<&Wallet> {
        self.bound.get(caller).map(|bound| &bound.wallet)
    }

    /// Whether the limit allows what orders may cost.
    ///
    /// # Errors
    /// By how much it does not.
    pub fn allows(&self, caller: &str, amount: Amount) -> Result<(), ReserveError> {
        let all = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        self.after(&all, caller, amount).map(|_| ())
    }

    /// What of its limit a caller has not spent.
    pub(super) fn left(&self, caller: &str) -> Amount {
        let all = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = self.bound.get(caller).map_or(Amount::ZERO, |it| it.limit);
        let spent = all.get(caller).copied().unwrap_or(Amount::ZERO);
        limit.saturating_sub(spent)
    }

    /// What is spent after an order that may cost so much, if the limit allows it.
    fn after(
        &self,
        all: &BTreeMap<String, Amount>,
        caller: &str,
        asked: Amount,
    ) -> Result<Amount, ReserveError> {
        let limit = self.bound.get(caller).map_or(Amount::ZERO, |it| it.limit);
        let spent = all.get(caller).copied().unwrap_or(Amount::ZERO);
        let after = spent.checked_add(asked).filter(|after| *after <= limit);
        after.ok_or_else(|| ReserveError::Limit {
            name: caller.to_owned(),
            limit,
            spent,
            asked,
        })
    }

    /// Counts what an order may cost as spent, if the limit allows it.
    ///
    /// # Errors
    /// If it does not, or the count cannot be written.
    pub fn reserve(&self, caller: &str, amount: Amount) -> Result<(), ReserveError> {
        let mut all = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let after = self.after(&all, caller, amount)?;
        all.insert(caller.to_owned(), after);
        self.keep(&all)
            .map_err(|failure| ReserveError::Write(format!("{:#}", failure.error)))
    }

    /// Counts what an order cost beyond what was counted before, whether the limit allows it or not: it is spent.
    pub(super) fn add(&self, caller: &str, amount: Amount) {
        let mut all = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let spent = all.entry(caller.to_owned()).or_insert(Amount::ZERO);
        *spent = spent.saturating_add(amount);
        // It is counted until a restart, as far as it is not written.
        if let Err(failure) = self.keep(&all) {
            say(format_args!("{:#}", failure.error));
        }
    }

    /// Gives back what an order did not cost.
    pub fn release(&self, caller: &str, amount: Amount) {
        let mut all = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(spent) = all.get_mut(caller) {
            *spent = spent.checked_sub(amount).unwrap_or(Amount::ZERO);
        }
        // What is not written counts as spent after a restart, which nobody loses by but the key's owner.
        if let Err(failure) = self.keep(&all) {
            say(format_args!("{:#}", failure.error));
        }
    }

    fn keep(&self, spent: &BTreeMap<String, Amount>) -> Outcome {
        let Some(path) = &self.spent_file else {
            return Ok(());
        };
        let text: BTreeMap<&String, String> = spent
            .iter()
            .map(|(name, amount)| (name, amount.to_string()))
            .collect();
        files::write_private(path, &serde_json::to_vec_pretty(&text)?)
    }
}

/// Where is written what the keys of a file have spent.
#[must_use]
pub fn spent_file(keys: &Path) -> PathBuf {
    keys.with_extension("spent.json")
}

fn digest(key: &str) -> Digest {
    Digest::of_blob(key.as_bytes())
}

fn bind(entry: &KeyEntry, folder: &Path) -> Result<BoundKey, Failure> {
    let wrong = |what: &str| {
        let text = format!("the API key {}: {what}", entry.name);
        Failure::new(Exit::Usage, anyhow::anyhow!(text))
    };
    let digest = Digest::from_hex(&entry.digest);
    let wallet = match (&entry.wallet, &entry.account) {
        (Some(file), None) => keys::read_wallet(&folder.join(file), None)?,
        (None, Some(account)) => accounts::wallet(account),
        _ => return Err(wrong("it names either `wallet` or `account`")),
    };
    Ok(BoundKey {
        digest: digest.ok_or_else(|| wrong("`digest` is 64 hexadecimal digits"))?,
        wallet,
        limit: entry
            .limit
            .parse()
            .map_err(|_| wrong("`limit` is TGRID as a string"))?,
    })
}

fn read(path: &Path) -> Result<KeyFile, Failure> {
    let bytes = files::read(path, FILE_BYTES_MAX)?;
    serde_json::from_slice(&bytes).or_fail(Exit::Usage, format!("read {}", path.display()))
}

fn read_spent(path: &Path) -> Result<BTreeMap<String, Amount>, Failure> {
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let bytes = files::read(path, FILE_BYTES_MAX)?;
    let text: BTreeMap<String, String> =
        serde_json::from_slice(&bytes).or_fail(Exit::Usage, format!("read {}", path.display()))?;
    let amounts = text.into_iter().map(|(name, amount)| {
        let amount = amount.parse::<Amount>();
        Ok((
            name,
            amount.or_fail(Exit::Usage, format!("read {}", path.display()))?,
        ))
    });
    amounts.collect()
}

/// A key that is to be made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// What it is called.
    pub name: String,
    /// Most that its orders may cost together.
    pub limit: Amount,
    /// File with the key of the account that pays, from the folder of the file of keys.
    pub wallet: Option<PathBuf>,
    /// Development account that pays if there is no such file.
    pub account: String,
}

/// Makes a key and writes its digest into the file, which is made if it is missing. The key is nowhere but in the answer.
///
/// # Errors
/// If the file has a key of this name, or cannot be read or written.
pub fn make(path: &Path, new: NewKey) -> Result<String, Failure> {
    let mut listed = match path.exists() {
        true => read(path)?,
        false => KeyFile::default(),
    };
    if listed.keys.iter().any(|entry| entry.name == new.name) {
        let text = format!("{} has a key called {} already", path.display(), new.name);
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
    }
    let drawn = Digest::new(keys::draw()?).to_string();
    let key = format!("tg-{}", drawn.trim_start_matches("0x"));
    listed.keys.push(KeyEntry {
        name: new.name,
        digest: digest(&key).to_string(),
        limit: new.limit.to_string(),
        account: new.wallet.is_none().then_some(new.account),
        wallet: new.wallet,
    });
    // Who made it for a process of another user keeps it so.
    let former = std::fs::metadata(path).ok().map(|it| it.permissions());
    files::write_private(path, &serde_json::to_vec_pretty(&listed)?)?;
    if let Some(former) = former {
        let kept = std::fs::set_permissions(path, former);
        kept.or_fail(Exit::Failed, format!("write {}", path.display()))?;
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn amount(text: &str) -> Amount {
        text.parse().unwrap()
    }

    #[test]
    fn a_key_spends_up_to_its_limit_and_a_restart_forgives_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let entry = KeyEntry {
            name: "alice".to_owned(),
            digest: digest("secret").to_string(),
            limit: "1.5".to_owned(),
            wallet: None,
            account: Some("requestor".to_owned()),
        };
        let file = KeyFile { keys: vec![entry] };
        std::fs::write(&path, serde_json::to_vec(&file).unwrap()).unwrap();
        let keys = ApiKeys::open(Some(&path)).unwrap();
        assert_eq!(keys.caller("secret").as_deref(), Some("alice"));
        assert_eq!(keys.caller("other"), None);
        assert!(keys.wallet("alice").is_some() && keys.wallet("bob").is_none());
        keys.reserve("alice", amount("1")).unwrap();
        assert!(matches!(
            keys.reserve("alice", amount("0.6")),
            Err(ReserveError::Limit { .. })
        ));
        assert!(keys.allows("alice", amount("0.6")).is_err());
        keys.allows("alice", amount("0.5")).unwrap();
        keys.release("alice", amount("0.25"));
        let again = ApiKeys::open(Some(&path)).unwrap();
        again.reserve("alice", amount("0.75")).unwrap();
        assert!(again.reserve("alice", amount("0.000001")).is_err());
        assert!(!std::fs::read_to_string(&path).unwrap().contains("secret"));
    }

    #[test]
    fn a_session_key_may_cost_what_the_limits_of_its_account_leave() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        for (name, account) in [("a", "requestor"), ("b", "requestor"), ("c", "other")] {
            let new = NewKey {
                name: name.to_owned(),
                limit: amount("2"),
                wallet: None,
                account: account.to_owned(),
            };
            make(&path, new).unwrap();
        }
        let keys = ApiKeys::open(Some(&path)).unwrap();
        let account = keys.wallet("a").unwrap().address();
        assert!(keys.session(&account).is_none() && keys.sessions.is_empty());
        keys.reserve("b", amount("1")).unwrap();
        assert_eq!(keys.policy(&account).cap, amount("3"));
        assert_eq!(keys.policy(&account).left_min, amount("0.75"));
        let keys = keys.with_sessions();
        assert_eq!(keys.sessions.len(), 2);
        // None is made for an account that orders nothing.
        assert!(keys.sessions.values().all(|it| !it.is_wanted()));
        assert!(keys.session(&account).is_none());
        assert!(keys.sessions[&account].is_wanted());
        // One that somebody registered is of an account that pays.
        let given = |account| SessionWallet::from_secret(&[7; 32], account);
        assert!(keys.with_session(given(Address::new([9; 20]))).is_err());
        let keys = ApiKeys::open(Some(&path)).unwrap();
        let keys = keys.with_session(given(account)).unwrap();
        assert_eq!(keys.sessions.len(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn other_users_read_no_keys_and_not_what_they_spent() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let new = |name: &str| NewKey {
            name: name.to_owned(),
            limit: amount("2"),
            wallet: None,
            account: "requestor".to_owned(),
        };
        make(&path, new("a")).unwrap();
        assert_eq!(mode(&path), 0o600);
        let keys = ApiKeys::open(Some(&path)).unwrap();
        keys.reserve("a", amount("1")).unwrap();
        assert_eq!(mode(&path.with_extension("spent.json")), 0o600);
        // Its operator let a group read it.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        make(&path, new("b")).unwrap();
        assert_eq!(mode(&path), 0o640);
    }

    #[test]
    fn files_that_are_not_whole_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let digest = digest("k");
        for text in [
            "{}".to_owned(),
            r#"{"keys": [{"name": "a", "digest": "0x12", "limit": "1", "account": "requestor"}]}"#
                .to_owned(),
            format!(
                r#"{{"keys": [{{"name": "a", "digest": "{digest}", "limit": "x", "account": "requestor"}}]}}"#
            ),
            format!(r#"{{"keys": [{{"name": "a", "digest": "{digest}", "limit": "1"}}]}}"#),
            format!(
                r#"{{"keys": [{{"name": "a", "digest": "{digest}", "limit": "1", "account": "r", "x": 1}}]}}"#
            ),
        ] {
            std::fs::write(&path, &text).unwrap();
            assert!(ApiKeys::open(Some(&path)).is_err(), "{text}");
        }
    }
}

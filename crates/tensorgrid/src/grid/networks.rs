//! For which networks a key signs, kept beside its file.
//!
//! A signature holds on the network whose domain it is made for, whoever asked for it. An API says which one it is of, and may say that it is
//! of another: then what is signed for play money holds where the same key has real money. So the first use of a key says for which
//! network it is, and an API that says another one later is refused.

use std::path::{Path, PathBuf};

use tg_console::files;
use tg_console::outcome::{Exit, Failure, Outcome, say};
use tg_ledger::development_domain;
use tg_sdk::text::FromText as _;
use tg_types::{Address, ChainDomain, Digest};

/// Most bytes of a file of networks.
const FILE_BYTES_MAX: u64 = 1 << 16;

/// A network that a key signs for, and an API of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownNetwork {
    domain: ChainDomain,
    api: String,
}

/// What is known of what an API says.
#[derive(Debug, PartialEq, Eq)]
enum NetworkStanding {
    /// The API was asked before and says the same; or nothing is at stake, since it is a development network.
    Known,
    /// The key is of this network, and the API was not asked before.
    NewApi,
    /// The key was used for no network yet.
    NewKey,
    /// The API said another network before, or the key is of others.
    Other(ChainDomain),
}

/// Takes note that an API says of which network it is to a key that signs for it.
///
/// # Errors
/// If the key was used for another network, or the API said another one.
pub(crate) fn remember(api: &str, key: &Path, told: &ChainDomain) -> Outcome {
    let file = beside(key);
    let mut known = read(&file)?;
    match standing(&known, api, told) {
        NetworkStanding::Known => return Ok(()),
        NetworkStanding::NewApi => say(format_args!(
            "{api} says that it is of the network that {} signs for: {told}",
            key.display()
        )),
        NetworkStanding::NewKey => say(format_args!(
            "{} signs for the network of {api} from now on: {told}",
            key.display(),
        )),
        NetworkStanding::Other(expected) => {
            return Err(refused(api, (key, &file), (&expected, told)));
        }
    }
    known.push(KnownNetwork {
        domain: *told,
        api: api.to_owned(),
    });
    if let Err(failure) = files::write(&file, text_of(&known).as_bytes()) {
        say(format_args!(
            "this is not kept, and a later change is not seen: {:#}",
            failure.error
        ));
    }
    Ok(())
}

fn refused(
    api: &str,
    (key, file): (&Path, &Path),
    (expected, told): (&ChainDomain, &ChainDomain),
) -> Failure {
    let text = format!(
        "{api} says that it is of the network {told}, and {} signs for {expected}: nothing was signed",
        key.display()
    );
    let line = line_of(&KnownNetwork {
        domain: *told,
        api: api.to_owned(),
    });
    Failure::new(Exit::Rejected, anyhow::anyhow!(text)).hint(format!(
        "the API may want a signature that holds on another network. Name an API of the network that is meant, or sign with another key \
         (`tensorgrid wallet new`); if the key is really for this network too, its line in {} is: {line}",
        file.display()
    ))
}

fn standing(known: &[KnownNetwork], api: &str, told: &ChainDomain) -> NetworkStanding {
    if let Some(before) = known.iter().rfind(|it| it.api == api) {
        return match before.domain == *told {
            true => NetworkStanding::Known,
            false => NetworkStanding::Other(before.domain),
        };
    }
    // All development networks have one domain, and play money.
    if *told == development_domain() {
        return NetworkStanding::Known;
    }
    match known.first() {
        None => NetworkStanding::NewKey,
        Some(_) if known.iter().any(|it| it.domain == *told) => NetworkStanding::NewApi,
        Some(first) => NetworkStanding::Other(first.domain),
    }
}

/// `KEY.networks`.
pub(crate) fn beside(key: &Path) -> PathBuf {
    let mut name = key.as_os_str().to_owned();
    name.push(".networks");
    name.into()
}

fn read(file: &Path) -> Result<Vec<KnownNetwork>, Failure> {
    if !file.exists() {
        return Ok(Vec::new());
    }
    let bytes = files::read(file, FILE_BYTES_MAX)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| known_of(file, line)).collect()
}

fn known_of(file: &Path, line: &str) -> Result<KnownNetwork, Failure> {
    let parsed = || {
        let mut words = line.split_whitespace();
        let chain_id = words.next()?.parse().ok()?;
        let verifying_contract = Address::from_text(words.next()?)?;
        let salt = Digest::from_text(words.next()?)?;
        let api = words.next()?.to_owned();
        let domain = ChainDomain {
            chain_id,
            verifying_contract,
            salt: *salt.as_bytes(),
        };
        words
            .next()
            .is_none()
            .then_some(KnownNetwork { domain, api })
    };
    parsed().ok_or_else(|| {
        let text = format!("{}: {line:?} names no network", file.display());
        Failure::new(Exit::Usage, anyhow::anyhow!(text))
            .hint("a line is: CHAIN-ID CONTRACT SALT API-ADDRESS")
    })
}

fn line_of(known: &KnownNetwork) -> String {
    let KnownNetwork { domain, api } = known;
    let salt = Digest::new(domain.salt);
    format!(
        "{} {} {salt} {api}",
        domain.chain_id, domain.verifying_contract
    )
}

fn text_of(known: &[KnownNetwork]) -> String {
    known.iter().map(|it| line_of(it) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const API: &str = "https://grid.example.org";

    fn domain(chain_id: u64) -> ChainDomain {
        ChainDomain {
            chain_id,
            verifying_contract: Address::new([7; 20]),
            salt: [9; 32],
        }
    }

    #[test]
    fn a_change_of_network_is_refused() {
        let main = vec![KnownNetwork {
            domain: domain(1),
            api: API.to_owned(),
        }];
        let other = "https://play.example.org";
        assert_eq!(standing(&[], API, &domain(1)), NetworkStanding::NewKey);
        assert_eq!(standing(&main, API, &domain(1)), NetworkStanding::Known);
        assert_eq!(standing(&main, other, &domain(1)), NetworkStanding::NewApi);
        for api in [API, other] {
            let refused = standing(&main, api, &domain(2));
            assert_eq!(refused, NetworkStanding::Other(domain(1)), "{api}");
        }
        // Play money is signed for anywhere but where real money was.
        let play = development_domain();
        assert_eq!(standing(&main, other, &play), NetworkStanding::Known);
        assert_eq!(
            standing(&main, API, &play),
            NetworkStanding::Other(domain(1))
        );
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let kept = vec![
            KnownNetwork {
                domain: domain(1),
                api: API.to_owned(),
            },
            KnownNetwork {
                domain: domain(2),
                api: "http://127.0.0.1:7070".to_owned(),
            },
        ];
        let file = Path::new("key.networks");
        let text = text_of(&kept);
        let read: Result<Vec<_>, _> = text.lines().map(|line| known_of(file, line)).collect();
        assert_eq!(read.ok(), Some(kept));
        assert!(known_of(file, "1 0x12 0x34 http://a:1").is_err());
    }
}

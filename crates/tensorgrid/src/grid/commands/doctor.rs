//! `tensorgrid doctor`: what is wrong with this machine, its settings or the grid it uses, and what to do.

use std::path::Path;

use tg_cuda::Probe;
use tg_exec::kernels::SimdLevel;
use tg_ledger::PROTOCOL_VERSION;
use tg_sdk::dto::{OfferDto, StatusDto};
use tg_sdk::{Client, clock};
use tg_types::{Amount, Wallet};

use super::{json_of, wallet};
use crate::grid::account_args::DoctorArguments;
use crate::grid::connect;
use crate::grid::connect_args::KeyArguments;
use tg_console::keys;
use tg_console::outcome::{Exit, Failure, Outcome, line};
use tg_console::table::short;

/// Free disk below which a grid's state soon does not fit, in GiB: warned, and failed.
const DISK_GIB: [u64; 2] = [5, 1];

/// Free memory below which models do not run, in MiB: warned, and failed.
const MEMORY_MIB: [u64; 2] = [1_024, 256];

/// How far this clock may be behind the grid's before orders come too late.
const CLOCK_BEHIND_MS: u64 = 2_000;

/// Age of the last block from which on the grid is said to stand still.
const BLOCK_AGE_MS: u64 = 60_000;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    /// Nothing is wrong.
    Ok,
    /// It works, and something may be better.
    Warn,
    /// It does not work.
    Fail,
}

impl Health {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// A check that was made.
#[derive(Debug, Clone, serde::Serialize)]
struct Checkup {
    check: &'static str,
    health: Health,
    text: String,
    /// What to do; empty if nothing.
    hint: String,
}

impl Checkup {
    fn ok(check: &'static str, text: impl Into<String>) -> Self {
        Self {
            check,
            health: Health::Ok,
            text: text.into(),
            hint: String::new(),
        }
    }

    fn bad(check: &'static str, health: Health, text: impl Into<String>, hint: &str) -> Self {
        Self {
            health,
            hint: hint.to_owned(),
            ..Self::ok(check, text)
        }
    }
}

/// Makes every check and prints what came out.
pub(crate) async fn run(arguments: &DoctorArguments, as_json: bool) -> Outcome {
    let mut findings = vec![
        processor(SimdLevel::best()),
        memory(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default()),
        disk(&arguments.data_dir),
        gpu(&tg_cuda::probe()),
    ];
    findings.extend(key(&arguments.key));
    findings.extend(grid(arguments).await);
    if as_json {
        json_of(&findings)?;
    } else {
        for finding in &findings {
            let Checkup {
                check,
                health,
                text,
                hint,
            } = finding;
            let hint = if hint.is_empty() {
                String::new()
            } else {
                format!("; {hint}")
            };
            line(format_args!(
                "{:<5} {check:<10} {text}{hint}",
                health.as_str()
            ))?;
        }
    }
    let failed = findings
        .iter()
        .filter(|it| it.health == Health::Fail)
        .count();
    if failed == 0 {
        return Ok(());
    }
    let text = format!("{failed} of {} checks fail", findings.len());
    Err(Failure::new(Exit::Failed, anyhow::anyhow!(text)))
}

fn processor(level: SimdLevel) -> Checkup {
    let text = format!("models run with {level} instructions");
    if level.name() != "scalar" {
        return Checkup::ok("processor", text);
    }
    let hint = "a processor with AVX2 is several times as fast; TENSORGRID_CPU may forbid it";
    Checkup::bad("processor", Health::Warn, text, hint)
}

/// The memory that is free, from the text of `/proc/meminfo`.
fn memory(told: &str) -> Checkup {
    let free = told.lines().find_map(|line| {
        let rest = line.strip_prefix("MemAvailable:")?;
        rest.trim().trim_end_matches(" kB").parse::<u64>().ok()
    });
    let Some(kib) = free else {
        return Checkup::ok("memory", "this system does not tell");
    };
    let mib = kib >> 10;
    let text = format!("{mib} MiB are free");
    let hint = "end other programs: large models and their proofs take gigabytes";
    match mib {
        mib if mib < MEMORY_MIB[1] => Checkup::bad("memory", Health::Fail, text, hint),
        mib if mib < MEMORY_MIB[0] => Checkup::bad("memory", Health::Warn, text, hint),
        _ => Checkup::ok("memory", text),
    }
}

/// The disk of a folder, or of the one that it would be made in.
#[cfg(unix)]
fn disk(folder: &Path) -> Checkup {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let Some(there) = whole.ancestors().find(|it| it.exists()) else {
        let text = format!("{} is on no disk", folder.display());
        return Checkup::bad(
            "disk",
            Health::Fail,
            text,
            "--data-dir names another folder",
        );
    };
    match rustix::fs::statvfs(there) {
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize) >> 30;
            let text = format!("{free} GiB are free for {}", folder.display());
            let hint = "make room: a node that cannot write stops";
            match free {
                free if free < DISK_GIB[1] => Checkup::bad("disk", Health::Fail, text, hint),
                free if free < DISK_GIB[0] => Checkup::bad("disk", Health::Warn, text, hint),
                _ => Checkup::ok("disk", text),
            }
        }
        Err(error) => {
            let text = format!("{} cannot be looked at: {error}", there.display());
            Checkup::bad(
                "disk",
                Health::Warn,
                text,
                "--data-dir names another folder",
            )
        }
    }
}

/// The disk of a folder: this system does not tell.
#[cfg(not(unix))]
fn disk(_folder: &Path) -> Checkup {
    Checkup::ok("disk", "this system does not tell")
}

fn gpu(found: &Probe) -> Checkup {
    if let Some(device) = found.usable().next() {
        return Checkup::ok("gpu", format!("{device} can be used"));
    }
    let reasons: Vec<String> = found.missing.iter().map(ToString::to_string).collect();
    let text = format!(
        "none can be used, the processor does all: {}",
        reasons.join("; ")
    );
    if found.driver.is_none() {
        // Most machines have none, and nothing is wrong with them.
        return Checkup::ok("gpu", text);
    }
    let hint = "`tensorgrid device` says what is there; NVRTC is in CUDA's toolkit";
    Checkup::bad("gpu", Health::Warn, text, hint)
}

/// The key file that signs.
fn key(arguments: &KeyArguments) -> Vec<Checkup> {
    let Some(path) = &arguments.key else {
        let text = format!(
            "no file is named; on a development network {} signs",
            arguments.account
        );
        return vec![Checkup::ok("key", text)];
    };
    let shown = path.display();
    let mut findings = vec![match wallet::read(arguments, path) {
        Ok(wallet) => Checkup::ok("key", format!("{shown} is that of {}", wallet.address())),
        Err(failure) => {
            let hint = failure.hint.unwrap_or_default();
            Checkup::bad("key", Health::Fail, format!("{:#}", failure.error), &hint)
        }
    }];
    findings.extend(permissions(path));
    if !path.exists() {
        return findings;
    }
    if wallet::backup_of(path).is_none() {
        let text = "no backup was made by this program";
        let hint = "`tensorgrid wallet backup COPY` makes one: nobody can make a lost key again";
        findings.push(Checkup::bad("backup", Health::Warn, text, hint));
    }
    findings
}

/// Whether others may read a key file.
#[cfg(unix)]
fn permissions(path: &Path) -> Option<Checkup> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return None;
    }
    let text = format!("others may use {} (mode {mode:o})", path.display());
    let health = match keys::is_locked(path) {
        true => Health::Warn,
        false => Health::Fail,
    };
    let hint = format!("chmod 600 {}", path.display());
    Some(Checkup::bad("key", health, text, &hint))
}

/// Whether others may read a key file: this system does not tell.
#[cfg(not(unix))]
fn permissions(_path: &Path) -> Option<Checkup> {
    None
}

/// The grid behind the API.
async fn grid(arguments: &DoctorArguments) -> Vec<Checkup> {
    let failed = |failure: Failure| {
        let hint = failure.hint.unwrap_or_default();
        Checkup::bad("api", Health::Fail, format!("{:#}", failure.error), &hint)
    };
    let client = match connect::client(&arguments.api) {
        Ok(client) => client,
        Err(failure) => return vec![failed(failure)],
    };
    let status = match client.status().await {
        Ok(status) => status,
        Err(error) => return vec![failed(connect::failure(error))],
    };
    let text = format!(
        "{} serves network {} at height {}",
        arguments.api.api, status.network, status.height
    );
    let mut findings = vec![Checkup::ok("api", text), clock(&status, clock::now().get())];
    if let Ok(seats) = client.seats().await {
        findings.push(version(seats.protocol));
    }
    match connect::wallet(&client, &arguments.key).await {
        Ok(wallet) => findings.extend(balance(&client, &status, &wallet).await),
        // What is wrong with a key file was said.
        Err(_) if arguments.key.key.is_some() => {}
        Err(failure) => {
            let hint = failure.hint.unwrap_or_default();
            let text = format!("{:#}", failure.error);
            findings.push(Checkup::bad("balance", Health::Warn, text, &hint));
        }
    }
    if let Ok(offered) = client.offers().await {
        findings.push(offers(&offered));
    }
    findings
}

fn version(protocol: u16) -> Checkup {
    let text =
        format!("the grid has version {protocol} of the protocol, this program {PROTOCOL_VERSION}");
    match protocol.cmp(&PROTOCOL_VERSION) {
        std::cmp::Ordering::Greater => Checkup::bad(
            "version",
            Health::Fail,
            text,
            "take a newer release of this program",
        ),
        _ => Checkup::ok("version", text),
    }
}

/// This machine's clock beside the time of the last block.
fn clock(status: &StatusDto, now: u64) -> Checkup {
    let block = status.timestamp_ms;
    if block > now.saturating_add(CLOCK_BEHIND_MS) {
        let text = format!(
            "this clock is {} s behind the grid's",
            (block - now) / 1_000
        );
        return Checkup::bad("clock", Health::Fail, text, "set it, by NTP");
    }
    let age = now.saturating_sub(block);
    let text = format!("the last block is {} s old by this clock", age / 1_000);
    if age > BLOCK_AGE_MS {
        let hint = "either this clock is ahead, or the grid stands still: `tensorgrid status` again says which";
        return Checkup::bad("clock", Health::Warn, text, hint);
    }
    Checkup::ok("clock", text)
}

async fn balance(client: &Client, status: &StatusDto, wallet: &Wallet) -> Option<Checkup> {
    let account = client.account(wallet.address()).await.ok()?;
    let text = format!(
        "{} can spend {} TGRID",
        account.address,
        short(account.balance)
    );
    if account.balance > Amount::ZERO {
        return Some(Checkup::ok("balance", text));
    }
    let hint = match status.development {
        true => "`tensorgrid faucet` gives play money",
        false => "ask whoever has some for a `tensorgrid transfer`",
    };
    Some(Checkup::bad("balance", Health::Warn, text, hint))
}

fn offers(offers: &[OfferDto]) -> Checkup {
    let heard = offers.iter().filter(|it| !it.offline).count();
    let free = offers
        .iter()
        .filter(|it| !it.offline && it.leases < it.terms.slots)
        .count();
    let text = format!(
        "{heard} of {} are heard of, {free} have a free place",
        offers.len()
    );
    if heard > 0 {
        return Checkup::ok("offers", text);
    }
    let hint = "`tensorgrid provider` makes this machine one; nothing runs without one";
    Checkup::bad("offers", Health::Warn, text, hint)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_cuda::Missing;

    #[test]
    fn memory_and_gpus_are_judged_by_what_the_system_tells() {
        let of = |kib: u64| memory(&format!("MemTotal: 1 kB\nMemAvailable:  {kib} kB\n")).health;
        assert_eq!(of(8 << 20), Health::Ok);
        assert_eq!(of(800 << 10), Health::Warn);
        assert_eq!(of(100 << 10), Health::Fail);
        assert_eq!(memory("").health, Health::Ok);
        let mut found = Probe {
            driver: None,
            compiler: None,
            devices: Vec::new(),
            missing: vec![Missing::Driver],
        };
        assert_eq!(gpu(&found).health, Health::Ok);
        found.driver = Some([12, 4]);
        assert_eq!(gpu(&found).health, Health::Warn);
        assert_eq!(version(PROTOCOL_VERSION).health, Health::Ok);
        assert_eq!(version(PROTOCOL_VERSION + 1).health, Health::Fail);
    }

    #[test]
    #[cfg(unix)]
    fn a_key_that_others_may_read_fails_unless_it_is_under_a_passphrase() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        keys::write(&path, &[3; 32], None).unwrap();
        assert!(permissions(&path).is_none());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let finding = permissions(&path).unwrap();
        assert_eq!(finding.health, Health::Fail);
        assert!(finding.hint.starts_with("chmod 600"));
        assert!(disk(folder.path()).text.contains("GiB"));
    }
}

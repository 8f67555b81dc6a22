//! A provider that cheats, as a process. It offers jobs of one mode for less than anybody honest, and is caught at the first one.
//!
//! - `cheating_provider URL KEY LIE` cheats as one of the demo, in mode `proof`: LIE is 0, 1 or 2. `cargo xtask network-test` starts three.
//! - `cheating_provider URL KEY CHEAT MODE REGION` serves mode `optimistic` or `sync` in a region of its own. CHEAT says what it answers to an
//!   accusation: `silent` nothing, `hidden` does not even hand in its result, `unstored` a file that nobody can get, `product`, `scores` or `softmax` a part of the run that is right. Its
//!   result is wrong, after `right-` it is right. `cargo xtask dispute-test` starts one for each dispute.
#![allow(clippy::print_stderr, reason = "an example")]

#[path = "../src/demo/cheats.rs"]
mod cheats;
#[path = "disputes/mod.rs"]
mod disputes;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tg_provider::{
    Agent, AgentConfig, Execution, Progress, ProvingWorker, Shutdown, Task, WorkError, Worker,
};
use tg_sdk::{Client, Digest, Wallet, jobs};
use tg_types::{
    Amount, DurationMs, Label, LeaseId, Machine, ModeSet, OfferTerms, Pricing, TraceForm,
    Transaction, VerificationMode,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use cheats::{Cheat, Lie};
use disputes::{DisputedPart, Failure, forged};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [url, key, lie] => {
            let index: usize = lie.parse()?;
            let lie = *Lie::ALL.get(index).ok_or("there is no such lie")?;
            eprintln!("{index} {}", lie.describe());
            let terms = terms(index as u128, VerificationMode::Proof, Machine::CPU_ONLY);
            serve(&Client::new(url)?, wallet(key)?, Cheat::new(lie), terms).await
        }
        [url, key, cheat, mode, region] => {
            let mode = match mode {
                "optimistic" => VerificationMode::Optimistic,
                "sync" => VerificationMode::Sync,
                other => return Err(format!("MODE is optimistic or sync, and not {other}").into()),
            };
            let machine = Machine {
                region: region.parse()?,
                ..Machine::CPU_ONLY
            };
            let (client, wallet) = (Client::new(url)?, wallet(key)?);
            let worker = DisputeCheat::new(cheat, client.clone(), wallet.clone())?;
            serve(&client, wallet, worker, terms(0, mode, machine)).await
        }
        _ => Err("usage: cheating_provider URL KEY LIE, or URL KEY CHEAT MODE REGION".into()),
    }
}

fn wallet(key: &str) -> Result<Wallet, Failure> {
    let key = Digest::from_hex(std::fs::read_to_string(key)?.trim()).ok_or("no key file")?;
    Ok(Wallet::from_secret(key.as_bytes())?)
}

/// Works until it is killed.
async fn serve<W: Worker>(
    client: &Client,
    wallet: Wallet,
    worker: W,
    terms: OfferTerms,
) -> Result<(), Failure> {
    let config = AgentConfig::new(terms);
    let (sender, mut events) = mpsc::channel(64);
    let (_stays, shutdown) = Shutdown::channel();
    let agent = Agent::new(client, wallet, Arc::new(worker), config, sender);
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            eprintln!("{event:?}");
        }
    });
    Ok(Box::pin(agent.run(shutdown)).await?)
}

/// Five to seven thousandths of a TGRID a job, and a collateral of one.
fn terms(index: u128, mode: VerificationMode, machine: Machine) -> OfferTerms {
    OfferTerms {
        hardware: Label::lossy("CPU"),
        price_base: Amount::new((5 + index) * 1_000_000_000_000_000),
        price_per_mmac: Amount::ZERO,
        latency_base_ms: DurationMs::new(1_500),
        speed_mmac_per_s: 2,
        memory_bytes: match mode {
            VerificationMode::Proof => 1 << 30,
            _ => 16 << 30,
        },
        slots: 1,
        collateral_per_lease: Amount::from_tgrid(1),
        modes: ModeSet::of(&[mode]),
        machine,
        price_per_gpu_second: Amount::ZERO,
        pricing: Pricing::Fixed,
    }
}

/// The one bit in which a wrong result differs from the right one.
fn flip(execution: &mut Execution) {
    if let Some(last) = execution.output.last_mut() {
        *last ^= 1;
    }
    execution.receipt.output = Digest::of_blob(&execution.output);
}

/// What it answers to an accusation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CheatAnswer {
    /// Nothing.
    Silent,
    /// Not even its result.
    Hidden,
    /// The name of a file that nobody can get.
    Unstored,
    /// A part of the accuser's claim that is right, as if it were wrong.
    Shown(DisputedPart),
}

/// A worker whose run is disputed.
struct DisputeCheat {
    honest: ProvingWorker,
    is_wrong: bool,
    answer: CheatAnswer,
    client: Client,
    wallet: Wallet,
    runtime: Handle,
    /// Leases of which it has named a file.
    named: Mutex<BTreeSet<LeaseId>>,
}

impl DisputeCheat {
    fn new(cheat: &str, client: Client, wallet: Wallet) -> Result<Self, Failure> {
        let (is_wrong, word) = match cheat.strip_prefix("right-") {
            Some(word) => (false, word),
            None => (true, cheat),
        };
        let answer = match word {
            "silent" => CheatAnswer::Silent,
            "hidden" => CheatAnswer::Hidden,
            "unstored" => CheatAnswer::Unstored,
            _ => match DisputedPart::read(word) {
                Some(part) => CheatAnswer::Shown(part),
                None => return Err(format!("there is no cheat {cheat}").into()),
            },
        };
        Ok(Self {
            honest: ProvingWorker::new(),
            is_wrong,
            answer,
            client,
            wallet,
            runtime: Handle::current(),
            named: Mutex::default(),
        })
    }

    /// Names a file that it does not store, once for a lease.
    fn name_unstored(&self, lease: LeaseId) -> Result<(), WorkError> {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.contains(&lease) {
            return Ok(());
        }
        let argue = Transaction::ArgueResult {
            lease,
            file: Digest::of_blob(b"what nobody can get"),
            size: 4_096,
        };
        let sent = jobs::submit(&self.client, &self.wallet, &argue, "name an answer");
        let sent = self.runtime.block_on(sent);
        sent.map_err(|error| WorkError::Open(error.into()))?;
        named.insert(lease);
        Ok(())
    }
}

impl Worker for DisputeCheat {
    fn execute(&self, task: &Task, progress: &dyn Fn(Progress)) -> Result<Execution, WorkError> {
        let mut execution = self.honest.execute(task, progress)?;
        if self.is_wrong {
            flip(&mut execution);
        }
        Ok(execution)
    }

    fn answer(
        &self,
        task: &Task,
        piece: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Vec<u8>, WorkError> {
        self.honest.answer(task, piece)
    }

    fn open(
        &self,
        task: &Task,
        execution: &Execution,
        seed: &Digest,
    ) -> Result<Vec<u8>, WorkError> {
        match (self.answer, task.form()) {
            (CheatAnswer::Hidden, _) => Err(WorkError::NoFault),
            // An honest worker opens no run that does not hold: it opens the right one.
            (_, TraceForm::Parts) if self.is_wrong => {
                let mut right = execution.clone();
                flip(&mut right);
                self.honest.open(task, &right, seed)
            }
            _ => self.honest.open(task, execution, seed),
        }
    }

    fn refute(
        &self,
        task: &Task,
        execution: &Execution,
        claim: &[u8],
    ) -> Result<Vec<u8>, WorkError> {
        match self.answer {
            CheatAnswer::Silent | CheatAnswer::Hidden => Err(WorkError::NoFault),
            CheatAnswer::Unstored => {
                self.name_unstored(task.lease)?;
                Err(WorkError::NoFault)
            }
            CheatAnswer::Shown(part) => {
                // What an honest provider would show of a claim that is wrong there.
                let wrong = forged(&task.model_file, claim, part).map_err(WorkError::Open)?;
                self.honest.refute(task, execution, &wrong)
            }
        }
    }

    fn prove(
        &self,
        task: &Task,
        execution: &Execution,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Vec<u8>, WorkError> {
        self.honest.prove(task, execution, progress)
    }
}

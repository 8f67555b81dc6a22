//! A provider that cheats as those of the demo do, as a process: `cheating_provider URL KEY LIE`, such as
//! `http://127.0.0.1:7070 account.key 0`, where LIE is 0, 1 or 2. `cargo xtask network-test` starts three. It offers jobs of
//! mode `proof` alone, for less than anybody honest, and is caught at the first one.
#![allow(clippy::print_stderr, reason = "an example")]

#[path = "../src/demo/cheats.rs"]
mod cheats;

use std::error::Error;
use std::sync::Arc;

use tg_provider::{Agent, AgentConfig, Shutdown};
use tg_sdk::{Client, Digest, Wallet};
use tg_types::{
    Amount, DurationMs, Label, Machine, ModeSet, OfferTerms, Pricing, VerificationMode,
};
use tokio::sync::mpsc;

use cheats::{Cheat, Lie};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, key, lie] = arguments.as_slice() else {
        return Err("usage: cheating_provider URL KEY LIE".into());
    };
    let index: usize = lie.parse()?;
    let lie = *Lie::ALL.get(index).ok_or("there is no such lie")?;
    let key = Digest::from_hex(std::fs::read_to_string(key)?.trim()).ok_or("no key file")?;
    let wallet = Wallet::from_secret(key.as_bytes())?;
    let config = AgentConfig::new(terms(index as u128));
    let (sender, mut events) = mpsc::channel(64);
    let (_stays, shutdown) = Shutdown::channel();
    let worker = Arc::new(Cheat::new(lie));
    let agent = Agent::new(&Client::new(url)?, wallet, worker, config, sender);
    eprintln!("{} {}", index, lie.describe());
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            eprintln!("{event:?}");
        }
    });
    Ok(agent.run(shutdown).await?)
}

/// Five to seven thousandths of a TGRID a job, and a collateral of one.
fn terms(index: u128) -> OfferTerms {
    OfferTerms {
        hardware: Label::lossy("CPU"),
        price_base: Amount::new((5 + index) * 1_000_000_000_000_000),
        price_per_mmac: Amount::ZERO,
        latency_base_ms: DurationMs::new(1_500),
        speed_mmac_per_s: 2,
        memory_bytes: 1 << 30,
        slots: 1,
        collateral_per_lease: Amount::from_tgrid(1),
        modes: ModeSet::of(&[VerificationMode::Proof]),
        machine: Machine::CPU_ONLY,
        price_per_gpu_second: Amount::ZERO,
        pricing: Pricing::Fixed,
    }
}

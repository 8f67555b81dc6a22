//! Plays the cases of one model, one after the other: starts who cheats, orders, accuses, kills, waits for the end, and looks at it.

use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::cases::{CaseAccuser, DisputeCase, KilledParty};
use super::judging::{JudgedLeases, JudgingTime};
use super::models::DisputedModel;
use super::outcome::EndedDispute;
use crate::http;
use crate::network::checks::units;
use crate::network::fleet::{Fleet, PROVIDERS, Participant, VALIDATORS};
use crate::network::load::Orderer;
use crate::network::until;

/// How long an answer of a node may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks at a job.
const POLL: Duration = Duration::from_millis(40);

/// How long a job may take: the windows of a dispute of which each side uses all, and those of a challenge.
const ENDED: Duration = Duration::from_secs(240);

/// How long a killed process stays away.
const AWAY: Duration = Duration::from_secs(3);

/// Seconds that a job may take until its result is handed in: honest providers declare a speed that is far below what they do.
const DEADLINE_S: &str = "86400";

/// Most that is paid: above what anybody here asks.
const PRICE_MAX: &str = "0.1";

/// The region of the first honest provider. Each provider has one of its own, so that an order says who gets it.
const FIRST_REGION: u8 = 1;

/// What the lanes of a run share.
#[derive(Debug)]
pub(crate) struct DisputeRun {
    /// The network.
    pub(crate) fleet: Mutex<Fleet>,
    /// The disputes that validators have looked at.
    pub(crate) judged: JudgedLeases,
    /// The example `dispute_party`.
    pub(crate) party: PathBuf,
    /// Where logs are.
    pub(crate) logs: PathBuf,
}

impl DisputeRun {
    pub(crate) fn fleet(&self) -> MutexGuard<'_, Fleet> {
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line of the table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DisputeRow {
    /// The case in words.
    pub(crate) case: &'static str,
    /// Bytes of all that the chain says of the lease from the accusation on; nothing if it could not be read.
    pub(crate) chain: Option<u64>,
    /// Bytes of the accuser's claim and the provider's answer, as they were named.
    pub(crate) claim: Option<u64>,
    pub(crate) answer: Option<u64>,
    /// What validators took to look at them.
    pub(crate) judging: JudgingTime,
    /// From the order to the end of the job.
    pub(crate) seconds: f64,
    /// Who paid what.
    pub(crate) paid: String,
    /// What is not as it must be.
    pub(crate) wrong: Vec<String>,
}

/// Everything that works on one model.
#[derive(Debug)]
pub(crate) struct DisputeLane<'a> {
    pub(crate) shared: &'a DisputeRun,
    pub(crate) model: &'a DisputedModel,
    /// Its honest provider.
    pub(crate) honest: u8,
    pub(crate) requestor: Orderer,
    pub(crate) challenger: Orderer,
    /// Accounts that no cheat has had yet: one that was caught is suspended for an hour.
    pub(crate) cheats: Range<u8>,
}

/// What belongs to one case while it is played.
#[derive(Debug)]
struct ServingProvider {
    provider: Participant,
    address: String,
    region: String,
}

impl DisputeLane<'_> {
    /// Starts the honest provider.
    ///
    /// # Errors
    /// If it does not come up.
    pub(crate) fn begin(&self) -> Result<()> {
        self.start_honest()?;
        let address = self
            .shared
            .fleet()
            .address(Participant::Provider(self.honest))
            .to_owned();
        self.wait_for_offer(&address)
    }

    fn start_honest(&self) -> Result<()> {
        let region = (FIRST_REGION + self.honest).to_string();
        let provider = Participant::Provider(self.honest);
        let mut fleet = self.shared.fleet();
        fleet.start_with(provider, &["--region", &region])
    }

    /// Plays a case. What cannot be done is a finding too: the others go on.
    pub(crate) fn play(&mut self, case: &DisputeCase) -> DisputeRow {
        let started = Instant::now();
        let played = self.serve(case).and_then(|serving| {
            let row = self.dispute(case, &serving);
            if let Participant::Cheat(_) = serving.provider {
                // It may have ended by itself: it is suspended.
                let _ = self.shared.fleet().kill(serving.provider);
            }
            row
        });
        played.unwrap_or_else(|error| DisputeRow {
            case: case.name,
            chain: None,
            claim: None,
            answer: None,
            judging: JudgingTime::default(),
            seconds: started.elapsed().as_secs_f64(),
            paid: String::new(),
            wrong: vec![format!("{error:#}")],
        })
    }

    /// Starts who works.
    fn serve(&mut self, case: &DisputeCase) -> Result<ServingProvider> {
        let Some(cheat) = case.cheat else {
            let provider = Participant::Provider(self.honest);
            return Ok(ServingProvider {
                provider,
                address: self.shared.fleet().address(provider).to_owned(),
                region: (FIRST_REGION + self.honest).to_string(),
            });
        };
        let index = self.cheats.next().context("an account for each cheat")?;
        let provider = Participant::Cheat(index);
        let region = (FIRST_REGION + PROVIDERS + index).to_string();
        let mut fleet = self.shared.fleet();
        fleet.start_with(provider, &[cheat, case.verify, &region])?;
        let address = fleet.address(provider).to_owned();
        drop(fleet);
        self.wait_for_offer(&address)?;
        Ok(ServingProvider {
            provider,
            address,
            region,
        })
    }

    fn wait_for_offer(&self, address: &str) -> Result<()> {
        until("an offer stands", || {
            let offers = self.get("/v1/offers")?;
            let list = offers["items"].as_array().or(offers.as_array());
            Ok(list.is_some_and(|it| it.iter().any(|it| it["provider"] == address)))
        })
    }

    /// Orders, has the result disputed, and looks at the end.
    fn dispute(&self, case: &DisputeCase, serving: &ServingProvider) -> Result<DisputeRow> {
        let before = self.balances(serving)?;
        let ordered = Instant::now();
        let id = self.order(case, &serving.region)?;
        let (accused, followed) = thread::scope(|scope| {
            let accusing = scope.spawn(|| self.accuse(case, &id));
            let followed = self.follow(case, &id);
            let accused = accusing.join();
            (accused, followed)
        });
        let (job, killed) = followed?;
        let seconds = ordered.elapsed().as_secs_f64();
        // All nodes need the block with the end, and logs what was looked at.
        thread::sleep(Duration::from_secs(1));
        let after = self.balances(serving)?;
        let lease = job["leases"][0]["id"].as_str().context("a lease")?;
        let lease = lease.to_owned();
        let model = &self.model.registered;
        let judging = self
            .shared
            .judged
            .judged(&self.shared.logs, &lease, model)?;
        let ended = EndedDispute {
            reputation: self.reputation(&serving.address)?,
            provider: after[0] - before[0],
            requestor: after[1] - before[1],
            challenger: after[2] - before[2],
            judges: judging.validators,
            killed,
            job,
        };
        let mut wrong = ended.wrong(case)?;
        match accused {
            Ok(Ok(())) => {}
            Ok(Err(error)) => wrong.push(format!("the accuser: {error:#}")),
            Err(_) => wrong.push("the accuser's thread ended".to_owned()),
        }
        if !wrong.is_empty() {
            wrong.push(format!("job {id}"));
        }
        let said = self.said(&id, &lease, &serving.address)?;
        Ok(DisputeRow {
            case: case.name,
            chain: said.0,
            claim: said.1,
            answer: said.2,
            judging,
            seconds,
            paid: ended.payer(case)?,
            wrong,
        })
    }

    fn order(&self, case: &DisputeCase, region: &str) -> Result<String> {
        let input = self.model.input.to_str().context("a path of text")?;
        let mut words = vec!["infer", &self.model.registered, input, "--yes", "--json"];
        // Nothing is challenged but by the case, and the provider has one try.
        words.extend(["--trust", "--detach", "--attempts", "1", "--retention", "0"]);
        words.extend(["--verify", case.verify, "--region", region]);
        words.extend(["--max-price", PRICE_MAX, "--deadline-s", DEADLINE_S]);
        let told = self.requestor.ask(&words)?;
        let id = told["job"].as_str().or(told["id"].as_str());
        let id = id.with_context(|| format!("no id in {told}"))?;
        Ok(id.to_owned())
    }

    /// Has the challenger accuse, if there is one, as soon as a watcher is drawn.
    fn accuse(&self, case: &DisputeCase, id: &str) -> Result<()> {
        let Some(accuser) = case.accuser else {
            return Ok(());
        };
        until("a watcher is drawn", || {
            let job = self.get(&format!("/v1/jobs/{id}"))?;
            Ok(job["leases"][0]["check"]["members"].as_u64() > Some(0))
        })?;
        match accuser {
            CaseAccuser::Command => {
                let words = ["job", "challenge", id, "--json"];
                self.challenger.ask(&words).map(|_| ())
            }
            CaseAccuser::Party(how) => {
                let key = &self.challenger.key;
                let mut command = Command::new(&self.shared.party);
                command.args(["accuse", &self.challenger.url]).arg(key);
                let output = command.args([id, how]).output();
                let output = output.context("start the accuser")?;
                let error = String::from_utf8_lossy(&output.stderr);
                ensure!(output.status.success(), "{}", error.trim());
                Ok(())
            }
        }
    }

    /// Waits for the end of a job, and kills whom the case says in its turn. Gives the job, and whether somebody was killed.
    fn follow(&self, case: &DisputeCase, id: &str) -> Result<(Value, bool)> {
        let started = Instant::now();
        let mut killed = false;
        loop {
            // Its node may be away for a moment.
            let job = self.get(&format!("/v1/jobs/{id}")).unwrap_or_default();
            let state = job["state"].as_str().unwrap_or_default();
            if matches!(state, "paid" | "refunded" | "expired" | "cancelled") {
                return Ok((job, killed));
            }
            if started.elapsed() > ENDED {
                bail!("job {id} did not end in {} s: {state}", ENDED.as_secs());
            }
            if let Some(party) = case.killed.filter(|_| !killed) {
                killed = self.kill(party, &job["leases"][0]["check"]["dispute"])?;
            }
            thread::sleep(POLL);
        }
    }

    /// Kills a party if it has to hand in something now, and starts it again after a while.
    fn kill(&self, party: KilledParty, dispute: &Value) -> Result<bool> {
        let turn = dispute["turn"].as_str().unwrap_or_default();
        if dispute["waits_for_file"].as_bool() != Some(true) {
            return Ok(false);
        }
        match (party, turn) {
            (KilledParty::Provider, "provider") => {
                let provider = Participant::Provider(self.honest);
                self.shared.fleet().kill(provider)?;
                thread::sleep(AWAY);
                self.start_honest()?;
                Ok(true)
            }
            (KilledParty::Watcher, "accuser") => {
                let index = self.validator_of(&dispute["accuser"])?;
                self.shared.fleet().kill(Participant::Validator(index))?;
                JudgedLeases::note_kill(&self.shared.logs, index)?;
                thread::sleep(AWAY);
                self.shared.fleet().start(Participant::Validator(index))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The validator that has an account.
    fn validator_of(&self, account: &Value) -> Result<u8> {
        let seats = self.get("/v1/seats")?;
        let seats = seats["validators"].as_array().context("a list of seats")?;
        let seat = seats.iter().find(|it| it["account"] == *account);
        let key = seat
            .map(|it| it["key"].clone())
            .context("the accuser has a seat")?;
        let fleet = self.shared.fleet();
        let index = (0..VALIDATORS).find(|it| fleet.validator_key(*it) == key);
        index.context("the accuser is a process of this run")
    }

    /// What provider, requestor and challenger can spend, and what of it is locked.
    fn balances(&self, serving: &ServingProvider) -> Result<[i128; 3]> {
        let of = |address: &str| -> Result<i128> {
            let account = self.get(&format!("/v1/accounts/{address}"))?;
            let parts = ["balance", "escrow", "collateral"];
            let parts = parts.iter().map(|it| units(&account[it]));
            Ok(i128::try_from(parts.sum::<Result<u128>>()?)?)
        };
        Ok([
            of(&serving.address)?,
            of(&self.requestor.address)?,
            of(&self.challenger.address)?,
        ])
    }

    /// What the ledger says of a provider.
    fn reputation(&self, address: &str) -> Result<Value> {
        let provider = self.get(&format!("/v1/providers/{address}"))?;
        Ok(provider["reputation"].clone())
    }

    /// Bytes on the chain, of the claim and of the answer.
    fn said(
        &self,
        id: &str,
        lease: &str,
        provider: &str,
    ) -> Result<(Option<u64>, Option<u64>, Option<u64>)> {
        let events = self.get(&format!("/v1/jobs/{id}/events"))?;
        let events = events["items"].as_array().context("a list of events")?;
        let disputed = events.iter().find(|it| it["kind"] == "result_disputed");
        let Some(from) = disputed.and_then(|it| it["height"].as_u64()) else {
            return Ok((None, None, None));
        };
        let to = events.last().and_then(|it| it["height"].as_u64());
        let to = to.unwrap_or(from).to_string();
        let mut command = Command::new(&self.shared.party);
        command.args(["chain", &self.requestor.url, lease, &from.to_string(), &to]);
        let output = command.output().context("read the chain")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "read the chain: {}", error.trim());
        let told: Value = serde_json::from_slice(&output.stdout)?;
        let files = told["files"].as_array().context("a list of files")?;
        let of = |is_provider: bool| {
            let mut files = files.iter();
            let file = files.find(|it| (it["sender"] == provider) == is_provider);
            file.and_then(|it| it["bytes"].as_u64())
        };
        Ok((told["bytes"].as_u64(), of(false), of(true)))
    }

    fn get(&self, path: &str) -> Result<Value> {
        let address = self.requestor.url.trim_start_matches("http://");
        let answer = http::get(address, path, PATIENCE)?;
        serde_json::from_str(&answer).context("an API answers with JSON")
    }
}

/// How many accounts a lane needs for cheats.
pub(crate) fn cheats_of(cases: &[&DisputeCase]) -> usize {
    let cheats = cases.iter().filter(|it| it.cheat.is_some());
    cheats.count()
}

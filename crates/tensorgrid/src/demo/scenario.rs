//! What happens, in order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tg_api::ApiConfig;
use tg_compile::digits::Digit;
use tg_ir::tensor::top_class;
use tg_provider::AgentEvent;
use tg_sdk::Client;
use tg_sdk::dto::{JobDto, LeaseDto, ModeDto, QuoteDto};
use tg_types::{Amount, LeaseId, VerificationMode, Wallet};
use tokio::sync::mpsc;

use super::folder;
use super::participants::{self, Player, ProviderEvent};
use super::record::{Balance, DemoRun, Finished, VALIDATORS};
use super::screen::Screen;
use crate::cli::DemoArguments;
use crate::grid::cloud_prices;
use crate::grid::commands::Signals;
use crate::grid::connect::{Calling, OfJob};
use crate::grid::embedded::{EmbeddedGrid, EmbeddedOptions, RunningAgent, register_bundled};
use tg_console::outcome::{Exit, Failure, OrFail, say};
use tg_console::{accounts, table};
use tg_offline::bundled::{self, BuiltIn, Bundled};
use tg_sdk::jobs::{self, Followed, OrderedJob};
use tg_sdk::{CheckedModel, OrderTerms};

/// Digits that are sent.
const DIGITS: usize = 10;
/// How long all offers may take to stand.
const OFFERS: Duration = Duration::from_secs(30);
/// How long a job may take.
const DEADLINE: Duration = Duration::from_secs(50);

/// Runs the whole demo.
pub(crate) async fn run(arguments: &DemoArguments, quiet: bool) -> Result<DemoRun, Failure> {
    let started = Instant::now();
    let state = arguments.out.join("grid");
    let _taken = folder::prepare(&arguments.out, &state)?;
    say("starting four validators on loopback TCP (network: development, play money) ...");
    let players = participants::players();
    let grid = EmbeddedGrid::start(EmbeddedOptions {
        directory: state.clone(),
        api: ApiConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            ..ApiConfig::default()
        },
        tls: None,
        names: Vec::new(),
        clouds: cloud_prices::told(None)?,
        validators: VALIDATORS,
        repeat_macs: tg_ledger::REPEATED_MACS_USUAL,
        whole_run_macs: tg_ledger::WHOLE_RUN_MACS_USUAL,
        accounts: accounts::funded(players.len()),
        openai_keys: None,
        tokenizers: None,
        new_epoch: false,
    })
    .await?;
    let scenario = Scenario {
        client: grid.client().clone(),
        players,
        arguments,
        quiet,
        started,
    };
    let (sender, receiver) = mpsc::channel(4096);
    let agents = participants::start(&scenario.players, &scenario.client, &sender);
    drop(sender);
    let mut signals = Signals::new()?;
    let result = tokio::select! {
        result = scenario.run(receiver) => result,
        failure = grid.broken() => Err(failure),
        () = signals.stop() => Err(stopped()),
    };
    let result = match result {
        // A call may fail before its cause is known, such as a full disk.
        Err(failure) if failure.exit == Exit::Unavailable => {
            let cause = tokio::time::timeout(CAUSE_MAX, grid.broken()).await;
            Err(cause.unwrap_or(failure))
        }
        result => result,
    };
    let ended = tokio::select! {
        ended = stop(grid, agents) => ended,
        () = signals.stop() => Err(stopped()),
    };
    // What the grid kept was for this run only; the receipts and proofs stay.
    let _left = std::fs::remove_dir_all(&state);
    let run = result?;
    ended?;
    Ok(run)
}

/// How long it is waited for the reason why the grid is away.
const CAUSE_MAX: Duration = Duration::from_secs(3);

/// Somebody did not want to see the end.
fn stopped() -> Failure {
    let text = "stopped before the end: nothing is shown, and the state of the grid is removed";
    Failure::new(Exit::Failed, anyhow::anyhow!(text))
}

async fn stop(grid: EmbeddedGrid, mut agents: Vec<RunningAgent>) -> Result<(), Failure> {
    agents.iter().for_each(RunningAgent::stop);
    for agent in &mut agents {
        agent.ended().await?;
    }
    grid.stop().await
}

/// What the parts of the scenario share.
struct Scenario<'a> {
    client: Client,
    players: Vec<Player>,
    arguments: &'a DemoArguments,
    quiet: bool,
    started: Instant,
}

impl Scenario<'_> {
    async fn run(self, events: mpsc::Receiver<ProviderEvent>) -> Result<DemoRun, Failure> {
        say("compiling LeNet from ONNX, committing its weights, registering it ...");
        let registrar = accounts::wallet(accounts::REGISTRAR);
        let model = register_bundled(&self.client, &registrar, Bundled::Lenet).await?;
        // Nothing here asks them: they come beside the digits, so that nobody waits for them.
        let others = tokio::spawn(register_others(self.client.clone(), registrar));
        let public = Arc::new(jobs::public_model(&self.client, &model).await.of_job()?);
        folder::leave_model(&self.arguments.out, public.public())?;
        self.wait_for_offers().await?;
        let quotes = self
            .client
            .quotes(model.id, ModeDto::Proof)
            .await
            .calling("ask for prices")?;
        if !self.quiet {
            say(self.offer_table(&quotes));
        }
        let status = self.client.status().await.calling("ask the grid")?;
        let before = self.balances().await?;
        let proving = listen(events);
        let digits = chosen_digits()?;
        let jobs = self.send(&public, &digits).await?;
        let mut finished = Vec::new();
        let compiled = Bundled::Lenet.compile()?;
        for (digit, job) in digits.into_iter().zip(jobs) {
            let input = public.stored_input(&Bundled::Lenet.input(&digit));
            let input = input.or_fail(Exit::Failed, "take the digit")?;
            let ordered = OrderedJob::new(job.id, public.public().id(), &input, ModeDto::Proof);
            let inference = jobs::collect(&self.client, &public, (&ordered, &job)).await;
            let inference = inference.of_job()?;
            let float = compiled
                .float_output(&Bundled::Lenet.input(&digit))
                .or_fail(Exit::Failed, "run the float model")?;
            let proving = proving.lock().unwrap_or_else(PoisonError::into_inner);
            let prove_ms = proving.get(&inference.receipt.lease.id).copied();
            finished.push(Finished {
                float_top: greatest(&float),
                digit,
                job,
                inference,
                prove_ms,
            });
        }
        let mut models = vec![model.name];
        models.extend(others.await??);
        let after = self.balances().await?;
        let end = self.client.status().await.calling("ask the grid")?;
        let balances = before
            .into_iter()
            .zip(after)
            .map(|((name, before), (_, after))| Balance {
                name,
                before,
                after,
            })
            .collect();
        Ok(DemoRun {
            jobs: finished,
            balances,
            totals: [status.totals, end.totals],
            blocks: end.height,
            elapsed: self.started.elapsed().as_secs_f64(),
            model: model.id.to_string(),
            models,
            security_bits: tg_proof::security::report(public.public())
                .map_or(0.0, |report| report.bits),
            folder: self.arguments.out.clone(),
            players: self.players,
        })
    }

    async fn wait_for_offers(&self) -> Result<(), Failure> {
        let started = Instant::now();
        while self.client.offers().await.calling("list the offers")?.len() < self.players.len() {
            if started.elapsed() > OFFERS {
                return Err(Failure::new(
                    Exit::Failed,
                    anyhow::anyhow!("not every provider's offer stands"),
                ));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    fn offer_table(&self, quotes: &[QuoteDto]) -> String {
        let headers = [
            "provider",
            "hardware",
            "price",
            "ETA",
            "reputation",
            "verification",
        ];
        let mut rows = table::Table::new(&headers);
        for quote in quotes {
            let name = self
                .players
                .iter()
                .find(|player| player.address == quote.offer.provider);
            let history = &quote.offer.reputation;
            rows.row(vec![
                name.map_or_else(
                    || table::brief(quote.offer.provider),
                    |player| player.name.clone(),
                ),
                quote.offer.terms.hardware.clone(),
                quote.price.map_or_else(|| "-".to_owned(), table::short),
                format!("{:.1} s", quote.eta_ms as f64 / 1e3),
                format!(
                    "{} accepted, {} rejected",
                    history.accepted, history.rejected
                ),
                table::short(quote.verification_fee),
            ]);
        }
        format!("\noffers for one digit, in TGRID, cheapest first:\n{rows}\n")
    }

    /// Balances of everybody, in a fixed order.
    async fn balances(&self) -> Result<Vec<(String, Amount)>, Failure> {
        let mut names = vec![accounts::REQUESTOR.to_owned()];
        names.extend(self.players.iter().map(|player| player.name.clone()));
        names.extend((0..VALIDATORS).map(accounts::validator));
        let mut balances = Vec::new();
        for name in names {
            let address = accounts::wallet(&name).address();
            // An account that never held anything is not in the ledger yet.
            let balance = match self.client.account(address).await {
                Ok(account) => account
                    .balance
                    .saturating_add(account.escrow)
                    .saturating_add(account.collateral),
                Err(error) if error.is_not_found() => Amount::ZERO,
                Err(error) => return Err(error).calling("ask for a balance"),
            };
            balances.push((name, balance));
        }
        Ok(balances)
    }

    /// Orders all jobs and follows them to their ends.
    async fn send(
        &self,
        public: &Arc<CheckedModel>,
        digits: &[Digit],
    ) -> Result<Vec<JobDto>, Failure> {
        let wallet: Wallet = accounts::wallet(accounts::REQUESTOR);
        let terms = OrderTerms {
            mode: VerificationMode::Proof,
            max_price: Amount::new(60_000_000_000_000_000),
            deadline: DEADLINE,
            max_attempts: 5,
            retention: tg_types::limits::RETENTION_USUAL,
            needs: tg_types::JobNeeds::ANY_MACHINE,
        };
        say(format_args!(
            "sending {} digits that the model never saw ...",
            digits.len()
        ));
        let screen = Arc::new(Mutex::new(Screen::new(digits.len())));
        let names: Arc<BTreeMap<_, _>> = Arc::new(
            self.players
                .iter()
                .map(|player| (player.address, player.name.clone()))
                .collect(),
        );
        let mut following = Vec::new();
        for (index, digit) in digits.iter().enumerate() {
            let input = public.stored_input(&Bundled::Lenet.input(digit));
            let input = input.or_fail(Exit::Failed, "take the digit")?;
            let id = jobs::order(&self.client, &wallet, public, input, terms).await;
            let id = id.of_job()?;
            let (client, screen, names) =
                (self.client.clone(), Arc::clone(&screen), Arc::clone(&names));
            let quiet = self.quiet;
            following.push(tokio::spawn(async move {
                let name =
                    move |lease: &LeaseDto| names.get(&lease.provider).cloned().unwrap_or_default();
                jobs::follow(&client, id, &mut |news| {
                    if let Followed::Changed(job) = news
                        && !quiet
                    {
                        screen
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .show(index, job, &name);
                    }
                })
                .await
            }));
        }
        let mut jobs = Vec::new();
        for job in following {
            jobs.push(job.await?.of_job()?);
        }
        Ok(jobs)
    }
}

/// Registers the built-in models that no digit is sent to, and gives their names.
async fn register_others(client: Client, registrar: Wallet) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for model in others() {
        let model = register_bundled(&client, &registrar, model).await?;
        names.push(model.name);
    }
    Ok(names)
}

/// The built-in models that no digit is sent to.
fn others() -> impl Iterator<Item = BuiltIn> {
    let asked = BuiltIn::from(Bundled::Lenet);
    let all = BuiltIn::ALL.into_iter();
    all.filter(move |model| *model != asked)
}

/// Collects how long each lease's proof took.
fn listen(mut events: mpsc::Receiver<ProviderEvent>) -> Arc<Mutex<BTreeMap<LeaseId, u64>>> {
    let times = Arc::new(Mutex::new(BTreeMap::new()));
    let kept = Arc::clone(&times);
    tokio::spawn(async move {
        while let Some((_, event)) = events.recv().await {
            if let AgentEvent::Proved {
                lease, elapsed_ms, ..
            } = event
            {
                kept.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(lease, elapsed_ms);
            }
        }
    });
    times
}

/// One unseen digit of each label.
fn chosen_digits() -> Result<Vec<Digit>, Failure> {
    let unseen = bundled::unseen_digits()?;
    Ok((0..DIGITS)
        .filter_map(|label| {
            unseen
                .iter()
                .find(|digit| usize::from(digit.label) == label)
                .cloned()
        })
        .collect())
}

/// The index of the greatest value.
fn greatest(values: &[f32]) -> usize {
    // Scaled to integers far finer than any tie that matters.
    #[expect(clippy::cast_possible_truncation, reason = "logits are small")]
    let scaled: Vec<i32> = values
        .iter()
        .map(|value| (value * 65_536.0) as i32)
        .collect();
    top_class(&scaled).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_model_is_registered_and_each_once() {
        let mut names: Vec<&str> = others().map(BuiltIn::name).collect();
        assert!(names.contains(&"gpt-bytes"), "{names:?}");
        names.push(Bundled::Lenet.name());
        names.sort_unstable();
        let mut all = BuiltIn::ALL.map(BuiltIn::name);
        all.sort_unstable();
        assert_eq!(names, all);
    }
}

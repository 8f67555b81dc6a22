//! Requestors: honest ones, and those that cost others work.

use std::sync::Arc;

use tg_ledger::{Lease, State, SyncStage};
use tg_types::limits::RETENTION_MIN;
use tg_types::sealing::SEALED_INPUT_OVERHEAD;
use tg_types::{
    Address, Amount, Digest, JobId, JobNeeds, JobOrder, LeaseId, TimestampMs, Transaction,
    VerificationMode, Voucher, Wallet, job_id,
};

use crate::draw::SeedStream;
use crate::evidence::{SampleModel, claim_of};
use crate::grid::{ClientAccount, Context, SimGrid, fate, now_ms, sleep_ms};
use crate::plan::{RequestorPlan, RequestorRole};
use crate::sealed::SealedOrder;

/// How often an order that was not taken is given again.
const TRIES_MAX: u32 = 20;

/// The last order comes this long before faults end, in milliseconds.
const LAST_ORDER_MS: u64 = 3_000;

/// How often a challenger looks whether it is its turn, every quarter of a second.
const CLAIM_LOOKS: u32 = 24;

/// How often, in thousandths, a requestor that runs its jobs itself challenges a result.
const CHALLENGED_PERMILLE: u64 = 300;

/// How often, in thousandths, a requestor asks a validator for an answer that it keeps, after each order.
const ASKED_PERMILLE: u64 = 500;

/// A requestor.
pub(crate) struct SimRequestor {
    index: usize,
    plan: RequestorPlan,
    account: ClientAccount,
    draw: SeedStream,
    jobs: Vec<JobId>,
}

impl SimRequestor {
    pub(crate) fn new(
        index: usize,
        plan: RequestorPlan,
        account: ClientAccount,
        seed: u64,
    ) -> Self {
        Self {
            index,
            plan,
            account,
            draw: SeedStream::new(seed, &format!("requestor {index}")),
            jobs: Vec::new(),
        }
    }

    /// Gives orders until all are given.
    pub(crate) async fn run(mut self, grid: Arc<SimGrid>, context: Context) {
        if self.plan.role == RequestorRole::Spammer {
            self.spam(&grid, &context).await;
            return;
        }
        // Orders name a model: it must be there.
        while !self.is_ready(&grid, &context) {
            sleep_ms(&context, 100).await;
        }
        let span = (grid.plan.heal_ms - LAST_ORDER_MS).saturating_sub(now_ms(&context));
        for _ in 0..self.plan.orders {
            let pause = 2 * span / self.plan.orders.max(1);
            sleep_ms(&context, self.draw.between(0, pause)).await;
            self.order(&grid, &context).await;
            let may_challenge = self.index % 2 == 1 && self.plan.role != RequestorRole::Friend;
            if may_challenge && self.draw.chance(CHALLENGED_PERMILLE) {
                self.challenge(&grid, &context).await;
            }
            if self.plan.role == RequestorRole::Fickle && self.draw.chance(400) {
                self.cancel(&grid, &context).await;
            }
            if grid.plan.retains && self.draw.chance(ASKED_PERMILLE) {
                self.ask(&grid, &context).await;
            }
            self.sign_vouchers(&grid, &context);
        }
        grid.ordered();
    }

    fn is_ready(&self, grid: &SimGrid, context: &Context) -> bool {
        let state = self.account.state(grid, context);
        let model = state.as_ref().and_then(|it| it.model(&grid.sample().id));
        model.is_some_and(|it| matches!(it.state, tg_ledger::ModelState::Active(_)))
    }

    fn tell(&self, grid: &SimGrid, context: &Context, what: &str) {
        grid.line(context, &format!("requestor{}", self.index), what);
    }

    async fn order(&mut self, grid: &SimGrid, context: &Context) {
        let plain: Vec<u8> = (0..grid.sample().input_len)
            .map(|_| u8::try_from(self.draw.between(0, 255)).unwrap_or(0))
            .collect();
        let deadline = self.draw.between(15_000, 40_000);
        let drawn = match self.draw.between(0, 11) {
            11 => VerificationMode::Replicate,
            10 => VerificationMode::Endpoint,
            0 => VerificationMode::None,
            1 => VerificationMode::Recompute,
            2..=4 => VerificationMode::Sync,
            5 | 6 => VerificationMode::Optimistic,
            _ => VerificationMode::Proof,
        };
        // Where validators repeat no runs, nobody may ask them to.
        let drawn = match drawn {
            VerificationMode::Recompute | VerificationMode::Replicate if grid.plan.by_tile => {
                VerificationMode::Optimistic
            }
            VerificationMode::Proof if grid.plan.seals => VerificationMode::Sealed,
            // No run of a program or a float model can be proved.
            VerificationMode::Proof if grid.plan.sample().is_counted() => VerificationMode::Sync,
            // Nor is a float model served. Of programs such an order is given, and refused.
            VerificationMode::Endpoint if grid.plan.floats => VerificationMode::Optimistic,
            drawn => drawn,
        };
        let mode = grid.plan.mode.unwrap_or(drawn);
        let input = match mode {
            VerificationMode::Sealed => self.seal(grid, &plain),
            _ => plain,
        };
        let digest = Digest::of_blob(&input);
        let mut refused = String::new();
        for _ in 0..TRIES_MAX {
            let Some(node) = grid.gateway(self.account.gateway, now_ms(context)) else {
                sleep_ms(context, 500).await;
                continue;
            };
            if self.plan.role != RequestorRole::Withholding && mode != VerificationMode::Endpoint {
                let facts = &mut grid.checks().facts;
                facts.inputs.insert(digest, input.clone());
                // What cannot be stored is missing, as a lost upload is.
                let _ = node.blobs().put(&input, 1 << 20);
            }
            let state = node.snapshot().state.clone();
            let members = u16::try_from(self.draw.between(2, 3)).unwrap_or(2);
            let mut order = order(grid.sample(), &state, digest, (deadline, mode, members));
            let is_kept = !matches!(mode, VerificationMode::Endpoint | VerificationMode::Sealed);
            if grid.plan.retains && is_kept {
                order.retention = RETENTION_MIN;
            }
            let sent = Transaction::SubmitJob { order };
            match self.account.send(grid, context, sent).await {
                Ok(sent) => {
                    let job = job_id(sent.id);
                    self.jobs.push(job);
                    self.tell(grid, context, &format!("orders {job}"));
                    return;
                }
                Err(error) => refused = error,
            }
            sleep_ms(context, 500).await;
        }
        let what = format!("gives up an order, {} not taken: {refused}", mode.as_str());
        self.tell(grid, context, &what);
    }

    /// Seals an input, and notes how.
    fn seal(&self, grid: &SimGrid, plain: &[u8]) -> Vec<u8> {
        let is_watched = !matches!(
            self.plan.role,
            RequestorRole::KeyWithholder | RequestorRole::KeyGarbler
        );
        let (model, wallet) = (grid.sample().id, &self.account.wallet);
        let (order, sealed) = SealedOrder::seal(wallet, model, (plain, is_watched));
        let digest = Digest::of_blob(&sealed);
        grid.checks().facts.sealed.insert(digest, order);
        sealed
    }

    /// Challenges a result of an own job that can be, right or wrong.
    async fn challenge(&mut self, grid: &SimGrid, context: &Context) {
        let Some(state) = self.account.state(grid, context) else {
            return;
        };
        let is_open = |lease: &Lease| {
            let stage = lease.check.as_ref().map(|it| &it.stage);
            matches!(
                stage,
                Some(SyncStage::Voting { .. } | SyncStage::Contestable { .. })
            )
        };
        let mine = state.live_leases().filter(|(job, lease)| {
            let is_watched = job.order.mode == VerificationMode::Optimistic;
            self.jobs.contains(&job.id) && is_watched && is_open(lease)
        });
        let leases: Vec<LeaseId> = mine.map(|(_, lease)| lease.id).collect();
        if leases.is_empty() {
            return;
        }
        let lease = self.draw.pick(&leases);
        let challenge = Transaction::ChallengeResult { lease };
        let sent = self.account.send(grid, context, challenge).await;
        let what = format!("challenges {lease}, {}", fate(&sent));
        self.tell(grid, context, &what);
        if grid.plan.by_tile && sent.is_ok() {
            self.claim(grid, context, lease).await;
        }
    }

    /// Asks any validator for any answer that it stated to keep.
    async fn ask(&mut self, grid: &SimGrid, context: &Context) {
        let Some(state) = self.account.state(grid, context) else {
            return;
        };
        let kept = state.retained().iter().flat_map(|file| {
            let seats = (0u8..).zip(state.validators());
            let holders = seats.filter(|(place, _)| file.held.contains(*place));
            holders.map(|(_, it)| (file.job, it.address))
        });
        let kept: Vec<(JobId, Address)> = kept.collect();
        if kept.is_empty() {
            return;
        }
        let (job, seat) = self.draw.pick(&kept);
        let ask = Transaction::AskStored { job, seat };
        let sent = self.account.send(grid, context, ask).await;
        let what = format!("asks {seat} for {job}, {}", fate(&sent));
        self.tell(grid, context, &what);
    }

    /// Says what a right run gives, if it is asked for that within some seconds; wrongly now and then, and sometimes not at all.
    async fn claim(&mut self, grid: &SimGrid, context: &Context, lease: LeaseId) {
        let is_true = self.draw.chance(600);
        if self.draw.chance(100) {
            return;
        }
        for _ in 0..CLAIM_LOOKS {
            sleep_ms(context, 250).await;
            let Some(node) = grid.gateway(self.account.gateway, now_ms(context)) else {
                continue;
            };
            let state = node.snapshot().state.clone();
            let asked = state.claim_tasks(&self.account.wallet.address());
            let Some(task) = asked.into_iter().find(|it| it.lease == lease) else {
                continue;
            };
            let Ok(claim) = claim_of(grid.sample(), &task.receipt.input, is_true, node.blobs())
            else {
                continue;
            };
            let argue = Transaction::ArgueResult {
                lease,
                file: claim.digest,
                size: claim.size,
            };
            let sent = self.account.send(grid, context, argue).await;
            let what = format!("claims {is_true} of {lease}, {}", fate(&sent));
            self.tell(grid, context, &what);
            if sent.is_ok() {
                return;
            }
        }
    }

    /// Signs for some more answers of each endpoint that is served. Simulated: nothing is asked.
    fn sign_vouchers(&mut self, grid: &SimGrid, context: &Context) {
        let Some(state) = self.account.state(grid, context) else {
            return;
        };
        for (job, lease) in state.live_leases() {
            if !self.jobs.contains(&job.id) || !job.is_endpoint() || lease.started_at().is_none() {
                continue;
            }
            let vouchers = &mut grid.checks().facts.vouchers;
            let last = vouchers.get(&lease.id).map(|it| it.voucher);
            let mut next = last.unwrap_or(Voucher::first(lease.id));
            for _ in 0..self.draw.between(1, 20) {
                next = next
                    .after(Amount::new(1_000_000_000_000_000))
                    .unwrap_or(next);
            }
            let signed = next.sign(&self.account.wallet, &grid.domain);
            vouchers.insert(lease.id, signed);
            self.tell(
                grid,
                context,
                &format!("owes {} for {}", next.amount, lease.id),
            );
        }
    }

    async fn cancel(&mut self, grid: &SimGrid, context: &Context) {
        if self.jobs.is_empty() {
            return;
        }
        let pause = self.draw.between(0, 2_000);
        sleep_ms(context, pause).await;
        let job = self.draw.pick(&self.jobs);
        let cancel = Transaction::CancelJob { job };
        let sent = self.account.send(grid, context, cancel).await;
        let what = format!("takes back {job}, {}", fate(&sent));
        self.tell(grid, context, &what);
    }

    /// Sends what costs others work until faults end.
    async fn spam(&mut self, grid: &SimGrid, context: &Context) {
        let stranger = Wallet::from_seed(b"tg-sim stranger");
        while now_ms(context) < grid.plan.heal_ms {
            sleep_ms(context, self.draw.between(50, 400)).await;
            let Some(node) = grid.gateway(self.account.gateway, now_ms(context)) else {
                continue;
            };
            let latest = node.snapshot();
            let kind = self.draw.between(0, 4);
            let me = self.account.wallet.address();
            let transfer = Transaction::Transfer {
                to: stranger.address(),
                amount: Amount::new(1),
            };
            let next = latest.state.nonce(&me);
            let wallet = &self.account.wallet;
            let signed = match kind {
                // One that is in a block.
                0 => latest.block.transactions.first().cloned(),
                // One that is used up, and one that is far ahead.
                1 => Some(wallet.sign(transfer, next.saturating_sub(1), &grid.domain)),
                2 => Some(wallet.sign(transfer, next + 40, &grid.domain)),
                // One without an account.
                3 => Some(stranger.sign(transfer, 0, &grid.domain)),
                // One that is forged.
                _ => {
                    let mut signed = wallet.sign(transfer, next, &grid.domain);
                    if let tg_types::Authorization::Account(signature) = &mut signed.authorization {
                        signature.s[31] ^= 1;
                    }
                    Some(signed)
                }
            };
            if let Some(signed) = signed {
                let taken = node.submit(signed).await.is_ok();
                self.tell(grid, context, &format!("spam {kind}, taken: {taken}"));
            }
        }
    }
}

/// An order; of mode replicate with so many members.
fn order(
    sample: &SampleModel,
    state: &State,
    input: Digest,
    (deadline_ms, mode, members): (u64, VerificationMode, u16),
) -> JobOrder {
    let length = u32::try_from(sample.input_len).unwrap_or(u32::MAX);
    let (input, input_len) = match mode {
        VerificationMode::Endpoint => (Digest::default(), 0),
        VerificationMode::Sealed => (input, length.saturating_add(SEALED_INPUT_OVERHEAD)),
        _ => (input, length),
    };
    JobOrder {
        model: sample.id,
        input,
        input_len,
        mode,
        max_price: Amount::from_tgrid(10),
        deadline: TimestampMs::new(state.head().time.get() + deadline_ms),
        max_attempts: 4,
        retention: tg_types::DurationMs::ZERO,
        needs: JobNeeds {
            gang: match mode {
                VerificationMode::Replicate => members,
                _ => 1,
            },
            ..JobNeeds::ANY_MACHINE
        },
    }
}

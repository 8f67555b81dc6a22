//! What final states have of a job that the API shows: what was ordered, where it stands, what is locked for it, and who was paid what.

use tg_api::view;
use tg_ledger::{Job, JobPhase, Lease};
use tg_sdk::dto::{JobDto, ModeDto, SettlementDto, StateRecordDto};
use tg_sdk::light::{FinalValue, LightClient};
use tg_types::chain::LeafHead;
use tg_types::{Address, Amount, JobId, LeaseId};

use crate::grid::describe::describe_money;
use crate::grid::trust;
use tg_console::outcome::Failure;
use tg_console::table::short;

/// What final states have of a job and of its money.
pub(super) struct ProvedJob {
    /// Its record; nothing if there is no such job.
    record: FinalValue<Option<Job>>,
    /// What is locked for it.
    escrow: FinalValue<Option<LeafHead>>,
    /// The lease whose result was paid, and whose that is.
    paid: Option<(LeaseId, Address)>,
}

impl ProvedJob {
    /// What is known of a job without trusting the API.
    pub(super) async fn of(light: &mut LightClient, id: JobId) -> Result<Self, Failure> {
        let doing = "ask for the proof";
        let record = light.content(StateRecordDto::Job, id.as_bytes()).await;
        let record: FinalValue<Option<Job>> = trust::decoded(trust::checked(record, doing)?)?;
        let escrow = light.record(StateRecordDto::Escrow, id.as_bytes()).await;
        let escrow = trust::checked(escrow, doing)?;
        let paid_for = record.value.as_ref().and_then(|job| match job.phase {
            JobPhase::Paid { lease, .. } => Some(lease),
            JobPhase::Open { .. } | JobPhase::Unpaid { .. } => None,
        });
        let mut paid = None;
        if let Some(id_of_lease) = paid_for {
            let lease = StateRecordDto::Lease;
            let shown = light.content(lease, id_of_lease.as_bytes()).await;
            let shown: FinalValue<Option<Lease>> = trust::decoded(trust::checked(shown, doing)?)?;
            // Gone if the record of the job went between the two proofs.
            paid = shown.value.map(|it| (id_of_lease, it.provider));
        }
        Ok(Self {
            record,
            escrow,
            paid,
        })
    }

    fn state(job: &Job) -> String {
        job.state().as_str().to_lowercase()
    }

    fn locked(&self) -> Amount {
        self.escrow.value.map_or(Amount::ZERO, |head| head.amount)
    }

    fn settlement(job: &Job) -> Option<SettlementDto> {
        job.settlement().map(view::settlement)
    }

    /// What the API tells otherwise, if it does.
    pub(super) fn differs(&self, told: &JobDto) -> Option<String> {
        let Some(job) = &self.record.value else {
            return Some("it exists".to_owned());
        };
        if Self::state(job) != told.state.to_string() {
            return Some(format!("it is {}", told.state));
        }
        if job.requestor != told.requestor {
            return Some(format!("it is of {}", told.requestor));
        }
        let order = &job.order;
        let ordered = (order.model, order.input, order.input_len);
        let is_ordered = ordered == (told.model, told.input, told.input_len)
            && ModeDto::from(order.mode) == told.mode
            && order.max_price == told.max_price;
        if !is_ordered {
            return Some("something else was ordered".to_owned());
        }
        let escrow = told.escrow;
        if self.locked() != escrow {
            return Some(format!("{} TGRID are locked for it", short(escrow)));
        }
        self.differs_in_money(job, told)
    }

    /// What the API tells otherwise of what was paid.
    fn differs_in_money(&self, job: &Job, told: &JobDto) -> Option<String> {
        if job.served != told.served {
            let served = short(told.served);
            return Some(format!("{served} TGRID were paid out of its escrow"));
        }
        if job.verification_fee != told.verification_fee {
            let fee = short(told.verification_fee);
            return Some(format!("its verification fee is {fee} TGRID"));
        }
        if Self::settlement(job) != told.settlement {
            return Some(match &told.settlement {
                Some(money) => format!("its money went so: {}", describe_money(money)),
                None => "its money went nowhere yet".to_owned(),
            });
        }
        let (lease, provider) = self.paid?;
        let shown = told.leases.iter().find(|it| it.id == lease);
        match shown.map(|it| it.provider) {
            Some(told) if told == provider => None,
            Some(told) => Some(format!("{told} was paid for it")),
            None => Some(format!("it had no lease {lease}, which was paid")),
        }
    }

    /// All of it in lines.
    pub(super) fn describe(&self, id: JobId) -> String {
        let record = trust::proved(&self.record);
        let job = match &self.record.value {
            Some(job) => format!(
                "job {id} of {} is {} ({record})",
                job.requestor,
                Self::state(job)
            ),
            None => format!("there is no job {id} ({record})"),
        };
        let escrow = trust::proved(&self.escrow);
        let locked = match &self.escrow.value {
            Some(head) => format!("{} TGRID are locked for it ({escrow})", short(head.amount)),
            None => format!("nothing is locked for it ({escrow})"),
        };
        let mut lines = vec![job, locked];
        let settlement = self.record.value.as_ref().and_then(Self::settlement);
        lines.extend(settlement.map(|settlement| {
            let money = describe_money(&settlement);
            match self.paid {
                Some((_, provider)) => {
                    format!("its money: {money}; the provider is {provider} ({record})")
                }
                None => format!("its money: {money} ({record})"),
            }
        }));
        lines.join("\n")
    }

    /// All of it as JSON.
    pub(super) fn json(&self) -> serde_json::Value {
        let job = self.record.value.as_ref();
        serde_json::json!({
            "exists": job.is_some(),
            "state": job.map(Self::state),
            "requestor": job.map(|job| job.requestor.to_string()),
            "escrow": self.locked().to_string(),
            "settlement": job.and_then(Self::settlement),
            "provider": self.paid.map(|(_, provider)| provider.to_string()),
            "height": self.record.height,
            "timestamp_ms": self.record.timestamp_ms,
        })
    }
}

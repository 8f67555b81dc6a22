//! Registers the provider's sealing key, to which keys of sealed jobs are granted, before the provider offers that mode.

use tg_sdk::ClientError;
use tg_types::{ModeSet, Transaction, VerificationMode};
use tokio::time::Instant;

use super::{Agent, AgentEvent, OFFER_APPEARS, POLL};
use crate::worker::Worker;

/// How often the key is registered, if the API does not show it afterwards.
const REGISTERED_MAX: u32 = 3;

impl<W: Worker> Agent<W> {
    /// Makes sure that keys of sealed jobs can be granted to this provider. If its key is not taken, or never told as the one that it
    /// registered, it offers the other modes.
    pub(super) async fn ensure_sealing_key(&mut self) {
        let key = self.sealing.to_register();
        let mut sent: Option<Instant> = None;
        let mut times = 0;
        while self.config.terms.modes.contains(VerificationMode::Sealed) {
            let known = self.client.provider(self.wallet.address()).await;
            let is_away = known.as_ref().is_err_and(ClientError::is_transient);
            if known.is_ok_and(|it| it.sealing_key.as_ref() == Some(&key)) {
                return;
            }
            let is_due = sent.is_none_or(|at| at.elapsed() > OFFER_APPEARS);
            if is_due && !is_away {
                // Stops: an API that tells another key for ever, and has the provider pay for a registration each half minute.
                if times == REGISTERED_MAX {
                    self.emit(AgentEvent::Problem(format!(
                        "the sealing key was registered {times} times, and the grid does not show it: sealed jobs are not served"
                    )));
                    self.offer_unsealed();
                    return;
                }
                let register = Transaction::RegisterSealingKey { key: key.clone() };
                match self.submitter.submit(register).await {
                    Ok(_) => {
                        sent = Some(Instant::now());
                        times += 1;
                    }
                    Err(error) if error.is_transient() => {
                        self.problem("register the sealing key", &error);
                    }
                    Err(error) => {
                        self.problem(
                            "register the sealing key; sealed jobs are not served",
                            &error,
                        );
                        self.offer_unsealed();
                    }
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Leaves mode `sealed` out of what is offered.
    fn offer_unsealed(&mut self) {
        self.config.terms.modes = self.config.terms.modes.and(ModeSet::UNSEALED);
    }
}

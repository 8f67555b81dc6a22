//! The session key of the agent: opened after the offer stands, replaced in good time, and gone on without.

use tg_sdk::SessionChange;

use super::{Agent, AgentEvent};
use crate::worker::Worker;

impl<W: Worker> Agent<W> {
    /// Looks after the session key. Nothing waits for it: without one the account's own key signs.
    pub(super) async fn tend_session(&mut self) {
        let Some(session) = self.submitter.session() else {
            return;
        };
        let policy = self.config.session.policy(&self.config.terms);
        match session.tend(&self.client, &policy).await {
            Ok(Some(SessionChange::Signs(key))) => self.tell(AgentEvent::SessionKey(Some(key))),
            Ok(Some(SessionChange::Lost)) => self.tell(AgentEvent::SessionKey(None)),
            Ok(None) => {}
            Err(error) => self.problem("look after the session key", &error),
        }
    }
}

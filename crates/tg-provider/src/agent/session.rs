//! The agent's session key: registered after the offer, replaced before it expires. Without one the account's key signs.

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
            Ok(Some(SessionChange::Signs(key))) => self.emit(AgentEvent::SessionKey(Some(key))),
            Ok(Some(SessionChange::Lost)) => self.emit(AgentEvent::SessionKey(None)),
            Ok(None) => {}
            Err(error) => self.problem("look after the session key", &error),
        }
    }
}

//! Health checks of a provider's own server: whether it answers and has its model, at the start and then every few seconds.

use std::time::Duration;
use tg_types::with_sources;

use tokio::sync::watch;

use super::client::UpstreamClient;

/// How often a server is asked for its models.
const EVERY: Duration = Duration::from_secs(3);

/// How many times in a row a server may not answer before it counts as gone: a single lost answer withdraws no offer.
const FAILURES: u32 = 2;

/// What is known of a server: why it is gone, or nothing while it is there.
#[derive(Debug, Clone)]
pub struct UpstreamHealth(watch::Receiver<Option<String>>);

impl UpstreamHealth {
    /// Asks a server now and then for as long as anybody wants to know. It counts as there until it was not.
    #[must_use]
    pub fn watched(client: UpstreamClient, model: String) -> Self {
        let (sender, receiver) = watch::channel(None);
        tokio::spawn(async move {
            let mut failures = 0;
            loop {
                tokio::select! {
                    () = tokio::time::sleep(EVERY) => {}
                    () = sender.closed() => return,
                }
                let found = client.check(&model).await.err().map(|it| with_sources(&it));
                failures = match &found {
                    Some(_) => failures + 1,
                    None => 0,
                };
                if found.is_none() || failures >= FAILURES {
                    sender.send_if_modified(|known| {
                        let is_new = known.is_some() != found.is_some();
                        *known = found;
                        is_new
                    });
                }
            }
        });
        Self(receiver)
    }

    /// Why the server is gone; nothing while it is there.
    #[must_use]
    pub fn gone(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Why all of some servers are gone, as it changes; nothing while one of them is there.
    #[must_use]
    pub fn all_gone(servers: Vec<Self>) -> watch::Receiver<Option<String>> {
        let (sender, receiver) = watch::channel(None);
        tokio::spawn(async move {
            loop {
                let reasons: Vec<Option<String>> = servers.iter().map(Self::gone).collect();
                let is_any = reasons.iter().any(Option::is_none);
                let reasons: Vec<String> = reasons.into_iter().flatten().collect();
                let gone = (!is_any).then(|| reasons.join("; "));
                sender.send_if_modified(|known| {
                    let is_new = known.is_some() != gone.is_some();
                    *known = gone;
                    is_new
                });
                tokio::select! {
                    () = tokio::time::sleep(EVERY / 3) => {}
                    () = sender.closed() => return,
                }
            }
        });
        receiver
    }
}

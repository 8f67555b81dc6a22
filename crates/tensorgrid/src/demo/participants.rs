//! Who takes part: three honest providers and three that underbid and cheat.

use std::sync::Arc;

use tg_provider::{AgentConfig, AgentEvent, ProvingWorker};
use tg_sdk::Client;
use tg_types::{Address, Amount};
use tokio::sync::mpsc;

use super::cheats::{Cheat, Lie};
use crate::grid::embedded::RunningAgent;
use crate::grid::machine::{self, Ask};
use tg_console::accounts;

/// One provider.
#[derive(Debug, Clone)]
pub(crate) struct Player {
    /// Its account's name.
    pub(crate) name: String,
    /// Its address.
    pub(crate) address: Address,
    /// How it cheats, if it does. Nobody but the demo knows.
    pub(crate) lie: Option<Lie>,
    /// Thousandths of a TGRID per job.
    price_millis: u64,
    /// Declared throttle in million multiply-accumulates a second.
    throttle: Option<u64>,
}

/// An event of a provider about a lease, with its number.
pub(crate) type ProviderEvent = (usize, AgentEvent);

/// Who takes part: honest ones ask 20 to 40, cheats underbid them.
pub(crate) fn players() -> Vec<Player> {
    let honest = [(20, None), (30, Some(4)), (40, Some(1))];
    let honest = honest
        .into_iter()
        .map(|(price, throttle)| (None, price, throttle));
    let cheats = Lie::ALL
        .into_iter()
        .zip([5, 6, 7])
        .map(|(lie, price)| (Some(lie), price, None));
    honest
        .chain(cheats)
        .enumerate()
        .map(|(index, (lie, price_millis, throttle))| {
            let name = accounts::provider(index);
            let address = accounts::wallet(&name).address();
            Player {
                name,
                address,
                lie,
                price_millis,
                throttle,
            }
        })
        .collect()
}

/// Starts every player's agent; their events go to `sender`.
pub(crate) fn start(
    players: &[Player],
    client: &Client,
    sender: &mpsc::Sender<ProviderEvent>,
) -> Vec<RunningAgent> {
    let honest = Arc::new(ProvingWorker::new());
    players
        .iter()
        .enumerate()
        .map(|(index, player)| {
            let price = milli_tgrid(player.price_millis);
            let terms = machine::terms(&Ask {
                price_per_mmac: milli_tgrid(1),
                throttle_mmac_per_s: player.throttle,
                ..Ask::of_processor(price, Amount::from_tgrid(1))
            });
            let config = AgentConfig {
                throttle_mmac_per_s: player.throttle,
                ..AgentConfig::new(terms)
            };
            let wallet = accounts::wallet(&player.name);
            let mut agent = match player.lie {
                None => RunningAgent::start(client, wallet, Arc::clone(&honest), config),
                Some(lie) => RunningAgent::start(client, wallet, Arc::new(Cheat::new(lie)), config),
            };
            let (_, empty) = mpsc::channel(1);
            let mut events = std::mem::replace(&mut agent.events, empty);
            let sender = sender.clone();
            tokio::spawn(async move {
                while let Some(event) = events.recv().await {
                    // A full queue means that nobody listens; the agent works on.
                    let _unheard = sender.try_send((index, event));
                }
            });
            agent
        })
        .collect()
}

/// Thousandths of a TGRID.
const fn milli_tgrid(millis: u64) -> Amount {
    Amount::new(millis as u128 * 1_000_000_000_000_000)
}

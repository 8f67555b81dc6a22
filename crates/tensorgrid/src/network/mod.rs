//! A network of separate processes.
//!
//! Read in this order: [`settings`] (settings as a file), [`process`] (a validator's settings, and what it is started
//! with), [`gateway`] and [`uplinks`] (the same for a gateway, and how it reaches others), [`provider`] (the settings of a provider), [`standing`] (what a process says of itself), [`layout`] (what a new network has), [`founding`] (its files), [`backup`] (copies of what a process has) and
//! [`scripts`] (those that start and stop its processes).

pub(crate) mod backup;
pub(crate) mod founding;
pub(crate) mod gateway;
pub(crate) mod layout;
pub(crate) mod process;
pub(crate) mod provider;
mod scripts;
pub(crate) mod settings;
pub(crate) mod standing;
pub(crate) mod tls;
pub(crate) mod uplinks;

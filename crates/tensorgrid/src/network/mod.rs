//! A network of separate processes.
//!
//! Read in this order: [`settings`] (settings as a file), [`process`] (a validator's settings, and what it is started
//! with), [`standing`] (what a validator says of itself), [`layout`] (what a new network has), [`founding`] (its files) and
//! [`scripts`] (those that start and stop its processes).

pub(crate) mod founding;
pub(crate) mod layout;
pub(crate) mod process;
mod scripts;
pub(crate) mod settings;
pub(crate) mod standing;

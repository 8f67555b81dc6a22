//! Endpoints: a model that one provider serves for some time, for requests that go to it and not over blocks.
//!
//! The requestor signs with each request what it owes for the answers before ([`tg_types::Voucher`]), the provider signs each
//! answer; the ledger pays time by its clock and answers by the last voucher that is claimed. Either side risks little: a
//! provider that does not answer is asked nothing more, and one that is not paid answers nothing more.
//!
//! [`wire`] is what travels, [`served`] what of it is asked of models that a provider has a server of its own for, [`session`] the requestor's
//! side, [`funds`] its money. [`group`] is several endpoints of one model that take each other's place: [`scaling`] says when one is opened or
//! closed, [`record`] is what is kept of them.

#[cfg(all(feature = "client", feature = "verify"))]
pub mod funds;
#[cfg(all(feature = "client", feature = "verify"))]
pub mod group;
#[cfg(all(feature = "client", feature = "verify"))]
pub mod opening;
pub mod record;
#[cfg(all(feature = "client", feature = "verify"))]
pub mod replica;
pub mod scaling;
pub mod served;
#[cfg(all(feature = "client", feature = "verify"))]
pub mod session;
#[cfg(all(feature = "client", feature = "verify"))]
mod tending;
pub mod wire;

//! Everything that speaks to a grid, or is one.
//!
//! Read in this order: [`accounts`] (who has money on a development network), [`port`] (a node as the API sees it),
//! [`embedded`] (a whole grid in this process), [`connect`] (a grid behind an API), [`keys`] (secret keys in files), [`infer`] (one job from order to
//! checked result), [`machine`] (what this machine offers), [`serving`] (models of a server of its own), [`needs`] (needs and machines as flags), [`table`] (how lists look), [`describe`] (jobs in lines), [`trust`] (what nobody can forge), [`connect_args`], [`order_args`], [`serve_args`], [`job_args`], [`account_args`], [`args`] and [`commands`]
//! (what people type).

pub(crate) mod account_args;
pub(crate) mod accounts;
pub(crate) mod args;
pub(crate) mod blob;
pub(crate) mod commands;
pub(crate) mod connect;
pub(crate) mod connect_args;
pub(crate) mod describe;
pub(crate) mod draw;
pub(crate) mod embedded;
pub(crate) mod endpoint_args;
pub(crate) mod infer;
pub(crate) mod job_args;
pub(crate) mod keys;
pub(crate) mod machine;
pub(crate) mod needs;
pub(crate) mod openai;
pub(crate) mod openai_keys;
pub(crate) mod order_args;
pub(crate) mod port;
pub(crate) mod serve_args;
pub(crate) mod serving;
pub(crate) mod table;
pub(crate) mod trust;

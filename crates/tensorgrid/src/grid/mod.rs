//! Everything that speaks to a grid, or is one.
//!
//! Read in this order: [`port`] (a node as the API sees it), [`embedded`] (a whole grid in this process), [`networks`] (what a key signs for), [`connect`] (a grid behind
//! an API), [`infer`] (one job from order to checked result), [`on_behalf`] (endpoints of a development network's accounts),
//! [`machine`] (what this machine offers), [`serving`] (models of a server of its own), [`session_file`] (keys for machines), [`describe`] (jobs in lines),
//! [`cloud_prices`] (what clouds would take), [`trust`] (what nobody can forge), [`connect_args`], [`order_args`], [`serve_args`],
//! [`job_args`], [`account_args`], [`args`] and [`commands`] (what people type).

pub(crate) mod account_args;
pub(crate) mod args;
pub(crate) mod blob;
pub(crate) mod cloud_prices;
pub(crate) mod commands;
pub(crate) mod connect;
pub(crate) mod connect_args;
pub(crate) mod describe;
pub(crate) mod embedded;
pub(crate) mod endpoint_args;
pub(crate) mod infer;
pub(crate) mod job_args;
pub(crate) mod machine;
pub(crate) mod networks;
mod on_behalf;
pub(crate) mod order_args;
pub(crate) mod port;
pub(crate) mod serve_args;
pub(crate) mod serving;
pub(crate) mod session_file;
pub(crate) mod trust;

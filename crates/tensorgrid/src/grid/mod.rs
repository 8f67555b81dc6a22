//! Everything that speaks to a grid, or is one.
//!
//! Read in this order:
//! 1. [`port`] - a node as the API sees it; `named`, which blobs records name
//! 2. [`embedded`] - a whole grid in this process
//! 3. [`networks`] - what a key signs for
//! 4. [`connect`] - a grid behind an API
//! 5. [`development`] - what a development network does on behalf of clients
//! 6. [`machine`] - what this machine offers
//! 7. [`serving`] - models of a server of its own
//! 8. [`session_file`] - keys for machines
//! 9. [`describe`] - jobs in lines
//! 10. [`descriptors`] - what this process may have open
//! 11. [`cloud_prices`] - what clouds would take
//! 12. [`projects`] - which project a job was for
//! 13. [`trust`] - what nobody can forge
//! 14. [`connect_args`], [`order_args`], [`serve_args`], [`job_args`], [`infer_args`], [`model_args`], [`program_args`], [`account_args`],
//!     [`ledger_args`], [`node_args`], [`commands`] - what people type

pub(crate) mod account_args;
pub(crate) mod blob;
pub(crate) mod cloud_prices;
pub(crate) mod commands;
pub(crate) mod connect;
pub(crate) mod connect_args;
pub(crate) mod describe;
pub(crate) mod descriptors;
mod development;
pub(crate) mod embedded;
pub(crate) mod endpoint_args;
pub(crate) mod infer_args;
pub(crate) mod job_args;
pub(crate) mod ledger_args;
pub(crate) mod machine;
pub(crate) mod model_args;
mod named;
pub(crate) mod networks;
pub(crate) mod node_args;
pub(crate) mod order_args;
pub(crate) mod port;
pub(crate) mod program_args;
pub(crate) mod projects;
pub(crate) mod serve_args;
pub(crate) mod serving;
pub(crate) mod session_file;
pub(crate) mod trust;

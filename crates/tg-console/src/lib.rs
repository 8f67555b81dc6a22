//! What the commands of the program share: how they end and print ([`outcome`]), files ([`files`]), keys in files ([`keys`]) and the
//! accounts of development networks ([`accounts`]), tables ([`table`]), and arguments that several take: what a job needs ([`needs`]), how
//! a result is checked ([`verify`]), what a language model is to write ([`draw`], [`tokens`]).

pub mod accounts;
pub mod draw;
pub mod files;
pub mod keys;
pub mod needs;
pub mod outcome;
pub mod table;
pub mod tokens;
pub mod verify;

//! Proportionally fair packing: where a job goes so that the least of what others need is destroyed.
//!
//! Let `m` run over the classes of work the market sees (GPUs, share of a GPU, needs; from a [`WorkloadProfile`]),
//! `w_m` be how often each comes, and `U_m` how much GPU compute the whole cluster still offers to jobs of class
//! `m`: on each machine the free compute of the devices such a job could use, at most as much as the free CPU can
//! feed. Every placement goes where it reduces
//!
//! ```text
//! sum_m  w_m * log U_m
//! ```
//!
//! least; in first order, the cost of a placement is `sum_m w_m * (1 / U_m) * (what it takes from U_m)`. The
//! factor `1 / U_m` is the price of what class `m` lives on: while eight-GPU machines or a GPU model that only some
//! jobs can use are plenty they cost little, and as they run out other jobs are kept off them, without a rule that
//! names them. There is no parameter to tune. Nothing is ever refused while a machine fits.
//!
//! Files: [`profile`] (classes and their weights), [`table`] (the usable compute of one machine as table look-ups), [`units`]
//! (of CPU), [`price`] (the prices and how long they stand), [`shape`] (machines that look alike), [`burden`] (the cost).
//! The machines with what is held of them are in [`crate::view`], the best one without looking at all of them in
//! [`crate::book`].
//!
//! # Measured
//! What it comes to on the Alibaba openb trace, in the experiment of FGD (ATC'23), is in `docs/MARKET.md`.
//!
//! What was tried on the way, in floats, at 95 / 100 / 130 % arrived demand of the default workload (same seeds):
//!
//! | rule | 95 | 100 | 130 | gpuspec33 at 90 / 100 / 130 |
//! |---|---|---|---|---|
//! | FGD, ties by name | 94.92 | 95.20 | 95.42 | 80.8 / 87.9 / 94.5 (published) |
//! | FGD, ties: machines in use first | 94.97 | 95.38 | 95.50 | |
//! | usable compute counted once a machine, exact score (no prices) | 94.1 | 94.4 | 94.6 | |
//! | usable compute limited by CPU, no prices | 93.3 | 95.5 | 95.6 | 79.5 / 86.6 / 95.6 |
//! | the same, gangs weigh three times | 94.97 | 95.37 | 95.50 | 77.7 / 84.8 / 95.1 |
//! | prices `U^-0.3` | 94.7 | 95.5 | 95.6 | 81.5 / 88.6 / 95.7 |
//! | prices `U^-0.6` | 94.9 | 95.5 | 95.6 | 86.1 / 93.5 / 95.6 |
//! | prices `1/U` | 94.99 | 95.52 | 95.62 | 86.8 / 94.8 / 95.4 |
//! | prices `U^-1.2` | 94.99 | 95.53 | 95.64 | 86.9 / 95.0 / 95.3 |
//! | prices `1/U`, one for each group of classes that differ in CPU only | 94.99 | 95.56 | 95.67 | 86.7 / 94.8 / 95.5 |
//!
//! Without prices the tail of the arrivals is packed as well, but eight-GPU jobs starve before 95 % (20 to 40
//! refused where FGD refuses 9 and 20). With `1/U` it hardly matters how often prices move: after every job, or
//! when something ran down by a quarter or by half (some 30 or 15 times in a run), differ by less than 0.05. The table
//! takes the profile of the whole trace as known. A market knows the jobs that came before ([`ExpectedWork`]), with a prior of
//! jobs that need a model, without which gpuspec33 is one point lower at 90 %.

pub mod burden;
pub mod price;
pub mod profile;
pub mod shape;
pub mod table;
pub mod units;

pub use burden::Burden;
pub use profile::{ExpectedWork, Learner, WorkClass, WorkloadProfile};
pub use shape::Shape;

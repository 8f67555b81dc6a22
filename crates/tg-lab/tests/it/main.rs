//! Tests of `tg-lab`, and of what `tg-market` does with machines and jobs that are drawn here.

mod backfill;
mod cluster;
mod packing;
mod runs;

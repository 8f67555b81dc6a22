//! The integer graph IR: programs, shapes, bounds, segment tables and scalar semantics.

//! The functions of TGF-1: polynomials in a fixed order, the same bits on every machine.

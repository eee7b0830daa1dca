//! `reheap attack`: commits memory errors in a small program, under each variant, and sees what comes of them.
//!
//! The program is in `crates/reheap-hardening/attacker`, one C function for each attack. It says what the attacker got; everything
//! else is judged from outside ([`judge`]), by how the process ended. To add an attack: write its function, name it in
//! `main.c`, and add a row to [`attacks::ATTACKS`]. It must succeed under `tests/programs/gullible.c`, an allocator that
//! checks nothing.

pub(crate) mod attacker;
pub mod attacks;
mod judge;
pub mod kinds;
mod random;
pub mod reports;
pub mod running;
pub mod targets;

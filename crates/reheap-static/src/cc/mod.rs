//! What a call of a C or C++ compiler asks for, as values.

pub mod call;
pub mod options;

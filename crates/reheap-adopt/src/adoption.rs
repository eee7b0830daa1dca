//! What is put into a project, and taken out again.

pub mod ci;
pub mod wheel;

//! What only a forge runs, run here.

mod forge;
mod release;
mod workflows;

//! Shows which memory errors each variant stops: in a terminal, a pull request, a browser.
//!
//! All forms are made from the same [`Results`], which `reheap attack --json` writes. What is concluded from single runs
//! is concluded in one place ([`matrix`]), so that no two forms disagree.

mod entropy;
mod html;
mod markdown;
mod matrix;
mod results;
mod summary;
mod text;
mod words;

pub use html::html;
pub use markdown::markdown;
pub use matrix::{Matrix, Share, Tally};
pub use results::{
    Attack, Cell, Ending, FORMAT, Outcome, Randomisation, ReadError, Results, Starts, Variant,
    from_json, to_json,
};
pub use summary::{Column, Summary};
pub use text::text;

//! Shows what reheap measured: in a terminal, a pull request, a spreadsheet, another tool, a browser.
//!
//! Results in, text out: no file, no clock, no terminal is asked, and the same results give the same bytes. So a report
//! can be made anywhere and at any time from files that were measured elsewhere, several of them at once. What is
//! computed is in the [`Overview`](reheap_bench::overview::Overview) that each form borrows; here it is only laid out.

pub mod attacks;
mod bencher;
mod chart;
mod csv;
mod escape;
mod html;
mod hyperfine;
mod markdown;
mod names;
mod numbers;
pub mod profile;
mod text;
mod view;
mod words;

pub use bencher::bencher_json;
pub use csv::csv;
pub use html::html;
pub use hyperfine::hyperfine_json;
pub use markdown::markdown;
pub use text::{Colour, Style, text, tried_before_last};

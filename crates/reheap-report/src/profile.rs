//! Shows how a command allocated: in a terminal, in a browser, to other tools, and next to an earlier profile.
//!
//! All forms are made from the same [`Profile`](reheap_profile::profile::Profile), which `-o` writes. What may be added
//! over processes is added in one place ([`whole`]); what is said in sentences is worded in one place ([`facts`],
//! [`verdict`]), so that no two forms disagree.

mod bars;
mod dhat;
mod diff;
mod facts;
mod figure;
mod firefox;
mod flame;
mod folded;
mod histogram;
mod html;
mod json;
mod number;
mod parts;
mod pprof;
mod screen;
mod shares;
mod sites;
mod text;
mod threshold;
mod verdict;
mod whole;

pub use dhat::dhat;
pub use diff::{diff_json, diff_text};
pub use figure::{FIGURES, Figure, Unit};
pub use firefox::firefox;
pub use folded::{By, folded};
pub use html::html;
pub use json::{ReadError, from_json, to_json};
pub use pprof::pprof;
pub use text::text;
pub use threshold::{Threshold, Unchecked, violation};
pub use verdict::{Reason, Verdict};

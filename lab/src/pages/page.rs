//! A file that is made from raw data.

use std::path::PathBuf;

pub(crate) struct Page {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

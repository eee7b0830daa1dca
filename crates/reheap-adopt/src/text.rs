//! A text file, and the lines in it.

use crate::error::AdoptError;
use std::fs;
use std::path::{Path, PathBuf};

/// A text file as it was read.
#[derive(Debug, Clone)]
pub struct Text {
    /// Where it is.
    pub path: PathBuf,
    /// All of it, with the line ends that it has.
    pub contents: String,
}

impl Text {
    /// Reads a file of UTF-8.
    ///
    /// # Errors
    /// If it cannot be read, or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self, AdoptError> {
        let contents = fs::read_to_string(path).map_err(|source| AdoptError::Read {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            contents,
        })
    }

    /// The line of a byte, from 1.
    pub fn line(&self, offset: usize) -> usize {
        let before = &self.contents.as_bytes()[..offset.min(self.contents.len())];
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }

    /// What ends its lines: `\r\n` if the first one ends so.
    pub fn line_end(&self) -> &'static str {
        match self.contents.find('\n') {
            Some(at) if self.contents[..at].ends_with('\r') => "\r\n",
            _ => "\n",
        }
    }
}

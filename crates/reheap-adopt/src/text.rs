//! A text file, and the lines in it.

use crate::error::AdoptError;
use std::fs;
use std::io;
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
        Ok(Self {
            path: path.to_owned(),
            contents: contents(path)?,
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

/// What is in a file of UTF-8.
pub(crate) fn contents(path: &Path) -> Result<String, AdoptError> {
    let contents = fs::read(path).and_then(|bytes| {
        let is_other = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8");
        String::from_utf8(bytes).map_err(is_other)
    });
    contents.map_err(|source| AdoptError::Read {
        path: path.to_owned(),
        source,
    })
}

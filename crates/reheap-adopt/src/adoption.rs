//! What `reheap adopt` changes in a project's files, and how it takes that out again.
//!
//! Files are changed by inserting text at places that the parsers give, so all other bytes stay as they are. Each piece
//! carries a mark, a comment. `reheap adopt --undo` finds pieces by their marks and by nothing else: no state is kept
//! outside the files, so it works in any clone, years later, after a bot raised a version or `cargo fmt` ran.
//!
//! Nothing is trusted to be right by construction. What an edited manifest says must be what it said before and what was
//! planned; what an edited source says must be one global allocator more; and taking the pieces out must give the
//! original bytes. Otherwise the file is refused, and nothing is written.
//!
//! To let `adopt` change another kind of file: plan with [`Plan::edit`] or [`Plan::create`], put a mark into what is
//! inserted, and take it out again in [`removal::of_project`].

mod arrays;
pub mod ci;
mod data;
mod lines;
mod manifests;
pub mod metadata;
#[cfg(test)]
mod mutated;
pub mod needed_rust;
pub mod packages;
pub mod placement;
pub mod removal;
mod required;
pub mod set_up;
mod statics;
#[cfg(test)]
mod tests;
pub mod wheel;

use crate::error::AdoptError;
use crate::text::Text;
use std::fs;
use std::path::{Path, PathBuf};

/// What a planned change is refused for, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Refusal {
    /// The reason, with the place if there is one.
    pub what: String,
    /// What to do, if that is known.
    pub hint: Option<String>,
}

impl Refusal {
    /// For this reason.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            hint: None,
        }
    }

    /// With what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<AdoptError> for Refusal {
    fn from(error: AdoptError) -> Self {
        Self::new(error.to_string())
    }
}

/// A file, and what it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The file itself, behind whatever links there are.
    pub path: PathBuf,
    /// What is in it; none if it is not there.
    pub before: Option<String>,
    /// What will be in it; none if it goes.
    pub after: Option<String>,
}

/// The files to change.
#[derive(Debug, Default)]
pub struct Plan {
    files: Vec<Change>,
}

impl Plan {
    /// The file as the plan leaves it so far.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn text(&mut self, path: &Path) -> Result<Text, AdoptError> {
        let index = self.index(path)?;
        Ok(Text {
            path: path.to_owned(),
            contents: self.files[index].after.clone().unwrap_or_default(),
        })
    }

    /// Changes a file; the function gets what the plan made of it so far.
    ///
    /// # Errors
    /// If it cannot be read, and those of the function.
    pub fn edit<E: From<AdoptError>>(
        &mut self,
        path: &Path,
        change: impl FnOnce(&Text) -> Result<String, E>,
    ) -> Result<(), E> {
        let text = self.text(path)?;
        let after = change(&text)?;
        let index = self.index(path)?;
        self.files[index].after = Some(after);
        Ok(())
    }

    /// Makes a file that is not there.
    ///
    /// # Errors
    /// If it is there.
    pub fn create(&mut self, path: &Path, contents: String) -> Result<(), Refusal> {
        if path.symlink_metadata().is_ok() {
            let what = format!("cannot create `{}`: it is there already", path.display());
            return Err(Refusal::new(what));
        }
        self.files.push(Change {
            path: path.to_owned(),
            before: None,
            after: Some(contents),
        });
        Ok(())
    }

    /// Takes a file away.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn remove(&mut self, path: &Path) -> Result<(), AdoptError> {
        let index = self.index(path)?;
        self.files[index].after = None;
        Ok(())
    }

    /// The files that differ, in the order of their paths.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        let mut changes: Vec<&Change> = self.files.iter().collect();
        changes.retain(|file| file.before != file.after);
        changes.sort_by_key(|file| &file.path);
        changes.into_iter()
    }

    fn index(&mut self, path: &Path) -> Result<usize, AdoptError> {
        let cannot_read = |source| AdoptError::Read {
            path: path.to_owned(),
            source,
        };
        // A link stays, and what it leads to is changed, once.
        let real = fs::canonicalize(path).map_err(cannot_read)?;
        if let Some(index) = self.files.iter().position(|file| file.path == real) {
            return Ok(index);
        }
        let contents = crate::text::contents(&real)?;
        self.files.push(Change {
            path: real,
            before: Some(contents.clone()),
            after: Some(contents),
        });
        Ok(self.files.len() - 1)
    }
}

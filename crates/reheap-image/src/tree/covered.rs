//! Links of the root directory that a layer has put something else in the place of.
//!
//! In Debian `/lib` is a link to `usr/lib`. A layer with a directory `/lib` covers it, and programs do not find their
//! libraries any more: engines do not join the two.

use super::{Act, ROOT, Tree};
use oci_spec::image::Digest;
use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

/// Those that lead programs to their libraries, or to the programs.
const LINKS: [&str; 4] = ["lib", "lib64", "bin", "sbin"];

/// A link that cannot be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Covered {
    name: &'static str,
    target: PathBuf,
    /// Counted from 1, the lowest.
    layer: usize,
    layers: usize,
    digest: Option<Digest>,
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = self.digest.iter().map(|digest| format!(" ({digest})"));
        write!(
            f,
            "layer {} of {}{} covers `/{}`, a link to `{}` in a layer below it",
            self.layer,
            self.layers,
            digest.collect::<String>(),
            self.name,
            self.target.display().to_string().escape_debug()
        )
    }
}

impl Tree {
    /// The first link that a layer covers.
    pub fn covered(&self) -> Option<Covered> {
        LINKS.into_iter().find_map(|name| self.covered_link(name))
    }

    fn covered_link(&self, name: &'static str) -> Option<Covered> {
        let path = self.hash(ROOT, OsStr::new(name));
        let (mut link, mut covered) = (None, None);
        for layer in 0..self.changes.len() {
            for change in self.changes_at(path, layer, self.in_the_end()) {
                match change.act {
                    Act::Link(target) => (link, covered) = (Some(target), None),
                    Act::Hide | Act::Empty => (link, covered) = (None, None),
                    Act::Directory | Act::File | Act::SameAs(_) | Act::Other => {
                        covered = covered.or(link.map(|target| (target, layer)));
                    }
                }
            }
        }
        let (target, layer) = covered?;
        Some(Covered {
            name,
            target: self.kept(target),
            layer: layer + 1,
            layers: self.changes.len(),
            digest: self.digests.get(layer).cloned().flatten(),
        })
    }
}

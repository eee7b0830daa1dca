//! An archive with an allocator that somebody else has built, as a linker would take it into a program.
//!
//! Allocators have their functions under the public names, or all of them with one prefix, such as `mi_` or `_rjem_`.
//! reheap takes the six primitives that `family.c` is written over, and leaves the rest of an archive's family: what
//! allocators check there differs. So an archive with a family of its own is tried with the same one as all others.
//!
//! Members that the six do not lead to stay out. A linker would not take them either, and they often need what a libc
//! does not have: C++'s operators need the C++ library.

use crate::archive::{self, ArchiveError, Member};
use crate::symbols::{self, ObjectError, Symbol};
use std::collections::{BTreeMap, BTreeSet};

/// Each primitive, with the names that it may have behind the prefix.
const PRIMITIVES: [(&str, &[&str]); 6] = [
    ("malloc", &["malloc"]),
    ("calloc", &["calloc"]),
    ("realloc", &["realloc"]),
    ("free", &["free"]),
    ("memalign", &["memalign", "aligned_alloc"]),
    ("malloc_usable_size", &["malloc_usable_size", "usable_size"]),
];

/// An allocator in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocatorArchive {
    /// The members that a program would be linked with.
    pub members: Vec<Member>,
    /// Function of the family to the symbol that implements it.
    pub entry_points: BTreeMap<&'static str, String>,
    /// What these members need of others.
    pub needs: BTreeSet<String>,
}

/// Why an archive has no usable allocator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllocatorArchiveError {
    /// It cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A member cannot be read.
    #[error("its member `{member}` is {reason}")]
    Member {
        /// The member's name.
        member: String,
        /// What is wrong with it.
        reason: ObjectError,
    },
    /// It is another library.
    #[error("none of its members defines `malloc`, or a whole family with a prefix such as `mi_`")]
    NoMalloc,
    /// A part is not there.
    #[error("it defines `malloc`, but not {}", names(.0))]
    Incomplete(Vec<&'static str>),
}

fn names(functions: &[&str]) -> String {
    let names: Vec<String> = functions.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

struct Object {
    member: Member,
    symbols: Vec<Symbol>,
}

/// Finds the allocator in an archive.
///
/// # Errors
/// When the bytes are no archive of ELF objects, or when the objects lack a function that reheap cannot add.
pub fn read(bytes: &[u8]) -> Result<AllocatorArchive, AllocatorArchiveError> {
    let mut objects = Vec::new();
    for member in archive::read(bytes)? {
        match symbols::read(&member.data) {
            Ok((_, symbols)) => objects.push(Object { member, symbols }),
            Err(ObjectError::NotElf) => {} // a list of files, or Rust's metadata
            Err(reason) => {
                let member = member.name;
                return Err(AllocatorArchiveError::Member { member, reason });
            }
        }
    }
    let mut definitions = BTreeMap::new();
    for (index, object) in objects.iter().enumerate() {
        for name in object.definitions() {
            definitions.entry(name).or_insert(index);
        }
    }
    let entry_points = entry_points(&definitions)?;
    let taken = taken(&objects, &definitions, entry_points.values());
    let needs = taken.iter().flat_map(|index| objects[*index].needs());
    let needs = needs.filter(|name| !definitions.contains_key(name));
    Ok(AllocatorArchive {
        needs: needs.map(str::to_owned).collect(),
        members: (taken.iter())
            .map(|index| objects[*index].member.clone())
            .collect(),
        entry_points,
    })
}

/// The primitives under the public names, or under the shortest prefix that all of them have.
fn entry_points(
    definitions: &BTreeMap<&str, usize>,
) -> Result<BTreeMap<&'static str, String>, AllocatorArchiveError> {
    let mut prefixes: Vec<&str> = (definitions.keys())
        .filter_map(|name| name.strip_suffix("malloc"))
        .collect();
    prefixes.sort_by_key(|prefix| prefix.len());
    let with = |prefix: &str| {
        let (mut found, mut missing) = (BTreeMap::new(), Vec::new());
        for (function, alternatives) in PRIMITIVES {
            let mut names = alternatives.iter().map(|name| format!("{prefix}{name}"));
            match names.find(|name| definitions.contains_key(name.as_str())) {
                Some(name) => drop(found.insert(function, name)),
                None => missing.push(function),
            }
        }
        (found, missing)
    };
    let whole = prefixes.iter().map(|prefix| with(prefix));
    if let Some((found, _)) = whole.into_iter().find(|(_, missing)| missing.is_empty()) {
        return Ok(found);
    }
    if prefixes.first() == Some(&"") {
        return Err(AllocatorArchiveError::Incomplete(with("").1));
    }
    Err(AllocatorArchiveError::NoMalloc)
}

/// The members that define these symbols, and those that these need, in the order of the archive.
fn taken<'a>(
    objects: &'a [Object],
    definitions: &BTreeMap<&str, usize>,
    roots: impl Iterator<Item = &'a String>,
) -> BTreeSet<usize> {
    let mut taken = BTreeSet::new();
    let mut left: Vec<&str> = roots.map(String::as_str).collect();
    while let Some(name) = left.pop() {
        if let Some(index) = definitions.get(name)
            && taken.insert(*index)
        {
            left.extend(objects[*index].needs());
        }
    }
    taken
}

impl Object {
    fn definitions(&self) -> impl Iterator<Item = &str> {
        let defined = self.symbols.iter().filter(|s| s.role.is_definition());
        defined.map(|symbol| symbol.name.as_str())
    }

    fn needs(&self) -> impl Iterator<Item = &str> {
        let needed = self.symbols.iter().filter(|s| !s.role.is_definition());
        needed.map(|symbol| symbol.name.as_str())
    }
}

//! Finds out whose `malloc` a running dynamic program calls.
//!
//! There are two ways, and the second proves the first. The dynamic linker takes the first definition among the
//! executable, the preloads, and then the needed libraries breadth first (ELF gABI, "Shared Object Dependencies"; glibc
//! and musl alike). reheap rebuilds that order from the mapped files. If it may read the process's memory, the
//! addresses that the dynamic linker bound show where the calls go, even if the program opened a library later with a
//! scope of its own.

use reheap_elf::identify::{Confidence, Identity, MallocVerdict, Provider};
use reheap_proc::maps::Mapping;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What identification needs of a file, however many processes have it mapped.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) identity: Identity,
    /// See [`reheap_elf::bindings::malloc_slots`].
    pub(crate) malloc_slots: Vec<u64>,
}

/// A file whose code is mapped.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) path: PathBuf,
    pub(crate) inode: u64,
    /// Where its first byte is.
    pub(crate) load_address: Option<u64>,
    pub(crate) ranges: Vec<(u64, u64)>,
    /// `None` if it could not be read or is no ELF file.
    pub(crate) contents: Option<Rc<Contents>>,
}

impl Object {
    fn identity(&self) -> Option<&Identity> {
        self.contents.as_deref().map(|contents| &contents.identity)
    }

    fn exports_malloc(&self) -> bool {
        self.identity()
            .is_some_and(|identity| identity.exports.iter().any(|name| name == "malloc"))
    }

    pub(crate) fn is_libc(&self) -> bool {
        let soname = self
            .identity()
            .and_then(|identity| identity.soname.as_deref());
        let names = [soname, self.file_name()];
        names.into_iter().flatten().any(|name| {
            ["libc.so", "libc.musl-", "ld-musl-", "libc-2."]
                .iter()
                .any(|own| name.starts_with(own))
        })
    }

    pub(crate) fn file_name(&self) -> Option<&str> {
        self.path.file_name()?.to_str()
    }

    /// Whether it is what a program that needs `name` gets.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let soname = self
            .identity()
            .and_then(|identity| identity.soname.as_deref());
        soname == Some(name) || self.file_name() == Some(name) || self.path == Path::new(name)
    }
}

/// The files whose code is mapped, in the order of their addresses, without their contents.
pub(crate) fn objects(mappings: &[Mapping]) -> Vec<Object> {
    let mut objects: Vec<Object> = Vec::new();
    for mapping in mappings {
        let Some(path) = mapping.listed_file() else {
            continue;
        };
        let index = objects
            .iter()
            .position(|object| object.inode == mapping.inode && object.path == path);
        let index = index.unwrap_or_else(|| {
            objects.push(Object {
                path,
                inode: mapping.inode,
                load_address: None,
                ranges: Vec::new(),
                contents: None,
            });
            objects.len() - 1
        });
        let object = &mut objects[index];
        if mapping.offset == 0 && object.load_address.is_none() {
            object.load_address = Some(mapping.start);
        }
        if mapping.is_executable {
            object.ranges.push((mapping.start, mapping.end));
        }
    }
    objects.retain(|object| !object.ranges.is_empty());
    objects
}

/// Everything that decides whose `malloc` is called.
pub(crate) struct Scope<'a> {
    pub(crate) objects: &'a [Object],
    /// Which of them is the executable.
    pub(crate) executable: usize,
    /// Which of them were preloaded, in order.
    pub(crate) preloads: Vec<usize>,
}

/// The conclusion.
#[derive(Debug)]
pub(crate) struct Conclusion {
    pub(crate) verdict: MallocVerdict,
    /// Which object provides it.
    pub(crate) provider: Option<usize>,
    /// All objects that calls go to, if there are several.
    pub(crate) several: Vec<usize>,
}

impl Scope<'_> {
    /// The order in which the dynamic linker looks a symbol up, as far as the mapped files tell.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut order = vec![self.executable];
        order.extend(
            self.preloads
                .iter()
                .filter(|&&index| index != self.executable),
        );
        let mut next = 0;
        while let Some(&index) = order.get(next) {
            next += 1;
            let identity = self.objects[index].identity();
            for name in identity.into_iter().flat_map(|identity| &identity.needed) {
                let found = self
                    .objects
                    .iter()
                    .position(|object| object.is_called(name));
                if let Some(found) = found.filter(|found| !order.contains(found)) {
                    order.push(found);
                }
            }
        }
        order
    }

    /// Concludes from the order and, where there are any, from the addresses that calls were bound to: pairs of the
    /// object that calls and the address.
    pub(crate) fn malloc(&self, bound: &[(usize, u64)]) -> Conclusion {
        let order = self.order();
        let first = order
            .iter()
            .copied()
            .find(|&index| self.objects[index].exports_malloc());
        let targets = self.targets(bound);
        let most = targets.iter().max_by_key(|(_, count)| **count);
        match (most, first) {
            (Some((&target, _)), _) => Conclusion {
                verdict: self.verdict(target, Confidence::Certain, "calls of malloc are bound to"),
                provider: Some(target),
                several: match targets.len() {
                    1 => Vec::new(),
                    _ => targets.into_keys().collect(),
                },
            },
            (None, Some(first)) => Conclusion {
                verdict: self.verdict(
                    first,
                    Confidence::Likely,
                    "the dynamic linker finds malloc first in",
                ),
                provider: Some(first),
                several: Vec::new(),
            },
            (None, None) => Conclusion {
                verdict: MallocVerdict {
                    provider: Provider::Unknown,
                    confidence: None,
                    reason: "no mapped file that reheap can read defines malloc for others"
                        .to_owned(),
                },
                provider: None,
                several: Vec::new(),
            },
        }
    }

    /// How many of the bound calls go to which object.
    fn targets(&self, bound: &[(usize, u64)]) -> BTreeMap<usize, usize> {
        let mut targets = BTreeMap::new();
        for &(caller, address) in bound {
            let contains = |object: &Object| {
                let mut ranges = object.ranges.iter();
                ranges.any(|&(start, end)| (start..end).contains(&address))
            };
            let Some(target) = self.objects.iter().position(contains) else {
                continue;
            };
            // Until its first call, a slot leads back into the file that calls.
            if target != caller || self.objects[target].exports_malloc() {
                *targets.entry(target).or_insert(0) += 1;
            }
        }
        targets
    }

    fn verdict(&self, index: usize, confidence: Confidence, how: &str) -> MallocVerdict {
        let object = &self.objects[index];
        let inside = object.identity().map(|identity| &identity.malloc);
        let provider = match inside.map(|malloc| &malloc.provider) {
            _ if object.is_libc() => Provider::SharedLibc,
            Some(own) if index == self.executable => own.clone(),
            Some(Provider::Allocator { name }) => Provider::Library {
                name: name.clone(),
                library: object.path.to_string_lossy().into_owned(),
            },
            _ => Provider::Unknown,
        };
        let is_known = provider != Provider::Unknown;
        let mut reason = format!("{how} `{}`", object.path.display());
        if !is_known {
            reason.push_str(", which holds no allocator that reheap knows");
        }
        MallocVerdict {
            // Which allocator it is can be less sure than which file it is in.
            confidence: is_known.then(|| {
                match (&provider, inside.and_then(|own| own.confidence)) {
                    (Provider::SharedLibc, _) | (_, None) => confidence,
                    (_, Some(own)) => confidence.min(own),
                }
            }),
            provider,
            reason,
        }
    }
}

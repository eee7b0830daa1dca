//! The derived libc: a copy of a musl `libc.a` with another allocator in it.
//!
//! reheap selects the members to take out by symbol, never by file name. `free.lo` and `realloc.lo` are in the archive
//! twice (public wrapper and implementation), and the list of files changes with musl's version.
//!
//! It puts in the allocator's own objects. All their global symbols get a prefix and are hidden, so a program may link
//! the same allocator again. The public names are *weak* symbols, so a program may bring its own malloc. libc functions
//! such as `newlocale` call `__libc_malloc` and pull the allocator in anyway, so a strong `malloc` would be a "multiple
//! definition of `malloc`". Memory functions come in the same way. They have few symbols, and these have reheap's
//! prefix already.
//!
//! [`derive_libc`] lists the passes in order.

use crate::archive::{self, ArchiveError, Member};
use crate::baked::Baked;
use crate::family;
use crate::marker::{self, Marker};
use crate::rewrite::{Alias, Edits, Strength, rewrite};
use crate::symbols::{self, ObjectError, Role, Symbol};
use crate::{Architecture, Platform};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use std::collections::{BTreeMap, BTreeSet};

/// An allocator, compiled for the architecture of the libc.
#[derive(Debug, Clone)]
pub struct AllocatorObjects {
    /// The objects of the allocator itself.
    pub upstream: Vec<Member>,
    /// reheap's glue: the rest of the family over the allocator's primitives.
    pub glue: Vec<Member>,
    /// Which upstream symbol is the allocator's `malloc`, `calloc`, …: function to symbol. The glue defines the others
    /// under [`family::own_name`].
    pub entry_points: BTreeMap<String, String>,
    /// Functions that the allocator takes from the glue: of the libc, such as `getenv`, or its own that its other
    /// objects call. The object that defines one keeps it, so the glue can call it.
    pub redirects: BTreeMap<String, String>,
    /// Functions beside the family that a preload offers under the allocator's own names. A libc offers none of them, so
    /// a program may define such a name itself.
    pub interface: Vec<String>,
}

/// Memory functions, compiled for the architecture of the libc.
#[derive(Debug, Clone)]
pub struct MemoryFunctions {
    /// Their objects, with hidden symbols of reheap's own.
    pub objects: Vec<Member>,
    /// The name that a libc may have (`memcpy`, `__memrchr`) to the symbol of the objects that takes its place.
    pub names: BTreeMap<String, String>,
}

/// A musl `libc.a` that was read and recognised.
#[derive(Debug, Clone)]
pub struct OriginalLibc {
    members: Vec<Linkable>,
    /// What it was compiled for.
    pub architecture: Architecture,
    platform: Platform,
    /// musl's version, such as `1.2.5`.
    pub version: String,
}

/// A libc with another allocator in it.
#[derive(Debug, Clone)]
pub struct DerivedLibc {
    /// The archive.
    pub bytes: Vec<u8>,
    /// The members of the original that are not in it.
    pub taken_out: Vec<String>,
    /// The members that the original did not have.
    pub put_in: Vec<String>,
}

/// Why no libc can be derived.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeriveError {
    /// The file is not a usable archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A member is not a usable object.
    #[error("member `{member}` is {reason}")]
    Member {
        /// The member's name.
        member: String,
        /// What is wrong with it.
        reason: ObjectError,
    },
    /// Two members are for different processors.
    #[error("member `{member}` is for {found}, the others are for {expected}")]
    MixedArchitectures {
        /// The member's name.
        member: String,
        /// Its architecture.
        found: Architecture,
        /// The architecture of the members before it.
        expected: Architecture,
    },
    /// The archive is another library.
    #[error("it is not a musl libc: no member defines `{0}`")]
    NotMusl(&'static str),
    /// reheap made it.
    #[error("it is already a derived libc, with {} {} in it", .0.allocator, .0.allocator_version)]
    AlreadyDerived(Box<Marker>),
    /// The allocator was compiled for another processor.
    #[error("the libc is for {libc}, the allocator for {allocator}")]
    OtherArchitecture {
        /// The libc's architecture.
        libc: Architecture,
        /// The allocator's.
        allocator: Architecture,
    },
    /// A member to take out defines something else, too.
    #[error("member `{member}` defines `{symbol}` beside `{family}`, so it cannot be taken out")]
    Entangled {
        /// The member's name.
        member: String,
        /// The symbol that others may need.
        symbol: String,
        /// The symbol to take out: of the malloc family, or a memory function.
        family: String,
    },
    /// The audit found a need without a definition.
    #[error("member `{member}` needs `{symbol}`, which nothing defines any more")]
    Undefined {
        /// The member that needs it.
        member: String,
        /// The symbol.
        symbol: String,
    },
    /// The audit found two definitions.
    #[error("`{symbol}` is defined by `{first}` and by `{second}`")]
    DefinedTwice {
        /// The symbol.
        symbol: String,
        /// One member.
        first: String,
        /// The other.
        second: String,
    },
    /// An entry point of the catalogue that the allocator does not have.
    #[error("the allocator does not define `{0}`")]
    NoEntryPoint(String),
    /// A memory function of the libc that the ones put in its place do not have.
    #[error("the memory functions do not define `{0}`")]
    NoMemoryFunction(String),
    /// The archive could not be written.
    #[error("the archive cannot be written: {0}")]
    Write(String),
}

/// A member with its symbols.
#[derive(Debug, Clone)]
pub(crate) struct Linkable {
    pub(crate) member: Member,
    symbols: Vec<Symbol>,
}

impl Linkable {
    fn read(member: Member) -> Result<(Platform, Self), DeriveError> {
        match symbols::read(&member.data) {
            Ok((platform, symbols)) => Ok((platform, Self { member, symbols })),
            Err(reason) => Err(DeriveError::Member {
                member: member.name,
                reason,
            }),
        }
    }

    fn definitions(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|s| s.role.is_definition())
    }

    fn needs(&self) -> impl Iterator<Item = &str> {
        self.symbols
            .iter()
            .filter(|s| !s.role.is_definition())
            .map(|s| s.name.as_str())
    }

    fn defines(&self, symbol: &str) -> bool {
        self.definitions().any(|s| s.name == symbol)
    }

    /// A definition that is part of the libc's interface. Anyone may need it.
    fn interface(&self) -> Option<&Symbol> {
        self.definitions().find(|s| {
            !s.hidden && !family::is_reserved(&s.name) && !family::belongs_to_the_allocator(&s.name)
        })
    }
}

/// Where musl has its version as text.
const VERSION: &str = "__libc_version";

/// Reads and recognises a musl `libc.a`.
///
/// # Errors
/// When the bytes are not an archive of ELF objects for one processor, when no member is musl's, or when reheap has
/// already derived the libc.
pub fn read_original(bytes: &[u8]) -> Result<OriginalLibc, DeriveError> {
    let mut members = Vec::new();
    let mut architecture = None;
    let mut flags = 0;
    for member in archive::read(bytes)? {
        if let Some(marker) = marker::read_unlinked(&member.data) {
            return Err(DeriveError::AlreadyDerived(Box::new(marker)));
        }
        let (found, linkable) = Linkable::read(member)?;
        let expected = *architecture.get_or_insert(found.architecture);
        if found.architecture != expected {
            let member = linkable.member.name;
            return Err(DeriveError::MixedArchitectures {
                member,
                found: found.architecture,
                expected,
            });
        }
        // Those of an object that a C compiler made: assembly may be without.
        if linkable.defines(VERSION) {
            flags = found.flags;
        }
        members.push(linkable);
    }
    for symbol in [VERSION, "__init_tp", "malloc"] {
        if !members.iter().any(|m| m.defines(symbol)) {
            return Err(DeriveError::NotMusl(symbol));
        }
    }
    let architecture = architecture.expect("an archive has at least one member");
    Ok(OriginalLibc {
        version: members
            .iter()
            .find_map(|m| text_of(&m.member.data, VERSION))
            .ok_or(DeriveError::NotMusl(VERSION))?,
        architecture,
        platform: Platform {
            architecture,
            flags,
        },
        members,
    })
}

/// The NUL-terminated text at a symbol of an object.
fn text_of(object: &[u8], symbol: &str) -> Option<String> {
    let file = object::File::parse(object).ok()?;
    let symbol = file
        .symbols()
        .find(|s| s.is_definition() && s.name() == Ok(symbol))?;
    let section = file.section_by_index(symbol.section_index()?).ok()?;
    let data = section
        .data()
        .ok()?
        .get(usize::try_from(symbol.address()).ok()?..)?;
    let text = data.split(|&b| b == 0).next()?;
    String::from_utf8(text.to_vec())
        .ok()
        .filter(|t| !t.is_empty())
}

/// Puts another allocator into a musl libc, and other memory functions if there are some.
///
/// # Errors
/// When an object is damaged, for another processor, or lacks an entry point; when a member of the libc defines
/// something else beside its allocator; when the audit finds a need with no definition, or with two.
pub fn derive_libc(
    original: &OriginalLibc,
    allocator: &AllocatorObjects,
    memory: Option<&MemoryFunctions>,
    marker: &Marker,
    tuning: &[Baked],
) -> Result<DerivedLibc, DeriveError> {
    // Take the stock allocator out: every member that defines the family, and every member that only those need.
    let (mut kept, mut taken_out) = take_out_allocator(&original.members)?;

    // Put the other allocator in, with all its symbols prefixed and the family's names bound to it.
    let mut put_in = bind_allocator(allocator, original.architecture, Host::Libc)?;

    // Add the marker. The allocator needs its symbol, so a linker never takes one without the other.
    put_in.push(
        Linkable::read(Member {
            name: "reheap-marker.o".to_owned(),
            data: marker::object_file(marker, tuning, original.platform, family::own_name),
        })?
        .1,
    );

    // Replace the libc's memory functions by others of the same names.
    if let Some(functions) = memory {
        let slow = take_out_memory_functions(&mut kept, functions)?;
        put_in.extend(bind_memory_functions(
            functions,
            &slow,
            original.architecture,
        )?);
        taken_out.extend(slow);
    }

    // From here on, no pass adds or removes a member.
    audit(&kept, &taken_out, &put_in)?;
    write(kept, taken_out, put_in)
}

fn take_out_allocator(
    members: &[Linkable],
) -> Result<(Vec<&Linkable>, Vec<&Linkable>), DeriveError> {
    let mut out: Vec<bool> = members
        .iter()
        .map(|m| {
            m.definitions()
                .any(|s| family::belongs_to_the_allocator(&s.name))
        })
        .collect();
    loop {
        let before = out.iter().filter(|&&o| o).count();
        let needed_by_kept: BTreeSet<&str> = selected(members, &out, false)
            .flat_map(Linkable::needs)
            .collect();
        let needed_by_taken: BTreeSet<&str> = selected(members, &out, true)
            .flat_map(Linkable::needs)
            .collect();
        let taken_definitions: BTreeSet<&str> = selected(members, &out, true)
            .flat_map(Linkable::definitions)
            .map(|s| s.name.as_str())
            .collect();
        let kept_definitions: BTreeSet<&str> = selected(members, &out, false)
            .flat_map(Linkable::definitions)
            .map(|s| s.name.as_str())
            .collect();
        for (member, out) in members
            .iter()
            .zip(&mut out)
            .filter(|(m, out)| !**out && m.interface().is_none())
        {
            // Only the allocator uses it (`replaced.lo`) …
            let served_only_it = member
                .definitions()
                .any(|s| needed_by_taken.contains(s.name.as_str()))
                && !member
                    .definitions()
                    .any(|s| needed_by_kept.contains(s.name.as_str()));
            // … or it reaches into the allocator (`donate.lo`).
            let was_part_of_it = member.needs().any(|need| {
                taken_definitions.contains(need)
                    && !kept_definitions.contains(need)
                    && !family::belongs_to_the_allocator(need)
            });
            *out |= served_only_it || was_part_of_it;
        }
        if out.iter().filter(|&&o| o).count() == before {
            break;
        }
    }
    for member in selected(members, &out, true) {
        if let Some(symbol) = member.interface() {
            let family = member
                .definitions()
                .find(|s| family::belongs_to_the_allocator(&s.name));
            return Err(DeriveError::Entangled {
                member: member.member.name.clone(),
                symbol: symbol.name.clone(),
                family: family.map(|s| s.name.clone()).unwrap_or_default(),
            });
        }
    }
    Ok((
        selected(members, &out, false).collect(),
        selected(members, &out, true).collect(),
    ))
}

/// Splits off the members that define memory functions.
///
/// Their other symbols are for each other, such as `__memcpy_fwd`, to which memmove jumps. The audit finds out whether
/// another member needs one.
fn take_out_memory_functions<'a>(
    members: &mut Vec<&'a Linkable>,
    functions: &MemoryFunctions,
) -> Result<Vec<&'a Linkable>, DeriveError> {
    let is_one = |symbol: &&Symbol| functions.names.contains_key(&symbol.name);
    let (out, kept): (Vec<&Linkable>, Vec<&Linkable>) = members
        .iter()
        .partition(|m| m.definitions().any(|s| is_one(&s)));
    for member in &out {
        let function = member.definitions().find(is_one);
        let other = member
            .definitions()
            .find(|s| !s.hidden && !family::is_reserved(&s.name) && !is_one(s));
        if let (Some(function), Some(other)) = (function, other) {
            return Err(DeriveError::Entangled {
                member: member.member.name.clone(),
                symbol: other.name.clone(),
                family: function.name.clone(),
            });
        }
    }
    *members = kept;
    Ok(out)
}

/// The objects under those names that the libc had. A program may define the other functions itself.
fn bind_memory_functions(
    functions: &MemoryFunctions,
    taken_out: &[&Linkable],
    architecture: Architecture,
) -> Result<Vec<Linkable>, DeriveError> {
    let wanted: BTreeMap<&String, &String> = functions
        .names
        .iter()
        .filter(|(name, _)| taken_out.iter().any(|member| member.defines(name)))
        .collect();
    let mut missing: BTreeSet<&String> = wanted.keys().copied().collect();
    let mut bound = Vec::new();
    for member in &functions.objects {
        let object = read_for(architecture, member)?;
        let mut aliases = Vec::new();
        for (name, own) in wanted.iter().filter(|(_, own)| object.defines(own)) {
            missing.remove(*name);
            aliases.push(Alias {
                name: (*name).clone(),
                of: (*own).clone(),
                strength: if family::is_reserved(name) {
                    Strength::StrongHidden
                } else {
                    Strength::WeakPublic
                },
            });
        }
        let edits = Edits {
            aliases,
            ..Edits::default()
        };
        let data = rewrite(&member.data, &edits).map_err(|reason| DeriveError::Member {
            member: member.name.clone(),
            reason,
        })?;
        let name = format!("reheap-memory-{}", member.name);
        bound.push(Linkable::read(Member { name, data })?.1);
    }
    match missing.first() {
        Some(name) => Err(DeriveError::NoMemoryFunction((*name).clone())),
        None => Ok(bound),
    }
}

fn selected<'a>(
    members: &'a [Linkable],
    out: &[bool],
    wanted: bool,
) -> impl Iterator<Item = &'a Linkable> {
    members
        .iter()
        .zip(out)
        .filter(move |(_, out)| **out == wanted)
        .map(|(m, _)| m)
}

/// What an allocator becomes a part of. This decides which names it gets beside its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    /// A libc. Its other members call the allocator too, and programs may bring their own malloc.
    Libc,
    /// A shared library of its own.
    Preload,
}

/// Reads an object that goes into a libc for this architecture.
fn read_for(architecture: Architecture, member: &Member) -> Result<Linkable, DeriveError> {
    let (found, linkable) = Linkable::read(member.clone())?;
    if found.architecture != architecture {
        return Err(DeriveError::OtherArchitecture {
            libc: architecture,
            allocator: found.architecture,
        });
    }
    Ok(linkable)
}

pub(crate) fn bind_allocator(
    allocator: &AllocatorObjects,
    architecture: Architecture,
    host: Host,
) -> Result<Vec<Linkable>, DeriveError> {
    let read = |member| read_for(architecture, member);
    let upstream = allocator
        .upstream
        .iter()
        .map(read)
        .collect::<Result<Vec<_>, _>>()?;
    let glue = allocator
        .glue
        .iter()
        .map(read)
        .collect::<Result<Vec<_>, _>>()?;

    // A function that the glue defines in the allocator's place has another name inside the allocator.
    let is_wrapped = |name: &str| {
        let own = family::own_name(name);
        glue.iter().any(|object| object.defines(&own))
    };
    let renames: BTreeMap<String, String> = upstream
        .iter()
        .flat_map(Linkable::definitions)
        .map(|s| {
            let named = if is_wrapped(&s.name) {
                family::inner_name
            } else {
                family::own_name
            };
            (s.name.clone(), named(&s.name))
        })
        .collect();
    let entry_points: BTreeMap<String, String> = allocator
        .entry_points
        .iter()
        .map(|(function, symbol)| match renames.get(symbol) {
            Some(renamed) => Ok((function.clone(), renamed.clone())),
            None => Err(DeriveError::NoEntryPoint(symbol.clone())),
        })
        .collect::<Result<_, _>>()?;

    // Whatever needs the allocator also needs the marker, and the glue that defines more than public names.
    let mut needs = vec![marker::SYMBOL.to_owned()];
    for object in &glue {
        needs.extend(
            object
                .definitions()
                .find(|s| s.role == Role::Strong)
                .map(|s| s.name.clone()),
        );
    }

    // A function that the glue defines under its public name needs no alias.
    let mut core = family::CORE.to_vec();
    core.retain(|function| !glue.iter().any(|object| object.defines(function)));
    if host == Host::Preload {
        core.extend(allocator.interface.iter().map(String::as_str));
    }

    let mut bound = Vec::new();
    for (index, object) in upstream.iter().enumerate() {
        let mut renames = renames.clone();
        let redirects = allocator.redirects.iter();
        renames.extend(
            redirects
                .filter(|(name, _)| !object.defines(name))
                .map(|(name, glue)| (name.clone(), glue.clone())),
        );
        let name = format!("reheap-{index}-{}", object.member.name);
        bound.push(rebound(
            object,
            name,
            renames,
            &entry_points,
            &core,
            &needs,
            host,
        )?);
    }
    for object in &glue {
        let mut renames = renames.clone();
        renames.retain(|name, _| !object.defines(name) && !is_wrapped(name));
        bound.push(rebound(
            object,
            object.member.name.clone(),
            renames,
            &entry_points,
            &core,
            &needs,
            host,
        )?);
    }
    Ok(bound)
}

/// The object under its new names. It also gets the family's names for the functions that it implements; those of
/// `core` as aliases.
fn rebound(
    object: &Linkable,
    name: String,
    renames: BTreeMap<String, String>,
    entry_points: &BTreeMap<String, String>,
    core: &[&str],
    needs: &[String],
    host: Host,
) -> Result<Linkable, DeriveError> {
    let defined: BTreeSet<String> = object
        .definitions()
        .map(|s| renames.get(&s.name).unwrap_or(&s.name).clone())
        .collect();
    let mut aliases = Vec::new();
    let mut alias = |name: String, of: &str, strength| {
        if name != of {
            aliases.push(Alias {
                name,
                of: of.to_owned(),
                strength,
            });
        }
    };
    for (function, symbol) in entry_points
        .iter()
        .filter(|(_, symbol)| defined.contains(*symbol))
    {
        alias(family::own_name(function), symbol, Strength::StrongHidden);
    }
    let mut binds_malloc = false;
    for &function in core {
        let own = family::own_name(function);
        let implementation = entry_points.get(function).unwrap_or(&own);
        if defined.contains(implementation) {
            binds_malloc |= function == "malloc";
            match host {
                Host::Libc => {
                    alias(function.to_owned(), implementation, Strength::WeakPublic);
                    let internal = format!("__libc_{function}");
                    alias(internal, implementation, Strength::StrongHidden);
                }
                Host::Preload => alias(function.to_owned(), implementation, Strength::StrongPublic),
            }
        }
    }
    // A preload needs none of this: reheap names each of its objects to the linker.
    let needs = if binds_malloc && host == Host::Libc {
        needs.to_vec()
    } else {
        Vec::new()
    };
    let edits = Edits {
        renames,
        aliases,
        needs,
    };
    let data = rewrite(&object.member.data, &edits).map_err(|reason| DeriveError::Member {
        member: name.clone(),
        reason,
    })?;
    Ok(Linkable::read(Member { name, data })?.1)
}

fn audit(
    kept: &[&Linkable],
    taken_out: &[&Linkable],
    put_in: &[Linkable],
) -> Result<(), DeriveError> {
    let mut strong: BTreeMap<&str, &str> = BTreeMap::new();
    let mut defined: BTreeSet<&str> = BTreeSet::new();
    for member in kept.iter().copied().chain(put_in) {
        for symbol in member.definitions() {
            defined.insert(&symbol.name);
        }
    }
    // The new members must not define a symbol twice, among themselves or beside the kept ones.
    for member in kept.iter().copied().chain(put_in) {
        for symbol in member.definitions().filter(|s| s.role == Role::Strong) {
            if let Some(first) = strong.insert(&symbol.name, &member.member.name)
                && put_in.iter().any(|m| m.defines(&symbol.name))
            {
                return Err(DeriveError::DefinedTwice {
                    symbol: symbol.name.clone(),
                    first: first.to_owned(),
                    second: member.member.name.clone(),
                });
            }
        }
    }
    // The kept members must find everything that they found before.
    let gone: BTreeSet<&str> = taken_out
        .iter()
        .flat_map(|m| m.definitions())
        .map(|s| s.name.as_str())
        .filter(|s| !defined.contains(s))
        .collect();
    let missing_to_kept = kept.iter().copied().flat_map(|m| {
        strongly_needed(m)
            .filter(|s| gone.contains(s))
            .map(move |s| (m, s))
    });
    // The new members must find everything in the libc or in the compiler's support library.
    let missing_to_new = put_in.iter().flat_map(|m| {
        strongly_needed(m)
            .filter(|s| !defined.contains(s) && !comes_with_the_linker_or_compiler(s))
            .map(move |s| (m, s))
    });
    if let Some((member, symbol)) = missing_to_kept.chain(missing_to_new).next() {
        return Err(DeriveError::Undefined {
            member: member.member.name.clone(),
            symbol: symbol.to_owned(),
        });
    }
    // Every function of the family that the libc had must still be there.
    for function in family::PUBLIC.into_iter().chain(family::LIBC_INTERNAL) {
        if gone.contains(function) {
            return Err(DeriveError::NoEntryPoint(function.to_owned()));
        }
    }
    Ok(())
}

fn strongly_needed(member: &Linkable) -> impl Iterator<Item = &str> {
    member
        .symbols
        .iter()
        .filter(|s| s.role == Role::Needed)
        .map(|s| s.name.as_str())
}

/// Symbols that linkers define, that crt files define, or that libgcc and compiler-rt define for integer arithmetic
/// (GCC internals, "Routines for integer manipulation": names such as `__popcountdi2`; for Arm the run-time ABI's
/// `__aeabi_uidivmod` and the like).
fn comes_with_the_linker_or_compiler(symbol: &str) -> bool {
    const PREFIXES: [&str; 2] = [
        "__aarch64_", /* outline atomics of libgcc */
        "__aeabi_",
    ];
    matches!(
        symbol,
        "_GLOBAL_OFFSET_TABLE_" | "__dso_handle" | "_DYNAMIC" | "__ehdr_start" | ".TOC." // of PowerPC
    ) || symbol.strip_prefix("__").is_some_and(|rest| {
        [
            "si2", "di2", "ti2", "si3", "di3", "ti3", "si4", "di4", "ti4",
        ]
        .iter()
        .any(|end| rest.ends_with(end))
    }) || PREFIXES.iter().any(|prefix| symbol.starts_with(prefix))
}

fn write(
    kept: Vec<&Linkable>,
    taken_out: Vec<&Linkable>,
    put_in: Vec<Linkable>,
) -> Result<DerivedLibc, DeriveError> {
    let names = |members: &[&Linkable]| members.iter().map(|m| m.member.name.clone()).collect();
    let mut members: Vec<Member> = kept.into_iter().map(|m| m.member.clone()).collect();
    members.extend(put_in.iter().map(|m| m.member.clone()));
    Ok(DerivedLibc {
        bytes: archive::write(&members).map_err(DeriveError::Write)?,
        taken_out: names(&taken_out),
        put_in: names(&put_in.iter().collect::<Vec<_>>()),
    })
}

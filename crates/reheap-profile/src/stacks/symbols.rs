//! From places in files to functions.
//!
//! The best source that a file has counts: DWARF, its own or that of a separate debug file, then `.symtab`, then
//! `.dynsym`. A symbol counts only for the bytes that it says it covers: the nearest one before an address in a stripped
//! file is usually a wrong name. What has no name gets its address in hexadecimal, as `objdump` shows it.

mod dwarf;
mod names;
mod table;

use super::CodeAddress;
use super::debug_files;
use super::modules::{Module, ModuleId, Modules};
use crate::profile::Frame;
use dwarf::{Dwarf, Place};
use std::collections::HashMap;
use std::path::PathBuf;
use table::SymbolTable;

/// What is read of all files together is kept below this, if one alone does not take more.
const BYTES_MAX: usize = 512 << 20;
/// Debug information above this is not read: parsing it takes several times that.
const DWARF_BYTES_MAX: usize = 1 << 30;

/// The names of all files, read when the first is asked for.
#[derive(Debug)]
pub struct Symbols {
    files: HashMap<ModuleId, Names>,
    /// How often somebody asked.
    asked: u64,
    debug_directory: PathBuf,
}

/// The names of one file.
struct Names {
    dwarf: Option<Dwarf>,
    table: SymbolTable,
    /// When it was last asked.
    asked: u64,
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.bytes())
    }
}

impl Default for Symbols {
    fn default() -> Self {
        Self::new()
    }
}

impl Symbols {
    /// With the debug files of the system.
    pub fn new() -> Self {
        Self::with_debug_directory(PathBuf::from(debug_files::GLOBAL_DIRECTORY))
    }

    /// With the debug files below another directory than `/usr/lib/debug`.
    pub fn with_debug_directory(debug_directory: PathBuf) -> Self {
        Self {
            files: HashMap::new(),
            asked: 0,
            debug_directory,
        }
    }

    /// The functions at an address, the innermost inlined one first. There is always one. Asking for one module's
    /// addresses after another's reads files again if memory gets short, so ask for them together.
    pub fn frames(&mut self, modules: &Modules, address: CodeAddress) -> Vec<Frame> {
        let module = modules.get(address.module);
        let first = module.elf.as_ref().map_or(0, |elf| elf.first_address());
        let in_file = first.wrapping_add(address.offset);
        let looked_up = in_file.wrapping_sub(u64::from(address.is_return_address));
        let (places, symbol) = match self.names(modules, address.module) {
            Some(names) => (
                names
                    .dwarf
                    .as_ref()
                    .map_or_else(Vec::new, |dwarf| dwarf.at(looked_up)),
                names.table.at(looked_up).map(names::demangle),
            ),
            None => (Vec::new(), None),
        };
        frames(places, symbol, in_file, &module.name())
    }

    fn names(&mut self, modules: &Modules, id: ModuleId) -> Option<&Names> {
        self.asked += 1;
        if !self.files.contains_key(&id) {
            let names = Names::read(modules, id, &self.debug_directory)?;
            self.make_room(names.bytes());
            self.files.insert(id, names);
        }
        let names = self.files.get_mut(&id)?;
        names.asked = self.asked;
        Some(names)
    }

    /// Forgets the files that were not asked for longest.
    fn make_room(&mut self, bytes: usize) {
        let mut taken: usize = bytes + self.files.values().map(Names::bytes).sum::<usize>();
        while taken > BYTES_MAX {
            let oldest = self.files.iter().min_by_key(|(_, names)| names.asked);
            let Some((&oldest, names)) = oldest else {
                return;
            };
            taken -= names.bytes();
            self.files.remove(&oldest);
        }
    }
}

/// Looks at all functions that the symbols of a file name: its own and those of its debug file. Each comes with its
/// address in the file and its size, which is 0 if nobody said it.
pub(crate) fn each_function(module: &Module, mut look: impl FnMut(&str, u64, u64)) {
    let Some(elf) = module.elf.as_deref() else {
        return;
    };
    let directory = std::path::Path::new(debug_files::GLOBAL_DIRECTORY);
    let debug = debug_files::debug_file(elf, &module.path, directory);
    let table = SymbolTable::read(elf, debug.as_ref().map(|(debug, _)| debug));
    for (name, address, size) in table.functions() {
        look(name, address, size);
    }
}

impl Names {
    fn read(modules: &Modules, id: ModuleId, debug_directory: &std::path::Path) -> Option<Self> {
        let module = modules.get(id);
        let elf = module.elf.as_deref()?;
        let own_dwarf = elf.named(".debug_info").is_some();
        let debug = (!own_dwarf)
            .then(|| debug_files::debug_file(elf, &module.path, debug_directory))
            .flatten();
        let (described, path) = match &debug {
            Some((debug, path)) => (debug, path),
            None => (elf, &module.path),
        };
        let supplement = debug_files::supplement(described, path, debug_directory);
        Some(Self {
            dwarf: Dwarf::read(described, supplement.as_ref(), DWARF_BYTES_MAX),
            table: SymbolTable::read(elf, debug.as_ref().map(|(debug, _)| debug)),
            asked: 0,
        })
    }

    fn bytes(&self) -> usize {
        self.table.bytes() + self.dwarf.as_ref().map_or(0, Dwarf::bytes)
    }
}

fn frames(places: Vec<Place>, symbol: Option<String>, address: u64, module: &str) -> Vec<Frame> {
    let places = if places.is_empty() {
        vec![Place::default()]
    } else {
        places
    };
    let outermost = places.len() - 1;
    places
        .into_iter()
        .enumerate()
        .map(|(index, place)| {
            let symbol = symbol.as_ref().filter(|_| index == outermost);
            Frame {
                function: best_name(place.function, symbol)
                    .unwrap_or_else(|| format!("{address:#x}")),
                module: Some(module.to_owned()),
                file: place.file,
                line: place.line,
                inlined: index < outermost,
            }
        })
        .collect()
}

/// DWARF's name, unless the symbol says more: without a linkage name DWARF has only the last part of
/// `namespace::Type::function`.
fn best_name(described: Option<String>, symbol: Option<&String>) -> Option<String> {
    match (described, symbol) {
        (Some(described), Some(symbol)) if !described.contains("::") && symbol.contains("::") => {
            Some(symbol.clone())
        }
        (Some(described), _) => Some(described),
        (None, symbol) => symbol.cloned(),
    }
}

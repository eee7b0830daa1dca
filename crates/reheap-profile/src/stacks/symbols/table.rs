//! The functions that symbol tables name.

use super::super::elf::{Elf, Section};
use object::LittleEndian as LE;
use object::elf;
use object::pod;
use std::cmp::Reverse;
use std::sync::Arc;

/// How many symbols before an address one looks at: a small symbol may be inside a larger function.
const LOOK_BACK: usize = 8;

/// Functions by address.
#[derive(Debug, Default)]
pub(super) struct SymbolTable {
    functions: Vec<Function>,
    names: Vec<Arc<[u8]>>,
}

#[derive(Debug, Clone, Copy)]
struct Function {
    address: u64,
    size: u64,
    name: u32,
    /// Which of `names` it is in.
    table: u8,
    binding: Binding,
}

/// The better one last: of several names at an address, the public one is what people call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Local,
    Weak,
    Global,
}

impl SymbolTable {
    /// The symbols of a program: from `.symtab`, its own or that of its debug file, and from `.dynsym`.
    pub(super) fn read(elf: &Elf, debug: Option<&Elf>) -> Self {
        let mut table = Self::default();
        for (file, kind) in [
            (Some(elf), elf::SHT_SYMTAB),
            (debug, elf::SHT_SYMTAB),
            (Some(elf), elf::SHT_DYNSYM),
        ] {
            // An ELF file has one of each (gABI, "Sections"). More could all have the same bytes.
            let section = file.and_then(|file| {
                let mut sections = file.sections().iter();
                Some((file, sections.find(|section| section.kind == kind)?))
            });
            if let Some((file, section)) = section {
                table.add(file, section);
            }
        }
        table.functions.sort_by_cached_key(|function| {
            let name = table.names[usize::from(function.table)]
                .get(function.name as usize..)
                .unwrap_or_default();
            let name = &name[..name.len().min(64)];
            let underscores = name.iter().take_while(|byte| **byte == b'_').count();
            // The last at an address is found first.
            (
                function.address,
                function.binding,
                Reverse(underscores),
                Reverse(name.to_vec()),
            )
        });
        table
    }

    fn add(&mut self, file: &Elf, section: &Section) -> Option<()> {
        let names = file.contents(file.sections().get(section.link as usize)?)?;
        let symbols = file.contents(section)?;
        let count = symbols.len() / size_of::<elf::Sym64<LE>>();
        let (symbols, _) = pod::slice_from_bytes::<elf::Sym64<LE>>(&symbols, count).ok()?;
        let table = u8::try_from(self.names.len()).ok()?;
        self.functions.extend(
            symbols
                .iter()
                .filter_map(|symbol| Function::new(symbol, table, &names)),
        );
        self.names.push(names);
        Some(())
    }

    /// The name of the function that covers an address.
    pub(super) fn at(&self, address: u64) -> Option<&str> {
        let behind = self
            .functions
            .partition_point(|function| function.address <= address);
        let function = self.functions[..behind]
            .iter()
            .rev()
            .take(LOOK_BACK)
            .find(|function| address - function.address < function.size)?;
        self.name(function)
    }

    /// All functions with their addresses and sizes.
    pub(super) fn functions(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        let functions = self.functions.iter();
        functions
            .filter_map(|function| Some((self.name(function)?, function.address, function.size)))
    }

    fn name(&self, function: &Function) -> Option<&str> {
        let names = &self.names[usize::from(function.table)];
        let name = names.get(function.name as usize..)?;
        let end = name.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&name[..end]).ok()
    }

    pub(super) fn bytes(&self) -> usize {
        let names: usize = self.names.iter().map(|names| names.len()).sum();
        names + self.functions.len() * size_of::<Function>()
    }
}

impl Function {
    fn new(symbol: &elf::Sym64<LE>, table: u8, names: &[u8]) -> Option<Self> {
        let binding = match symbol.st_bind() {
            elf::STB_LOCAL => Binding::Local,
            elf::STB_WEAK => Binding::Weak,
            _ => Binding::Global,
        };
        let is_function = matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC);
        let defined = symbol.st_shndx.get(LE) != elf::SHN_UNDEF;
        let name = symbol.st_name.get(LE);
        let named = names.get(name as usize).is_some_and(|first| *first != 0);
        (is_function && defined && named).then(|| Self {
            address: symbol.st_value.get(LE),
            size: symbol.st_size.get(LE),
            name,
            table,
            binding,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::elf::Bytes;
    use super::*;
    use std::process::Command;

    const HEADER_BYTES: usize = 64;

    /// The file with its table of sections at the end, so often behind one another.
    fn with_sections_repeated(file: &[u8], times: u16) -> Vec<u8> {
        let offset = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
        let count = u16::from_le_bytes([file[60], file[61]]);
        let table = &file[offset..offset + usize::from(count) * HEADER_BYTES];
        let mut changed = [file, &table.repeat(usize::from(times))].concat();
        changed[40..48].copy_from_slice(&(file.len() as u64).to_le_bytes());
        changed[60..62].copy_from_slice(&(count * times).to_le_bytes());
        changed
    }

    #[test]
    fn a_table_that_a_file_has_a_hundred_times_is_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let source = "int one(void) { return 1; } int two(void) { return 2; }";
        std::fs::write(directory.path().join("a.c"), source).unwrap();
        let mut compiler = Command::new("gcc");
        let status = compiler
            .args(["-c", "a.c"])
            .current_dir(&directory)
            .status();
        assert!(status.is_ok_and(|status| status.success()));
        let file = std::fs::read(directory.path().join("a.o")).unwrap();
        for times in [1, 100] {
            let elf = Elf::parse(Bytes::Memory(with_sections_repeated(&file, times))).unwrap();
            let table = SymbolTable::read(&elf, None);
            let names: Vec<&str> = table.functions().map(|(name, _, _)| name).collect();
            assert_eq!(names.len(), 2, "{times} times: {names:?}");
        }
    }
}

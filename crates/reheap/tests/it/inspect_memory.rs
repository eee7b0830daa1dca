//! `reheap inspect` takes little memory for files of any size. The limit is the kernel's: with RLIMIT_DATA no more than
//! that can be allocated, and a program that tries ends.

use crate::common::programs::Programs;
use crate::common::run;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

const LIMIT_KIB: u64 = 64 << 10;
const GIGABYTE: u64 = 1 << 30;
/// The size of a layer, which is unpacked byte by byte; still more than twice the limit.
const LAYER_BYTES: u64 = 150 << 20;

/// A library of that size, almost all of it a hole, with a text of jemalloc near its end: what only a search of the
/// whole file finds.
fn library(workshop: &Programs, name: &str, file_bytes: u64) {
    let source = "#include <stdlib.h>\nvoid *f(void) { return malloc(9); }\n";
    workshop.write("a.c", source);
    workshop.run(&format!("cc -shared -fPIC -O1 a.c -o {name}"));
    let mut bytes = fs::read(workshop.path(name)).unwrap();
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let mut headers = (0..usize::from(bytes[56])).map(|index| number(32) as usize + index * 56);
    // The last segment that is loaded goes on to the end of the file.
    let last = headers.rfind(|at| bytes[*at] == 1).unwrap();
    let size = file_bytes - number(last + 8);
    for field in [32, 40] {
        bytes[last + field..last + field + 8].copy_from_slice(&size.to_le_bytes());
    }
    let file = File::create(workshop.path(name)).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    let text = ["\0<jemall", "oc>: Error\0"].concat();
    file.write_all_at(text.as_bytes(), text_at(file_bytes))
        .unwrap();
    file.set_len(file_bytes).unwrap();
}

fn text_at(file_bytes: u64) -> u64 {
    file_bytes - (8 << 20)
}

/// What is said about a file with no more than that memory.
#[track_caller]
fn inspected(path: &Path) -> Value {
    let script = format!("ulimit -d {LIMIT_KIB} && exec \"$0\" inspect --json \"$1\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_reheap")]);
    let outcome = run(command.arg(path)).succeeded();
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    json[0].clone()
}

#[track_caller]
fn has_jemalloc(identity: &Value) {
    assert_eq!(identity["allocators"][0]["name"], "jemalloc", "{identity}");
    assert_eq!(identity["kind"], "shared-library", "{identity}");
}

#[test]
fn a_sparse_library_of_a_gigabyte_is_searched_to_its_end() {
    let workshop = Programs::new();
    library(&workshop, "a.so", GIGABYTE);
    has_jemalloc(&inspected(&workshop.path("a.so")));
}

#[test]
fn an_archive_of_large_members_is_searched_to_its_end() {
    let workshop = Programs::new();
    library(&workshop, "a.so", GIGABYTE);
    let mut library = File::open(workshop.path("a.so")).unwrap();
    let mut beginning = vec![0; 1 << 20];
    library.read_exact(&mut beginning).unwrap();
    let archive = File::create(workshop.path("a.a")).unwrap();
    let mut at = 0;
    let mut write = |bytes: &[u8], length: u64| {
        archive.write_all_at(bytes, at).unwrap();
        at += length;
    };
    write(b"!<arch>\n", 8);
    for name in ["a.so/", "b.so/"] {
        let header = format!("{name:<48}{GIGABYTE:<10}`\n");
        write(header.as_bytes(), 60);
        write(&beginning, text_at(GIGABYTE));
        let text = ["\0<jemall", "oc>: Error\0"].concat();
        write(text.as_bytes(), GIGABYTE - text_at(GIGABYTE));
    }
    archive.set_len(at).unwrap();
    let identity = inspected(&workshop.path("a.a"));
    assert_eq!(identity["members"], json!({ "elf": 2, "other": 0 }));
    assert_eq!(identity["allocators"][0]["name"], "jemalloc", "{identity}");
}

/// An object with two million symbols, as a large program that is not stripped has them.
#[test]
fn an_object_with_millions_of_symbols_is_read_symbol_by_symbol() {
    const SYMBOLS: usize = 2_000_000;
    let workshop = Programs::new();
    let mut names = vec![0];
    let mut symbols = vec![0_u8; 24];
    for index in 0..SYMBOLS {
        let is_last = index + 1 == SYMBOLS;
        let name = if is_last {
            "mi_malloc".to_owned()
        } else {
            format!("a_function_of_a_large_program_{index}")
        };
        symbols.extend((names.len() as u32).to_le_bytes());
        symbols.extend([0x12, 0, 1, 0]); // a global function in the first section
        symbols.extend((index as u64).to_le_bytes());
        symbols.extend([0; 8]);
        names.extend(name.as_bytes());
        names.push(0);
    }
    let section = |kind: u32, offset: usize, size: usize, link: u32| {
        let mut header = vec![0_u8; 64];
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        header[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(size as u64).to_le_bytes());
        header[40..44].copy_from_slice(&link.to_le_bytes());
        header
    };
    let mut file = vec![0_u8; 64];
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    file[16..20].copy_from_slice(&[1, 0, 62, 0]); // ET_REL, EM_X86_64
    file[40..48].copy_from_slice(&64_u64.to_le_bytes());
    file[58..62].copy_from_slice(&[64, 0, 4, 0]);
    let (at_symbols, at_names) = (64 + 4 * 64, 64 + 4 * 64 + symbols.len());
    file.extend(section(0, 0, 0, 0));
    file.extend(section(1, 64, 0, 0));
    file.extend(section(2, at_symbols, symbols.len(), 3));
    file.extend(section(3, at_names, names.len(), 0));
    let written = File::create(workshop.path("a.o")).unwrap();
    written.write_all_at(&file, 0).unwrap();
    written.write_all_at(&symbols, at_symbols as u64).unwrap();
    written.write_all_at(&names, at_names as u64).unwrap();
    let identity = inspected(&workshop.path("a.o"));
    assert_eq!(identity["allocators"][0]["name"], "mimalloc", "{identity}");
}

/// A tar archive with one file at its end that is mostly a hole, written past the hole.
fn sparse_tar(path: &Path, small: &[(String, Vec<u8>)], large: &str, contents: &Path) {
    let mut archive = tar::Builder::new(File::create(path).unwrap());
    for (name, bytes) in small {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o755);
        archive
            .append_data(&mut header, name, bytes.as_slice())
            .unwrap();
    }
    let file = archive.into_inner().unwrap(); // with the two empty blocks of its end
    let start = file.metadata().unwrap().len() - 1024;
    let size = fs::metadata(contents).unwrap().len();
    let mut header = tar::Header::new_ustar();
    header.set_path(large).unwrap();
    header.set_size(size);
    header.set_mode(0o755);
    header.set_cksum();
    file.write_all_at(header.as_bytes(), start).unwrap();
    file.set_len(start + 512 + size.next_multiple_of(512) + 1024)
        .unwrap();
    // What is not a hole.
    let large = File::open(contents).unwrap();
    for at in [0, text_at(size)] {
        let mut piece = vec![0; 1 << 20];
        large.read_exact_at(&mut piece, at).unwrap();
        file.write_all_at(&piece, start + 512 + at).unwrap();
    }
}

fn image_parts(layer: &str) -> Vec<(String, Vec<u8>)> {
    let manifest = json!([{ "Config": "config.json", "Layers": [layer] }]);
    let config = json!({ "config": { "Entrypoint": ["/app"] } });
    vec![
        (
            "manifest.json".to_owned(),
            manifest.to_string().into_bytes(),
        ),
        ("config.json".to_owned(), config.to_string().into_bytes()),
    ]
}

/// A hundred thousand small files beside the large one.
fn many_files() -> Vec<(String, Vec<u8>)> {
    let path = |n| format!("usr/share/some/directory/with/a/long/name/{}/{n}", n % 1000);
    (0..100_000).map(|n| (path(n), Vec::new())).collect()
}

#[test]
fn a_large_program_in_an_image_with_many_files_is_read_where_it_is_or_from_a_copy() {
    let workshop = Programs::new();
    library(&workshop, "app.so", LAYER_BYTES);
    let layer = workshop.path("layer.tar");
    sparse_tar(&layer, &many_files(), "app", &workshop.path("app.so"));

    // As a directory, with the layer as it is.
    for (name, bytes) in image_parts("layer.tar") {
        workshop.write(&name, bytes);
    }
    has_jemalloc(&inspected(workshop.directory()));

    // Compressed, so that it has to be unpacked.
    let packed = File::create(workshop.path("layer.tar.gz")).unwrap();
    let mut encoder = GzEncoder::new(packed, Compression::fast());
    std::io::copy(&mut File::open(&layer).unwrap(), &mut encoder).unwrap();
    encoder.finish().unwrap().flush().unwrap();
    for (name, bytes) in image_parts("layer.tar.gz") {
        workshop.write(&name, bytes);
    }
    has_jemalloc(&inspected(workshop.directory()));
}

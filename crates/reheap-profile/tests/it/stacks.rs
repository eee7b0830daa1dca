//! Stacks of real programs, captured by the code that hooks use, unwound and named.

use crate::workshop;
use crate::workshop::{Workshop, command};
use reheap_profile::stacks::{StackEnd, Symbols};

/// The functions of `frames.c` from `probe`'s caller to `main`.
fn expected(depth: usize) -> Vec<&'static str> {
    let mut names = vec!["small_frame"];
    names.extend(std::iter::repeat_n("recursive", depth));
    names.extend(["aligned_frame", "compare"]);
    names
}

/// Compiles `frames.c`, runs it, and holds the names against the source, and the addresses against backtrace(3).
fn check_frames(compiler: &str, flags: &[&str]) {
    let workshop = Workshop::new();
    let program = workshop.compile(compiler, "frames.c", flags);
    let sample = workshop.run(&program, &["4", "40"]).remove(0);
    let mut unwound = sample.unwind();
    let names = unwound.functions(&mut Symbols::new());
    let mut expected = expected(4);
    if !flags.contains(&"-DTHROUGH_LIBC") {
        expected.push("public_function");
        expected.push("main");
    }
    assert_eq!(
        names[..expected.len()],
        expected,
        "{compiler} {flags:?}: {names:?}"
    );
    assert!(
        names.iter().any(|name| name == "main"),
        "{compiler} {flags:?}: {names:?}"
    );
    // musl has no backtrace(3), and without tables it sees only the first.
    if sample.backtrace.len() > 1 {
        unwound.assert_same_as_backtrace(&sample);
        assert_eq!(unwound.stack.end, StackEnd::Root, "{compiler} {flags:?}");
    }
}

#[test]
fn frames_without_frame_pointers_are_found_by_unwind_tables() {
    check_frames("gcc", &["-O2", "-fomit-frame-pointer"]);
    check_frames("gcc", &["-O2", "-fomit-frame-pointer", "-DTHROUGH_LIBC"]);
    check_frames("gcc", &["-O0", "-DTHROUGH_LIBC"]);
}

#[test]
fn frames_without_unwind_tables_are_found_by_frame_pointers() {
    check_frames(
        "gcc",
        &[
            "-O1",
            "-fno-omit-frame-pointer",
            "-fno-asynchronous-unwind-tables",
            "-fno-unwind-tables",
        ],
    );
}

#[test]
fn static_programs_have_stacks_too() {
    check_frames("gcc", &["-O2", "-static", "-DTHROUGH_LIBC"]);
    check_frames("gcc", &["-O2", "-static-pie", "-DTHROUGH_LIBC"]);
    check_frames("musl-gcc", &["-O2", "-static"]);
    check_frames("musl-gcc", &["-O2"]);
}

#[test]
fn unwind_tables_are_found_without_section_headers() {
    let workshop = Workshop::new();
    let program = workshop.compile(
        "gcc",
        "frames.c",
        &["-O2", "-rdynamic", "-fomit-frame-pointer"],
    );
    let mut bytes = std::fs::read(&program).expect("it was just made");
    bytes[0x28..0x30].fill(0); // e_shoff
    bytes[0x3c..0x40].fill(0); // e_shnum, e_shstrndx
    std::fs::write(&program, bytes).expect("it can be written");
    let sample = workshop.run(&program, &["4", "40"]).remove(0);
    sample.unwind().assert_same_as_backtrace(&sample);
}

#[test]
fn what_does_not_fit_into_the_copy_is_said_to_be_cut() {
    let workshop = Workshop::new();
    let program = workshop.compile("gcc", "frames.c", &["-O2"]);
    let sample = workshop.run(&program, &["200", "2000"]).remove(0);
    let unwound = sample.unwind();
    assert_eq!(unwound.stack.end, StackEnd::Truncated);
    assert!(
        (5..12).contains(&unwound.stack.addresses.len()),
        "{:?}",
        unwound.stack
    );
    let sample = workshop.run(&program, &["2000", "8"]).remove(0);
    let unwound = sample.unwind();
    assert_eq!(unwound.stack.end, StackEnd::TooDeep);
    assert_eq!(
        unwound.stack.addresses.len(),
        reheap_profile::stacks::FRAMES_MAX
    );
}

#[test]
fn stacks_of_threads_and_coroutines_end_where_they_end() {
    let workshop = Workshop::new();
    let program = workshop.compile("gcc", "threads.c", &["-O2", "-pthread"]);
    let samples = workshop.run(&program, &[]);
    for (sample, name) in samples.iter().zip(["in_thread", "in_coroutine"]) {
        let mut unwound = sample.unwind();
        assert_eq!(unwound.functions(&mut Symbols::new())[0], name);
        unwound.assert_same_as_backtrace(sample);
    }
    assert_eq!(samples.len(), 2);
    let coroutine = samples[1].captured();
    assert!(
        coroutine.stack.len() < 4096,
        "the stack ends before: {}",
        coroutine.stack.len()
    );
}

#[test]
fn classes_templates_and_inlined_functions_have_their_names() {
    let workshop = Workshop::new();
    let program = workshop.compile("g++", "classes.cc", &["-O2", "-g"]);
    let sample = workshop.run(&program, &[]).remove(0);
    let mut unwound = sample.unwind();
    unwound.assert_same_as_backtrace(&sample);
    let frames = unwound.frames(&mut Symbols::new());
    let described: Vec<(&str, bool)> = frames
        .iter()
        .map(|frame| (frame.function.as_str(), frame.inlined))
        .collect();
    assert_eq!(
        described[..6],
        [
            ("shop::Shelf<double>::put_inlined()", true),
            ("shop::Shelf<double>::put()", false),
            ("shop::restock(int)", false),
            ("shop::restock(int)", false),
            ("shop::restock(int)", false),
            ("main", false),
        ]
    );
    let source = std::fs::read_to_string(workshop::source("classes.cc")).expect("it is there");
    for (frame, text) in frames.iter().zip([
        "probe();",
        "put_inlined();",
        "shelf.put();",
        "restock(n - 1);",
    ]) {
        let line = frame.line.expect("it has a line") as usize;
        assert!(
            frame
                .file
                .as_ref()
                .is_some_and(|file| file.ends_with("classes.cc"))
        );
        assert!(
            source
                .lines()
                .nth(line - 1)
                .is_some_and(|line| line.contains(text)),
            "{frame:?}"
        );
    }
}

#[test]
fn rust_functions_have_their_names() {
    let workshop = Workshop::new();
    let musl = format!("--target={}-unknown-linux-musl", std::env::consts::ARCH);
    for flags in [
        &["-Cdebuginfo=1"][..],
        &["-Cdebuginfo=1", &musl],
        &["-Cdebuginfo=2", "-Csymbol-mangling-version=v0"],
    ] {
        let program = workshop.compile_rust("generic.rs", flags);
        let sample = workshop.run(&program, &[]).remove(0);
        let mut unwound = sample.unwind();
        if !sample.backtrace.is_empty() {
            unwound.assert_same_as_backtrace(&sample);
        }
        let frames = unwound.frames(&mut Symbols::new());
        let found = |name: &str, inlined| {
            frames.iter().any(|frame| {
                frame.function.contains(name)
                    && frame.inlined == inlined
                    && frame
                        .file
                        .as_ref()
                        .is_some_and(|file| file.ends_with("generic.rs"))
            })
        };
        assert!(found("fill_inlined", true), "{frames:#?}");
        assert!(
            found("fill", false) && found("market", false),
            "{frames:#?}"
        );
        assert!(
            frames.iter().all(|frame| !frame.function.starts_with("_Z")),
            "{frames:#?}"
        );
    }
}

#[test]
fn a_stripped_rust_program_still_has_all_frames() {
    let workshop = Workshop::new();
    let program = workshop.compile_rust("generic.rs", &["-Cstrip=symbols"]);
    let sample = workshop.run(&program, &[]).remove(0);
    let mut unwound = sample.unwind();
    unwound.assert_same_as_backtrace(&sample);
    let frames = unwound.frames(&mut Symbols::new());
    assert!(frames[0].function.starts_with("0x"), "{:?}", frames[0]);
    assert_eq!(frames[0].module.as_deref(), Some("generic"));
}

#[test]
fn a_stripped_program_shows_only_names_that_cover_the_address() {
    let workshop = Workshop::new();
    let program = workshop.compile("gcc", "frames.c", &["-O2", "-rdynamic", "-s"]);
    let sample = workshop.run(&program, &["2"]).remove(0);
    let names = sample.unwind().functions(&mut Symbols::new());
    let named: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| !name.starts_with("0x"))
        .collect();
    assert_eq!(named[..2], ["public_function", "main"], "{names:?}");
    assert!(
        names[..5].iter().all(|name| name.starts_with("0x")),
        "{names:?}"
    );
    // The address is one that binutils understand.
    let offset = u64::from_str_radix(&names[0][2..], 16).expect("hexadecimal");
    let shown = command(
        "objdump",
        &[
            "-d",
            &format!("--start-address={:#x}", offset - 5),
            &format!("--stop-address={offset:#x}"),
            program.to_str().expect("UTF-8"),
        ],
    );
    assert!(shown.contains("<probe"), "{shown}");
}

#[test]
fn debug_information_in_other_files_is_found() {
    for (form, flags) in [
        ("build-id", &["-O2", "-g"][..]),
        ("link", &["-O2", "-g", "-gz", "-Wl,--build-id=none"]),
    ] {
        let workshop = Workshop::new();
        let program = workshop.compile("gcc", "frames.c", flags);
        let global = workshop.split_debug_information(&program, form);
        let sample = workshop.run(&program, &["2"]).remove(0);
        let unwound = sample.unwind();
        let frames = unwound.frames(&mut Symbols::with_debug_directory(global));
        assert_eq!(frames[0].function, "small_frame", "{form}");
        assert!(
            frames[0]
                .file
                .as_ref()
                .is_some_and(|file| file.ends_with("frames.c")),
            "{form}"
        );
        assert!(frames[0].line.is_some(), "{form}");
        let without = unwound.frames(&mut Symbols::with_debug_directory("/nonexistent".into()));
        assert_eq!(
            without[0].function.starts_with("0x"),
            form == "build-id",
            "{form}: {:?}",
            without[0]
        );
    }
}

#[test]
fn debug_information_that_programs_share_is_found() {
    let workshop = Workshop::new();
    let program = workshop.compile("g++", "classes.cc", &["-O2", "-g"]);
    let other = workshop.copy(&program, "other");
    workshop.share_debug_information(&[&program, &other]);
    let sample = workshop.run(&program, &[]).remove(0);
    let unwound = sample.unwind();
    let frames = unwound.frames(&mut Symbols::with_debug_directory("/nonexistent".into()));
    // Only DWARF has the name of a function that is always inlined.
    assert!(frames[0].inlined, "{frames:#?}");
    assert_eq!(frames[0].function, "shop::Shelf<double>::put_inlined()");
}

#[test]
fn frames_below_a_signal_handler_are_found() {
    let workshop = Workshop::new();
    let program = workshop.compile("gcc", "signal.c", &["-O2"]);
    let sample = workshop.run(&program, &[]).remove(0);
    let mut unwound = sample.unwind();
    let names = unwound.functions(&mut Symbols::new());
    assert_eq!(names[0], "in_handler");
    assert!(names.iter().any(|name| name == "interrupted"), "{names:?}");
    assert!(names.iter().any(|name| name == "main"), "{names:?}");
    unwound.assert_same_as_backtrace(&sample);
}

#[test]
fn a_library_that_comes_later_is_found_when_it_is_needed() {
    let workshop = Workshop::new();
    let host = workshop.compile_without_probe("gcc", "host.c", &["-O2"]);
    let plugin = workshop.compile("gcc", "plugin.c", &["-O2", "-shared", "-fPIC"]);
    let mut running = workshop.start(&host, &[plugin.to_str().expect("UTF-8")]);
    let mut watched = running.watch();
    let sample = running.next_sample();
    let stack = watched.unwinder.unwind(
        &mut watched.modules,
        &sample.captured().registers,
        sample.captured().stack,
    );
    running.end();
    let mut symbols = Symbols::new();
    let names: Vec<String> = stack
        .addresses
        .iter()
        .flat_map(|address| symbols.frames(&watched.modules, *address))
        .map(|frame| frame.function)
        .collect();
    assert_eq!(
        names[..4],
        ["deep_in_plugin", "from_plugin", "from_host", "main"]
    );
}

#[test]
fn a_program_that_was_deleted_while_it_runs_has_names() {
    let workshop = Workshop::new();
    let host = workshop.compile_without_probe("gcc", "host.c", &["-O2"]);
    let plugin = workshop.compile("gcc", "plugin.c", &["-O2", "-shared", "-fPIC"]);
    let mut running = workshop.start(&host, &[plugin.to_str().expect("UTF-8")]);
    std::fs::remove_file(&host).expect("it is there");
    let mut watched = running.watch();
    let sample = running.next_sample();
    let stack = watched.unwinder.unwind(
        &mut watched.modules,
        &sample.captured().registers,
        sample.captured().stack,
    );
    running.end();
    let mut symbols = Symbols::new();
    let frames = symbols.frames(&watched.modules, stack.addresses[2]);
    assert_eq!(frames[0].function, "from_host");
    assert_eq!(frames[0].module.as_deref(), Some("host"));
}

#[test]
fn programs_of_the_distribution_have_frames_and_names() {
    let workshop = Workshop::new();
    let preload = workshop.preload_probe();
    for (program, arguments, function) in [
        (
            "/usr/bin/python3",
            &[
                "-c",
                "import os\ndef deeper(n):\n  return deeper(n - 1) if n else os.getuid()\ndeeper(5)",
            ][..],
            Some("Py_BytesMain"),
        ),
        ("/bin/bash", &["-c", ":"], None),
        ("/usr/bin/id", &["-r", "-u"], None),
    ] {
        let samples = workshop.run_with_preload(program.as_ref(), arguments, &preload);
        let sample = samples
            .last()
            .unwrap_or_else(|| panic!("{program} called getuid"));
        let mut unwound = sample.unwind();
        unwound.assert_same_as_backtrace(sample);
        assert_eq!(unwound.stack.end, StackEnd::Root, "{program}");
        let names = unwound.functions(&mut Symbols::new());
        assert!(
            names
                .iter()
                .any(|name| name.starts_with("__libc_start_main")),
            "{program}: {names:?}"
        );
        if let Some(function) = function {
            assert!(
                names.iter().any(|name| name == function),
                "{program}: {names:?}"
            );
        }
    }
}

#[test]
fn aarch64_programs_have_stacks_too() {
    let workshop = Workshop::new();
    for flags in [
        &["-O2", "-static"][..],
        &[
            "-O2",
            "-g",
            "-static",
            "-fomit-frame-pointer",
            "-DTHROUGH_LIBC",
        ],
        &["-O1", "-mbranch-protection=standard"],
    ] {
        let program = workshop.compile("aarch64-linux-gnu-gcc", "frames.c", flags);
        let sample = workshop.run_aarch64(&program, &["4", "40"]).remove(0);
        let mut unwound = sample.unwind();
        let names = unwound.functions(&mut Symbols::new());
        let expected = expected(4);
        assert_eq!(names[..expected.len()], expected, "{flags:?}: {names:?}");
        assert!(
            names.iter().any(|name| name == "main"),
            "{flags:?}: {names:?}"
        );
        assert_eq!(unwound.stack.end, StackEnd::Root, "{flags:?}");
        unwound.assert_same_as_backtrace(&sample);
    }
}

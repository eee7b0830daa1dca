//! Derived libcs with other memory functions: what is taken out for them, who gets which, and how early they work.
#![cfg(target_arch = "x86_64")]

use crate::common;
use crate::common::{
    Workshop, derived_from, derived_with_memory_functions, directory_of_debian, libc_of_debian,
    libc_of_rust, memory_functions,
};
use reheap_elf::archive::{self, Member};
use reheap_elf::derive::{DeriveError, DerivedLibc, MemoryFunctions, derive_libc, read_original};
use reheap_elf::symbols::{self, Role, Symbol};
use std::sync::LazyLock;

static DEBIAN: LazyLock<DerivedLibc> =
    LazyLock::new(|| derived_with_memory_functions(&libc_of_debian()));
static RUST: LazyLock<DerivedLibc> =
    LazyLock::new(|| derived_with_memory_functions(&libc_of_rust()));

fn both() -> [(&'static str, Vec<u8>, &'static DerivedLibc); 2] {
    [
        ("Debian's", libc_of_debian(), &DEBIAN),
        ("Rust's", libc_of_rust(), &RUST),
    ]
}

fn definitions<'a>(members: &'a [Member], name: &'a str) -> impl Iterator<Item = Symbol> + 'a {
    members
        .iter()
        .flat_map(|member| symbols::read(&member.data).unwrap().1)
        .filter(move |symbol| symbol.name == name && symbol.role.is_definition())
}

fn linking_with(derived: &DerivedLibc) -> Workshop {
    let workshop = Workshop::new();
    workshop.write("libc.a", &derived.bytes);
    workshop
}

/// Links a static-pie, which has to relocate itself before a pointer in it is right.
fn link_static_pie(workshop: &Workshop, source: &str) {
    workshop.compile("a", source, "-fno-builtin");
    let crt = directory_of_debian();
    let crt = crt.display();
    let libgcc = workshop.run("gcc -print-libgcc-file-name");
    workshop.run(&format!(
        "ld -static -pie --no-dynamic-linker -z text -o a {crt}/rcrt1.o {crt}/crti.o a.o libc.a {} {crt}/crtn.o",
        libgcc.trim()
    ));
}

#[test]
fn each_function_that_the_libc_had_stands_once_and_no_other_is_added() {
    for (whose, original, derived) in both() {
        let before = archive::read(&original).unwrap();
        let after = archive::read(&derived.bytes).unwrap();
        for name in memory_functions().names.keys() {
            let was_there = definitions(&before, name).count();
            let found: Vec<Symbol> = definitions(&after, name).collect();
            assert_eq!(found.len(), was_there, "{whose} {name}");
            for symbol in found {
                let internal = name.starts_with("__");
                assert_eq!(symbol.hidden, internal, "{whose} {name}");
                let role = if internal { Role::Strong } else { Role::Weak };
                assert_eq!(symbol.role, role, "{whose} {name}");
            }
        }
    }
}

#[test]
fn besides_the_allocator_only_members_of_those_functions_are_taken_out() {
    for (whose, original, derived) in both() {
        let without = derived_from(&original).taken_out;
        let members = archive::read(&original).unwrap();
        for name in derived.taken_out.iter().filter(|m| !without.contains(m)) {
            let mut of_that_name = members.iter().filter(|member| member.name == *name);
            let defines_one = of_that_name.any(|member| {
                let (_, symbols) = symbols::read(&member.data).unwrap();
                let names = &memory_functions().names;
                symbols
                    .iter()
                    .any(|s| s.role.is_definition() && names.contains_key(&s.name))
            });
            assert!(defines_one, "{whose}: `{name}` was taken out");
        }
    }
}

const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
static char early[64];
__attribute__((constructor)) static void constructor(void)
{
    memset(early, 'e', 40);
    memmove(early + 1, early, 41);
}
int main(int argc, char **argv)
{
    static char block[5000], copy[5000];
    memset(block, argc + 'a', sizeof block - 1);
    memcpy(copy, block, sizeof copy);
    printf("%zu %zu %d %ld\n", strlen(early), strlen(copy), memcmp(block, copy, sizeof copy),
        (long)((char *)memchr(copy, 0, sizeof copy) - copy));
    return strchr(argv[0], '/') == 0;
}
"#;

#[test]
fn static_executables_of_both_kinds_work_from_their_first_instruction_on() {
    for (whose, _, derived) in both() {
        let workshop = linking_with(derived);
        link_static_pie(&workshop, PROGRAM);
        assert_eq!(workshop.run("./a"), "41 4999 0 4999\n", "{whose}");
        workshop.run("musl-gcc -O1 -fno-builtin -static a.o -o fixed -L. -no-pie");
        assert_eq!(workshop.run("./fixed"), "41 4999 0 4999\n", "{whose}");
    }
}

#[test]
fn signal_handlers_may_use_what_they_interrupt() {
    let source = r#"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
static volatile sig_atomic_t handled, wrong;
static void handler(int signal)
{
    static char block[3000], copy[3000];
    memset(block, 'a' + handled % 20, 2999);
    memcpy(copy, block, 3000);
    wrong |= memcmp(block, copy, 3000) != 0 || strlen(copy) != 2999;
    handled++;
}
int main(void)
{
    static char block[5000], copy[5000];
    struct itimerval often = {{0, 50}, {0, 50}};
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &often, 0);
    for (unsigned i = 0; handled < 2000; i++) {
        size_t count = i * 7 % 4999 + 1;
        memset(block, 'A' + i % 26, count);
        block[count] = 0;
        memmove(copy, block, count + 1);
        if (memcmp(copy, block, count + 1) || strlen(copy) != count || memchr(copy, 0, 5000) != copy + count) {
            wrong = 1;
            break;
        }
    }
    puts(wrong ? "wrong" : "right");
}
"#;
    let workshop = linking_with(&DEBIAN);
    workshop.write("a.c", source);
    workshop.run("musl-gcc -O1 -fno-builtin -static a.c -o a -L.");
    assert_eq!(workshop.run("./a"), "right\n");
}

/// Calls the functions that search and compare, also those of musl that are made of them (strpbrk, strtok).
const SEARCHING: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <wchar.h>
int main(int argc, char **argv)
{
    char words[64] = "Some words, ", copy[64];
    wchar_t wide[8];
    strncat(words, "and the same WORDS", 12 + argc * 6);
    wmemset(wide, L'w', 8);
    printf("%s|%s|%s\n", strstr(words, "word"), (char *)memmem(words, 30, "the", 3), strcasestr(words, "WORDS,"));
    printf("%d %d\n", strcasecmp("WORDS", "words"), strncasecmp(words, "SOME!", 4));
    printf("%zu %zu %s\n", strspn(words, "Some"), strcspn(words, ",;"), strpbrk(words, "xyzt,"));
    printf("%d %d ", memccpy(copy, words, 'w', 64) == copy + 6, wmemcmp(wide, wide + 1, 7));
    wide[7] = 0;
    printf("%zu %d\n", wcslen(wide), wcschr(wide, L'x') == 0);
    return strtok(words, " ") != words;
}
"#;

#[test]
fn functions_that_search_and_compare_work_with_each_other_and_with_those_of_musl() {
    for (whose, _, derived) in both() {
        let workshop = linking_with(derived);
        link_static_pie(&workshop, SEARCHING);
        let expected = "words, and the same WORDS|the same WORDS|words, and the same WORDS\n\
                        0 0\n4 10 , and the same WORDS\n1 0 7 1\n";
        assert_eq!(workshop.run("./a"), expected, "{whose}");
    }
}

/// Where the executable `a` has a function, if it has it.
fn address_of(workshop: &Workshop, name: &str) -> Option<String> {
    let symbols = workshop.run("nm a");
    let mut lines = symbols.lines().map(|line| line.split(' '));
    lines.find_map(|mut words| {
        let address = words.next()?;
        (words.nth(1) == Some(name)).then(|| address.to_owned())
    })
}

#[test]
fn the_functions_are_the_new_ones() {
    let of_copying = ["memcpy", "memmove", "memset", "memcmp", "memchr", "strlen"];
    let of_searching = [
        "strstr",
        "memmem",
        "strcasecmp",
        "strncasecmp",
        "strcasestr",
        "strspn",
        "strcspn",
        "strncat",
        "memccpy",
        "wcslen",
        "wcschr",
        "wmemcmp",
        "wmemset",
    ];
    let workshop = linking_with(&DEBIAN);
    for (program, functions) in [(PROGRAM, &of_copying[..]), (SEARCHING, &of_searching)] {
        link_static_pie(&workshop, program);
        for function in functions {
            let own = format!("{}{function}", reheap_mem::PREFIX);
            let found = address_of(&workshop, function);
            assert!(found.is_some(), "there is no `{function}`");
            assert_eq!(found, address_of(&workshop, &own));
        }
    }
}

#[test]
fn a_program_gets_no_code_for_searching_that_it_does_not_call() {
    let workshop = linking_with(&DEBIAN);
    link_static_pie(&workshop, PROGRAM);
    for function in ["strstr", "strcasecmp", "strspn", "strncat", "wcslen"] {
        let own = format!("{}{function}", reheap_mem::PREFIX);
        assert_eq!(address_of(&workshop, &own), None);
    }
}

#[test]
fn a_program_with_its_own_memcpy_keeps_it() {
    let workshop = linking_with(&DEBIAN);
    let source = r#"
#include <stdio.h>
#include <string.h>
static int calls;
void *memcpy(void *to, const void *from, size_t n)
{
    calls++;
    for (size_t i = 0; i < n; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}
int main(int argc, char **argv)
{
    char a[9] = "before", b[9];
    memcpy(b, a, sizeof b);
    memmove(b + 1, b, 5); // in the same member of the libc as the memcpy that is not wanted
    printf("%s %d\n", b, calls > 0);
}
"#;
    workshop.write("a.c", source);
    workshop.run("musl-gcc -O1 -fno-builtin -static a.c -o a -L.");
    assert_eq!(workshop.run("./a"), "bbefor 1\n");
}

#[test]
fn a_member_that_defines_something_else_too_is_not_taken_out() {
    let workshop = Workshop::new();
    let source = "#include <string.h>\nvoid *memccpy_of_bsd(void) { return 0; }\n\
                  void *mempcpy(void *to, const void *from, size_t n) { return (char *)to + n; }";
    let object = workshop.compile("both", source, "-fno-builtin -D_GNU_SOURCE");
    let mut members = archive::read(&libc_of_debian()).unwrap();
    members.retain(|member| member.name != "mempcpy.lo");
    members.push(common::member("both.lo", object));
    let original = read_original(&archive::write(&members).unwrap()).unwrap();
    let error = derive_libc(
        &original,
        common::tiny(),
        Some(memory_functions()),
        &common::marker(),
        &[],
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "member `both.lo` defines `memccpy_of_bsd` beside `mempcpy`, so it cannot be taken out"
    );
}

#[test]
fn a_function_without_code_is_refused() {
    let mut functions: MemoryFunctions = memory_functions().clone();
    functions.objects.retain(|object| object.name != "set.o");
    let original = read_original(&libc_of_debian()).unwrap();
    let error = derive_libc(
        &original,
        common::tiny(),
        Some(&functions),
        &common::marker(),
        &[],
    );
    assert_eq!(
        error.unwrap_err(),
        DeriveError::NoMemoryFunction("memset".to_owned())
    );
}

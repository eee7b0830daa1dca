//! Edits the text of the files that preload a library into every program: `/etc/ld.so.preload`, and a script in
//! `/etc/profile.d`. It adds and removes reheap's part, and keeps the rest byte for byte.

/// Where the libraries of `reheap enable` are. Nobody else uses this directory, so anything in it that is not in the
/// record is a leftover.
pub const LIBRARIES: &str = "/usr/local/lib/reheap";
/// What glibc's dynamic linker reads for every program (ld.so(8)).
pub const LD_SO_PRELOAD: &str = "/etc/ld.so.preload";

/// The names in `/etc/ld.so.preload`, as glibc's dynamic linker reads it (elf/rtld.c): between white space and colons,
/// and not after a `#`.
pub fn names(file: &[u8]) -> Vec<String> {
    let lines = file.split(|&byte| byte == b'\n');
    lines
        .flat_map(|line| {
            let text = line.split(|&byte| byte == b'#').next().unwrap_or_default();
            text.split(|byte| is_separator(*byte))
        })
        .filter(|name| !name.is_empty())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

fn is_separator(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b':'
}

/// Whether a library is one that reheap put there.
pub fn is_ours(name: &str) -> bool {
    name.strip_prefix(LIBRARIES)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// `/etc/ld.so.preload` with our library in front of others', which all get their blocks from the first.
pub fn with_library(file: &[u8], library: &str) -> Vec<u8> {
    let mut text = library.as_bytes().to_vec();
    text.push(b'\n');
    text.extend(without_library(file));
    text
}

/// `/etc/ld.so.preload` without our library.
pub fn without_library(file: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(file.len());
    for line in file.split_inclusive(|&byte| byte == b'\n') {
        if !names(line).iter().any(|name| is_ours(name)) {
            text.extend_from_slice(line);
            continue;
        }
        let rest = without_names(line);
        if !rest.trim_ascii().is_empty() {
            text.extend(rest);
        }
    }
    text
}

/// A line without our names and what separates each from the next.
fn without_names(line: &[u8]) -> Vec<u8> {
    let comment = line
        .iter()
        .position(|&byte| byte == b'#')
        .unwrap_or(line.len());
    let (mut names, comment) = line.split_at(comment);
    let mut text = Vec::new();
    while !names.is_empty() {
        let end = names
            .iter()
            .position(|&byte| is_separator(byte))
            .unwrap_or(names.len());
        let (name, rest) = names.split_at(end);
        let separator = rest.first();
        if is_ours(&String::from_utf8_lossy(name)) {
            text.extend(separator.filter(|&&byte| byte == b'\n'));
        } else {
            text.extend_from_slice(name);
            text.extend(separator);
        }
        names = rest.get(1..).unwrap_or_default();
    }
    text.extend_from_slice(comment);
    text
}

const BEGIN: &str = "# reheap: begin; `reheap disable` takes it out";
const END: &str = "# reheap: end";

/// A script for login shells. A login inside a session already has the library.
pub fn profile_script(library: &str) -> String {
    format!(
        "{BEGIN}\n\
         __reheap='{library}'\n\
         case \":${{LD_PRELOAD-}}:\" in\n\
         *\":$__reheap:\"*) ;;\n\
         *) LD_PRELOAD=\"$__reheap${{LD_PRELOAD:+:$LD_PRELOAD}}\"; export LD_PRELOAD ;;\n\
         esac\n\
         unset __reheap\n\
         {END}\n"
    )
}

/// The script without our part: what somebody added to it.
pub fn without_script(file: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut is_inside = false;
    for line in file.split_inclusive(|&byte| byte == b'\n') {
        let trimmed = line.trim_ascii();
        is_inside |= trimmed == BEGIN.as_bytes();
        if !is_inside {
            text.extend_from_slice(line);
        }
        is_inside &= trimmed != END.as_bytes();
    }
    text
}

/// The library that a script sets.
pub fn library_of_script(file: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(file);
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("__reheap='"))?;
    Some(value.strip_suffix('\'')?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "/usr/local/lib/reheap/mimalloc-1/glibc/libmimalloc.so";

    #[test]
    fn names_are_read_as_the_dynamic_linker_reads_them() {
        let file = b"/a.so:/b.so\t/c.so # /d.so\n\n#/e.so\n  f.so";
        assert_eq!(names(file), ["/a.so", "/b.so", "/c.so", "f.so"]);
    }

    #[test]
    fn taking_out_what_was_put_in_gives_the_bytes_that_were_there() {
        for others in ["", "/a.so\n", "/a.so", "# note\n/a.so:/b.so\n\n", "\n"] {
            let with = with_library(others.as_bytes(), OURS);
            assert_eq!(names(&with)[0], OURS);
            assert_eq!(without_library(&with), others.as_bytes(), "{others:?}");
        }
    }

    #[test]
    fn only_our_names_are_taken_out_of_lines_that_others_have_edited() {
        for (edited, expected) in [
            (format!("/a.so:{OURS}:/b.so\n"), "/a.so:/b.so\n"),
            (format!("{OURS} /a.so # x\n/b.so\n"), "/a.so # x\n/b.so\n"),
            (format!("/a.so {OURS}\n"), "/a.so \n"),
            (format!("{OURS} # mine\n"), "# mine\n"),
            (format!("# {OURS}\n"), &format!("# {OURS}\n")),
            (format!("{OURS}\n{OURS}"), ""),
            (
                "/usr/local/lib/reheap-other.so\n".to_owned(),
                "/usr/local/lib/reheap-other.so\n",
            ),
        ] {
            let text = String::from_utf8(without_library(edited.as_bytes())).unwrap();
            assert_eq!(text, expected, "{edited:?}");
        }
    }

    #[test]
    fn what_others_added_to_the_script_stays() {
        let script = profile_script("/x/$LIB/y.so");
        assert_eq!(without_script(script.as_bytes()), b"");
        assert_eq!(
            library_of_script(script.as_bytes()).unwrap(),
            "/x/$LIB/y.so"
        );
        let edited = format!("export A=1\n{script}export B=2\n");
        assert_eq!(
            without_script(edited.as_bytes()),
            b"export A=1\nexport B=2\n"
        );
    }
}

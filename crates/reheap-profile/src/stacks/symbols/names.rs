//! Names as people write them in their sources.

use reheap_elf::family::{PREFIX, of_inner_name};

/// Longer names are left as they are: demangling what a hostile file has for a name can take for ever.
const MANGLED_BYTES_MAX: usize = 4096;
/// And what demangling makes longer than this is left mangled: names refer to parts of themselves, and can explode.
const DEMANGLED_BYTES_MAX: usize = 64 << 10;

/// A name of a Rust or C++ function as it is in the source; every other as it is. Derived libcs and preloads have mangled
/// names of their allocator behind a prefix, and its functions that the glue calls by names of their own.
pub(crate) fn demangle(name: &str) -> String {
    if name.len() > MANGLED_BYTES_MAX {
        return name.to_owned();
    }
    if let Some(function) = of_inner_name(name) {
        return function.to_owned();
    }
    let mangled = name
        .strip_prefix(PREFIX)
        .filter(|rest| rest.starts_with("_Z"));
    let name = mangled.unwrap_or(name);
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        let mut short = Short::default();
        // `#` leaves out the hash of the crate.
        if std::fmt::write(&mut short, format_args!("{rust:#}")).is_ok() {
            return short.0;
        }
        return name.to_owned();
    }
    if name.starts_with("_Z") {
        return cpp(name).unwrap_or_else(|| name.to_owned());
    }
    name.to_owned()
}

fn cpp(name: &str) -> Option<String> {
    let symbol = cpp_demangle::Symbol::new(name).ok()?;
    let options = cpp_demangle::DemangleOptions::new().no_return_type();
    let mut short = Short::default();
    symbol.structured_demangle(&mut short, &options).ok()?;
    Some(short.0)
}

/// Text that refuses to grow beyond its limit.
#[derive(Default)]
struct Short(String);

impl std::fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() > DEMANGLED_BYTES_MAX {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn each_language_has_its_names() {
        for (mangled, plain) in [
            ("main", "main"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
            ("_ZN3abc5WheelD1Ev", "abc::Wheel::~Wheel()"),
            ("_Znwm", "operator new(unsigned long)"),
            ("_Znotaname", "_Znotaname"),
            ("__reheap__ZN3abc5WheelD1Ev", "abc::Wheel::~Wheel()"),
            ("__reheap_malloc", "__reheap_malloc"),
            ("__reheap_inner_free", "free"),
        ] {
            assert_eq!(demangle(mangled), plain);
        }
    }

    #[test]
    fn a_name_that_would_grow_without_end_is_left_as_it_is() {
        // Each substitution doubles the one before it.
        let mut name = "_Z1fI1aE".to_owned();
        for _ in 0..60 {
            name = format!("_Z1fIN1b1cIS_S_EES0_{}", &name[2..]);
        }
        assert!(demangle(&name).len() <= super::DEMANGLED_BYTES_MAX.max(name.len()));
        let long = "_Z".to_owned() + &"N".repeat(100_000);
        assert_eq!(demangle(&long), long);
    }

    proptest::proptest! {
        #[test]
        fn no_name_makes_demangling_fail(name in "(_Z|_R|)[A-Z0-9a-z_]{0,60}") {
            demangle(&name);
        }
    }
}

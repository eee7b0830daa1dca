//! The compilers for crates with C and C++ code, and the library that their C++ code is linked with.
//!
//! The crate `cc`, which `cmake`, `autotools` and `cxx-build` ask as well, reads their names from variables. Most projects
//! have no such code, so it is no error if there is no compiler: those that need one say so.

use reheap_allocators::compiler::{Language, Purpose, names_cxx_library};
use reheap_allocators::target::Target;
use reheap_command::env_vars;
use reheap_workshop::workshop::{Network, Workshop};
use std::ffi::OsString;

/// The variables with compilers for a target, where the user did not name one.
pub(super) fn variables(
    workshop: &Workshop,
    target: &Target,
) -> anyhow::Result<Vec<(String, OsString)>> {
    let wrappers = workshop.cache()?.directory("compilers")?;
    let mut variables = Vec::new();
    for (language, tool, purpose) in [
        (Language::C, "CC", Purpose::Objects),
        (Language::Cxx, "CXX", Purpose::ObjectsWithLibrary),
    ] {
        if is_named(tool, target) {
            continue;
        }
        let Ok(compiler) = workshop.compiler(target, language, purpose) else {
            continue;
        };
        variables.push((
            of_target(tool, target),
            compiler.write_wrapper(&wrappers)?.into(),
        ));
        let library = compiler.other_cxx_library();
        let library = library.filter(|_| language == Language::Cxx && !is_named(LIBRARY, target));
        variables.extend(library.map(|name| (of_target(LIBRARY, target), name.into())));
    }
    variables.push((env_vars::ADDED_COMPILERS.to_owned(), wrappers.into()));
    Ok(variables)
}

/// The variable with the name of the C++ library.
const LIBRARY: &str = "CXXSTDLIB";

fn of_target(tool: &str, target: &Target) -> String {
    format!("{tool}_{}", target.env_suffix())
}

fn is_named(tool: &str, target: &Target) -> bool {
    let names = [
        of_target(tool, target),
        format!("{tool}_{target}"),
        format!("TARGET_{tool}"),
    ];
    names.iter().any(|name| env_vars::variable(name).is_some())
}

/// The argument with which a linker finds the C++ library, if it is to link with one. Where reheap knows no C++ compiler,
/// the library is wherever the user's linker looks.
pub(super) fn search_for_cxx_library(
    arguments: &[OsString],
    triple: &str,
) -> anyhow::Result<Option<OsString>> {
    if !arguments.iter().any(|word| names_cxx_library(word)) {
        return Ok(None);
    }
    let target = reheap_command::choice::musl_target(Some(triple))?;
    let directory = Workshop::new(Network::AsConfigured).cxx_library(&target)?;
    Ok(directory.map(|directory| {
        let mut option = OsString::from("-L");
        option.push(directory);
        option
    }))
}

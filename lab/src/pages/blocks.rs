//! Blocks of a page that are written from data: what is between `<!-- NAME: … -->` and `<!-- end of NAME -->`.
//!
//! Comments, because a page then reads as any other on the web and in an editor, and the words around a block are
//! whatever a person wrote.

use anyhow::{Context, Result};

/// How a block begins: the name, then the command that writes it.
const BEGIN: &str = "<!-- written by `cargo lab pages`: ";

/// The page with every block rewritten.
pub(crate) fn filled(page: &str, text_of: impl Fn(&str) -> Result<String>) -> Result<String> {
    let mut filled = String::new();
    let mut rest = page;
    while let Some(begin) = rest.find(BEGIN) {
        let name_from = begin + BEGIN.len();
        let name_to = name_from
            + rest[name_from..]
                .find(" -->")
                .context("the first comment of a block does not end")?;
        let name = &rest[name_from..name_to];
        let end = format!("<!-- end of {name} -->");
        let end_from = rest
            .find(&end)
            .with_context(|| format!("the block `{name}` does not end with `{end}`"))?;
        filled += &rest[..name_to];
        filled += " -->\n\n";
        filled += text_of(name)?.trim_end();
        filled += "\n\n";
        filled += &end;
        rest = &rest[end_from + end.len()..];
    }
    Ok(filled + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "Before.\n\n<!-- written by `cargo lab pages`: time -->\nold\n<!-- end of time -->\nAfter.\n";

    #[test]
    fn a_block_is_replaced_and_the_rest_kept() {
        let page = filled(PAGE, |name| Ok(format!("new {name}\n"))).unwrap();
        let expected = "Before.\n\n<!-- written by `cargo lab pages`: time -->\n\nnew time\n\n<!-- end of time -->\nAfter.\n";
        assert_eq!(page, expected);
        assert_eq!(
            filled(&page, |name| Ok(format!("new {name}\n"))).unwrap(),
            page
        );
    }

    #[test]
    fn a_block_without_an_end_is_refused() {
        let page = PAGE.replace("end of time", "end of memory");
        let error = filled(&page, |_| Ok(String::new())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the block `time` does not end with `<!-- end of time -->`"
        );
    }
}

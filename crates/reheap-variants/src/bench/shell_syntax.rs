//! Refuses commands that only a shell understands. reheap starts programs itself, so `a | b` would give `a` two
//! arguments more, and what was measured would not be what was meant.

use reheap_command::ui::Failure;

/// Refuses a command in which a shell would do something. It is a value of this flag, which ends with `=` or a blank.
pub(super) fn refuse(flag: &str, command: &str) -> Result<(), Failure> {
    let Some(part) = first_for_a_shell(command) else {
        return Ok(());
    };
    let text = format!("cannot run `{command}`: only a shell understands `{part}`");
    let shell = quoted(&format!("sh -c {}", shell_words::quote(command)));
    let hint = format!("{flag}{shell}; or put `{part}` into quotes, if it is for the program");
    Err(Failure::usage(text).hint(hint))
}

/// The text in quotes for a terminal, in double quotes where that is easier to read.
fn quoted(text: &str) -> String {
    if text.contains(['"', '$', '`', '\\', '!']) {
        shell_words::quote(text).into_owned()
    } else {
        format!("\"{text}\"")
    }
}

/// The first operator or expansion that is not quoted. File names with `*` and `?` are none: a shell gives those that
/// match nothing to the program too.
fn first_for_a_shell(command: &str) -> Option<&str> {
    const OPERATORS: [char; 7] = ['|', '&', ';', '<', '>', '(', ')'];
    let mut quote = None;
    let mut characters = command.char_indices();
    while let Some((place, character)) = characters.next() {
        let rest = &command[place..];
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), close) if open == close => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => drop(characters.next()),
            (None, operator) if OPERATORS.contains(&operator) => {
                let end = rest.find(|c| !OPERATORS.contains(&c));
                return Some(&rest[..end.unwrap_or(rest.len())]);
            }
            (_, '`') => return Some("`"),
            (_, '$') if expansion(rest).is_some() => return expansion(rest),
            _ => {}
        }
    }
    None
}

/// `$NAME`, `${` or `$(` at the beginning of a text. A dollar sign in front of anything else is one.
fn expansion(text: &str) -> Option<&str> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = text[1..].find(|c| !is_of_name(c)).unwrap_or(text.len() - 1);
    match text[1..].chars().next()? {
        '{' | '(' => Some(&text[..2]),
        _ => (name > 0).then(|| &text[..=name]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_do_is_found_unless_it_is_quoted() {
        for (command, part) in [
            ("sort words | uniq -c", "|"),
            ("make -j2>log", ">"),
            ("./configure&&make", "&&"),
            ("a; b", ";"),
            ("cat <in", "<"),
            ("(cd x", "("),
            ("ls $HOME/bin", "$HOME"),
            ("echo \"$(date)\"", "$("),
            ("du ${DIR}", "${"),
            ("kill `cat pid`", "`"),
        ] {
            assert_eq!(first_for_a_shell(command), Some(part), "{command}");
        }
        for command in [
            "sh -c 'sort words | uniq -c > counts'",
            "grep \"a|b\" words",
            r"grep a\|b words",
            "awk '{ print $1 }' words",
            "grep end$ words",
            "./app --threads {threads} *.txt",
        ] {
            assert_eq!(first_for_a_shell(command), None, "{command}");
        }
    }

    #[test]
    fn the_way_out_is_what_a_person_types() {
        assert_eq!(quoted("sh -c 'a | b'"), "\"sh -c 'a | b'\"");
        let difficult = quoted("sh -c 'echo $HOME'");
        assert_eq!(
            shell_words::split(&difficult).unwrap(),
            ["sh -c 'echo $HOME'"]
        );
    }
}

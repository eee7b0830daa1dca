//! The stages of a Dockerfile, what is installed in them, and what is copied into them.
//!
//! Only what is needed to say whether a file is there (Docker docs, "Dockerfile reference"). Rejected: the crate
//! `parse-dockerfile`. It refuses a whole file for one instruction that it does not know, as templates have them, and
//! gives no variable its value.

use super::shell;
use crate::text::Text;
use std::collections::BTreeMap;

/// A Dockerfile.
#[derive(Debug, Default)]
pub(crate) struct Dockerfile {
    /// Its stages.
    pub(crate) stages: Vec<Stage>,
}

/// From one `FROM` to the next.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The image that it begins with; `$` where a variable has no value.
    pub(crate) image: String,
    /// The stage that it begins with.
    pub(crate) parent: Option<usize>,
    /// Its name, in lower case.
    pub(crate) name: String,
    /// What it does.
    pub(crate) instructions: Vec<Instruction>,
}

/// One instruction.
#[derive(Debug)]
pub(crate) struct Instruction {
    /// In capitals.
    pub(crate) keyword: String,
    /// What is behind it, with continued lines; variables have their values if these are known.
    pub(crate) text: String,
    /// Its line, from 1.
    pub(crate) line: usize,
}

/// Variables with known values.
type Variables = BTreeMap<String, String>;
/// A longer value counts as unknown: lines such as `ENV A=$A$A` would fill the memory.
const VALUE_BYTES_MAX: usize = 4096;

impl Dockerfile {
    /// Reads one; whatever makes no sense is left out.
    pub(crate) fn of(text: &Text) -> Self {
        let mut found = Self::default();
        let mut global = Variables::new();
        let mut variables = Variables::new();
        for (instruction, line) in instructions(text) {
            let (keyword, rest) = instruction
                .split_once(char::is_whitespace)
                .unwrap_or((&instruction, ""));
            let keyword = keyword.to_uppercase();
            // A RUN's variables are the shell's, and may change in it.
            let rest = match keyword.as_str() {
                "RUN" => rest.trim().to_owned(),
                _ => with_values(rest.trim(), &variables),
            };
            match keyword.as_str() {
                "FROM" => {
                    let rest = with_values(&rest, &global);
                    let stage = found.stage(&rest);
                    found.stages.push(stage);
                    variables.clear();
                    continue;
                }
                "ARG" | "ENV" => {
                    let is_global = found.stages.is_empty();
                    for (name, value) in assignments(&keyword, &rest) {
                        let value = value.or_else(|| global.get(&name).cloned());
                        let scope = if is_global {
                            &mut global
                        } else {
                            &mut variables
                        };
                        match value {
                            Some(value) => _ = scope.insert(name, value),
                            None => _ = scope.remove(&name),
                        }
                    }
                }
                _ => {}
            }
            if let Some(stage) = found.stages.last_mut() {
                stage.instructions.push(Instruction {
                    keyword,
                    text: rest,
                    line,
                });
            }
        }
        found
    }

    fn stage(&self, from: &str) -> Stage {
        let mut words = from
            .split_whitespace()
            .filter(|word| !word.starts_with("--"));
        let image = words.next().unwrap_or("").to_owned();
        let is_as = words
            .next()
            .is_some_and(|word| word.eq_ignore_ascii_case("as"));
        let name = words.next().filter(|_| is_as).unwrap_or("").to_lowercase();
        let named = image.to_lowercase();
        Stage {
            parent: self
                .stages
                .iter()
                .rposition(|stage| !stage.name.is_empty() && stage.name == named),
            image,
            name,
            instructions: Vec::new(),
        }
    }

    /// The image that a stage, and all before it, begins with.
    pub(crate) fn base(&self, stage: usize) -> &str {
        let first = self.lineage(stage).last().unwrap_or(stage);
        &self.stages[first].image
    }

    /// The instructions of a stage, of those before it, and of those that begin with it.
    pub(crate) fn around(&self, stage: usize) -> impl Iterator<Item = &Instruction> {
        let all = (0..self.stages.len()).filter(move |other| {
            self.begins_with(stage, *other) || self.begins_with(*other, stage)
        });
        all.flat_map(|index| &self.stages[index].instructions)
    }

    fn begins_with(&self, stage: usize, with: usize) -> bool {
        self.lineage(stage).any(|ancestor| ancestor == with)
    }

    /// A stage, the one that it begins with, and so on.
    fn lineage(&self, stage: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(stage), |index| self.stages[*index].parent)
    }
}

/// `NAME=value` pairs of ARG and ENV, or the old `ENV NAME value`. An ARG may have no value.
pub(crate) fn assignments(keyword: &str, text: &str) -> Vec<(String, Option<String>)> {
    let commands = shell::commands(text);
    let words = commands
        .first()
        .map_or(&[][..], |command| &command.words[..]);
    match words {
        [name, value, ..] if keyword == "ENV" && !name.contains('=') => {
            vec![(name.clone(), Some(value.clone()))]
        }
        words => words
            .iter()
            .map(|word| match word.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (word.clone(), None),
            })
            .collect(),
    }
}

/// Instructions with the lines that continue them, here-documents too, and the line where each begins.
fn instructions(text: &Text) -> Vec<(String, usize)> {
    let mut all: Vec<(String, usize)> = Vec::new();
    let mut lines = text.contents.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let is_comment = |line: &str| line.trim_start().starts_with('#');
        if line.trim().is_empty() || is_comment(line) {
            continue;
        }
        let mut instruction = line.trim().to_owned();
        while let Some(rest) = instruction.strip_suffix('\\') {
            instruction = format!("{rest} ");
            let next = lines.find(|(_, line)| !is_comment(line) && !line.trim().is_empty());
            let Some((_, next)) = next else { break };
            instruction.push_str(next.trim());
        }
        for end in here_documents(&instruction) {
            for (_, line) in lines.by_ref() {
                if line.trim() == end {
                    break;
                }
                instruction.push('\n');
                instruction.push_str(line);
            }
        }
        all.push((instruction, index + 1));
    }
    all
}

/// The words that end the here-documents of an instruction.
fn here_documents(instruction: &str) -> Vec<String> {
    let keyword = instruction.split_whitespace().next().unwrap_or("");
    if !["RUN", "COPY", "ADD"]
        .iter()
        .any(|known| keyword.eq_ignore_ascii_case(known))
    {
        return Vec::new();
    }
    let words = instruction.split_whitespace();
    let starts = words.filter_map(|word| word.strip_prefix("<<"));
    let ends = starts.map(|word| word.trim_start_matches('-').trim_matches(['"', '\'']));
    ends.filter(|end| {
        !end.is_empty()
            && end
                .chars()
                .all(|letter| letter.is_alphanumeric() || letter == '_')
    })
    .map(str::to_owned)
    .collect()
}

/// `$NAME`, `${NAME}` and `${NAME:-value}` with their values; unknown ones stay.
fn with_values(text: &str, variables: &Variables) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        result.push_str(before);
        let is_escaped = before.ends_with('\\');
        match reference(&from[1..]).filter(|_| !is_escaped) {
            Some((name, default, bytes)) => {
                let whole = &from[..1 + bytes];
                let known = variables.get(name).map(String::as_str);
                let value = known
                    .filter(|value| value.len() <= VALUE_BYTES_MAX)
                    .or(default);
                result.push_str(value.unwrap_or(whole));
                rest = &from[1 + bytes..];
            }
            None => {
                result.push('$');
                rest = &from[1..];
            }
        }
    }
    result + rest
}

/// The name, the default, and the bytes of a variable behind `$`.
fn reference(text: &str) -> Option<(&str, Option<&str>, usize)> {
    let name_bytes = |text: &str| {
        let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        end.unwrap_or(text.len())
    };
    let Some(inside) = text.strip_prefix('{') else {
        let bytes = name_bytes(text);
        return (bytes > 0).then(|| (&text[..bytes], None, bytes));
    };
    let end = inside.find('}')?;
    let name = name_bytes(inside).min(end);
    let default = inside[name..end].strip_prefix(":-");
    let is_known = name > 0 && (default.is_some() || name == end);
    is_known.then(|| (&inside[..name], default, end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn dockerfile(contents: &str) -> Dockerfile {
        Dockerfile::of(&Text {
            path: PathBuf::from("Dockerfile"),
            contents: contents.to_owned(),
        })
    }

    #[test]
    fn stages_know_their_base_through_names_and_arguments() {
        let found = dockerfile(
            "ARG RELEASE=bookworm\n# a comment\nFROM --platform=$BUILDPLATFORM rust:1-${RELEASE} AS Build\nRUN a \\\n\
             # between\n  && b\n\nFROM build\nENV A=\"x y\" B=2\nENV C $B\nFROM debian:${NONE:-12}\nFROM alpine:$NONE\n",
        );
        let bases: Vec<&str> = (0..4).map(|stage| found.base(stage)).collect();
        assert_eq!(
            bases,
            [
                "rust:1-bookworm",
                "rust:1-bookworm",
                "debian:12",
                "alpine:$NONE"
            ]
        );
        let [run] = &found.stages[0].instructions[..] else {
            panic!("{found:?}");
        };
        assert_eq!(
            (run.text.as_str(), run.line),
            ("a && b".replace("a &&", "a  &&").as_str(), 4)
        );
        assert_eq!(found.stages[1].instructions[1].text, "C 2");
        assert_eq!(found.around(0).count(), 3);
    }

    #[test]
    fn values_that_double_with_each_line_become_unknown() {
        let doubling = "ENV A=$A$A\n".repeat(60);
        let found = dockerfile(&format!(
            "FROM alpine\nENV A=12345678\n{doubling}COPY a $A\n"
        ));
        let [_, first, .., copy] = &found.stages[0].instructions[..] else {
            panic!("{found:?}");
        };
        assert_eq!(first.text, "A=1234567812345678");
        assert!(copy.text.len() < 3 * VALUE_BYTES_MAX, "{}", copy.text.len());
    }

    #[test]
    fn a_here_document_belongs_to_its_instruction() {
        let found = dockerfile("FROM alpine\nRUN <<EOF\napk add jemalloc\nFROM x\nEOF\nUSER 1\n");
        assert_eq!(found.stages.len(), 1);
        assert_eq!(found.stages[0].instructions.len(), 2);
    }
}

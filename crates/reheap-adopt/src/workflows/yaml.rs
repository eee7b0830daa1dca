//! The image beside a line of YAML: of a service in Compose, a container in Kubernetes, a job of a workflow.

/// The container that a line is about, by the mappings around it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Container {
    /// `image`, or `container` if that is one.
    pub(crate) image: Option<String>,
    /// Whether files come from elsewhere: a build, volumes, steps.
    pub(crate) has_other_files: bool,
}

/// Looks at the keys of the mappings around a line, by indentation.
pub(crate) fn container_of(text: &str, line: usize) -> Container {
    let lines: Vec<&str> = text.lines().collect();
    let Some(own) = lines.get(line.wrapping_sub(1)) else {
        return Container::default();
    };
    let mut found = Container::default();
    let mut depth = indentation(own);
    // The nearest mapping with an image is the one that it is for.
    let mut at = line - 1;
    while depth > 0 && found.image.is_none() {
        let above = lines[..at]
            .iter()
            .rposition(|line| is_there(line) && indentation(line) < depth);
        let Some(above) = above else { break };
        at = above;
        depth = indentation(lines[at]);
        keys_at(&lines, at, depth, &mut found);
    }
    found
}

/// The keys of the mapping with this line. An item of a list is a mapping of its own.
fn keys_at(lines: &[&str], at: usize, depth: usize, found: &mut Container) {
    let is_item = |line: &str| indentation(line) == depth && line.trim_start().starts_with('-');
    let is_outside = |line: &&str| is_there(line) && indentation(line) < depth;
    let mut first = at;
    while !is_item(lines[first]) && first > 0 && !is_outside(&lines[first - 1]) {
        first -= 1;
    }
    let rest = &lines[first + 1..];
    let end = rest
        .iter()
        .position(|line| is_outside(line) || is_there(line) && is_item(line));
    let last = first + 1 + end.unwrap_or(rest.len());
    for line in lines[first..last]
        .iter()
        .filter(|line| is_there(line) && indentation(line) == depth)
    {
        let pair = line.trim_start_matches(['-', ' ']).split_once(':');
        let Some((key, value)) = pair else { continue };
        let value = value
            .split(" #")
            .next()
            .unwrap_or("")
            .trim()
            .trim_matches(['"', '\'']);
        match key.trim() {
            "image" | "container" if !value.is_empty() => found.image = Some(value.to_owned()),
            "build" | "volumes" | "volumeMounts" | "configs" | "steps" | "extends" | "<<" => {
                found.has_other_files = true;
            }
            _ => {}
        }
    }
}

fn is_there(line: &&str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

/// Of the key; that of a list's item is behind the dash.
fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(['-', ' ']).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_of_the_same_service_is_found() {
        let compose = "services:\n  a:\n    image: python:3.12-alpine # small\n    environment:\n      - LD_PRELOAD=x\n\
                       \x20 b:\n    build: .\n    environment:\n      LD_PRELOAD: y\n";
        let a = container_of(compose, 5);
        assert_eq!(a.image.as_deref(), Some("python:3.12-alpine"));
        assert!(!a.has_other_files);
        let b = container_of(compose, 9);
        assert_eq!(b.image, None);
        assert!(b.has_other_files);
    }

    #[test]
    fn the_image_of_the_same_container_is_found() {
        let pod = "spec:\n  containers:\n    - name: one\n      image: debian:12\n    - name: two\n      image: alpine\n\
                   \x20     env:\n        - name: LD_PRELOAD\n          value: x\n";
        assert_eq!(container_of(pod, 9).image.as_deref(), Some("alpine"));
        let first = "a:\n  - image: x\n    env:\n      LD_PRELOAD: y\n  - image: z\n";
        assert_eq!(container_of(first, 4).image.as_deref(), Some("x"));
    }
}
